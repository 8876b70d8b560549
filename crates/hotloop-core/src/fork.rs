//! Detection of forked children: threads do not survive a fork, so owners of threads must notice it.

#[cfg(unix)]
mod unix {
    use std::sync::Once;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static GENERATION: AtomicUsize = AtomicUsize::new(0);
    static INSTALL: Once = Once::new();

    extern "C" fn forked() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that differs between a process and its forked children.
    pub fn generation() -> usize {
        // SAFETY: the handler only adds to an atomic.
        INSTALL.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(forked));
        });
        GENERATION.load(Ordering::Relaxed)
    }
}

#[cfg(unix)]
pub use unix::generation;

/// Without fork there is only one.
#[cfg(not(unix))]
pub fn generation() -> usize {
    0
}
