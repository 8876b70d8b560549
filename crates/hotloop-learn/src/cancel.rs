//! Cancelling long calls, by a second Ctrl-C for example.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Interval between two polls; shorter calls are never polled.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whether work is to stop. All threads may ask; only the calling thread polls, every so often.
///
/// Cancelled work leaves its output incomplete.
pub struct CancelToken<'a> {
    poll: &'a (dyn Fn() -> bool + Sync),
    caller: ThreadId,
    polled: Mutex<Instant>,
    cancelled: AtomicBool,
}

impl<'a> CancelToken<'a> {
    /// A token that is cancelled when `poll`, called on this thread, returns true.
    pub fn new(poll: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            poll,
            caller: thread::current().id(),
            polled: Mutex::new(Instant::now()),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        if thread::current().id() == self.caller && !self.cancelled.load(Ordering::Relaxed) {
            let mut polled = self.polled.lock().expect("only the caller's thread takes it");
            if polled.elapsed() >= INTERVAL {
                if (self.poll)() {
                    self.cancel();
                }
                *polled = Instant::now();
            }
        }
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Asks all threads to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl CancelToken<'static> {
    /// A token that is never cancelled.
    pub fn never() -> Self {
        Self::new(&|| false)
    }
}
