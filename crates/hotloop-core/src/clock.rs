//! A clock that is comparable between processes.

/// Seconds of the system's monotonic clock, the same in every process: Python's `time.monotonic`.
#[cfg(unix)]
pub fn monotonic() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the time, which lives as long as it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Elsewhere there are no worker processes: seconds since the first call.
#[cfg(not(unix))]
pub fn monotonic() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}
