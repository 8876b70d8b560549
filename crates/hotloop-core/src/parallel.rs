//! A thread_pool for work that is split on the spot: `run` hands out the parts of one closure and returns when all are done.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::thread_pool::ThreadPool;

/// A closure that lives until `run` returns.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn(usize) + Sync));
// SAFETY: the closure is `Sync`, and `run` keeps it alive while threads use it.
unsafe impl Send for Work {}

type Panic = Box<dyn std::any::Any + Send>;

#[derive(Default)]
struct Shared {
    work: Mutex<Option<Work>>,
    panic: Mutex<Option<Panic>>,
}

/// Threads that share out the parts of a task.
pub struct ParallelFor {
    thread_pool: ThreadPool,
    shared: Arc<Shared>,
    ended: Vec<usize>,
}

impl ParallelFor {
    /// `threads` in all, the caller among them.
    pub fn new(threads: usize, pin: bool) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread_pool = ThreadPool::new(threads, pin, move |part| {
            let work = *theirs.work.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(work) = work else { return };
            // SAFETY: `run` does not return before this part has ended.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| unsafe { (*work.0)(part) })) {
                *theirs.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
        })?;
        Ok(Self { thread_pool, shared, ended: Vec::new() })
    }

    /// How many threads there are, the caller among them.
    pub fn threads(&self) -> usize {
        self.thread_pool.threads()
    }

    /// Whether this process was forked off the one that started the threads.
    pub fn lost(&self) -> bool {
        self.thread_pool.lost()
    }

    /// Does parts 0 to `parts - 1`, in any order, on all threads.
    pub fn run(&mut self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.threads() == 1 {
            (0..parts).for_each(work);
            return;
        }
        // SAFETY: only the lifetime changes; the reference is gone from `shared` before it ends.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Work(work));
        self.thread_pool.submit_all(parts);
        while !self.thread_pool.wait(parts, Duration::from_secs(3600)) {}
        self.ended.clear();
        self.thread_pool.take(parts, &mut self.ended);
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(panic) = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            resume_unwind(panic);
        }
    }
}
