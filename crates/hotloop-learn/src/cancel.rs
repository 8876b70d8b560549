//! Long calls that their caller may want to end early: a second Ctrl-C, say.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Time from one question to the next; shorter calls are never disturbed.
const PACE: Duration = Duration::from_millis(100);

/// Whether work is to go on. All threads may look; only the one that called is asked, every so often.
///
/// Work that was given up leaves everything it was writing to half done.
pub struct CancelToken<'a> {
    ask: &'a (dyn Fn() -> bool + Sync),
    caller: ThreadId,
    asked: Mutex<Instant>,
    over: AtomicBool,
}

impl<'a> CancelToken<'a> {
    /// `ask` tells, on this thread, whether to give up.
    pub fn new(ask: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { ask, caller: thread::current().id(), asked: Mutex::new(Instant::now()), over: AtomicBool::new(false) }
    }

    /// Whether to give up.
    pub fn over(&self) -> bool {
        if thread::current().id() == self.caller && !self.over.load(Ordering::Relaxed) {
            let mut asked = self.asked.lock().expect("only the caller's thread takes it");
            if asked.elapsed() >= PACE {
                self.over.store((self.ask)(), Ordering::Relaxed);
                *asked = Instant::now();
            }
        }
        self.over.load(Ordering::Relaxed)
    }
}

impl CancelToken<'static> {
    /// Without end.
    pub fn endless() -> Self {
        Self::new(&|| false)
    }
}
