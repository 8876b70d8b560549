//! A thread pool for work that is split on the spot: `run` hands out the parts of one closure and returns when all are done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::panics::{self, Panic};
use crate::thread_pool::ThreadPool;

/// A closure that lives until `run` returns.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn(usize) + Sync));
// SAFETY: the closure is `Sync`, and `run` keeps it alive while threads use it.
unsafe impl Send for Work {}

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
            if let Err(panic) = panics::catch(|| unsafe { (*work.0)(part) }) {
                *theirs.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
        })?;
        Ok(Self { thread_pool, shared, ended: Vec::new() })
    }

    /// Number of threads, the caller included.
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
            panics::resume(panic);
        }
    }
}

/// The workspace behind a lock, unless a thread has it; also after a panic, since every user of a workspace fills it first.
pub fn free<T>(workspace: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match workspace.try_lock() {
        Ok(workspace) => Some(workspace),
        Err(TryLockError::Poisoned(workspace)) => Some(workspace.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Runs tasks at the same time, the first on the calling thread and each of the others on a thread of its own; returns
/// when all have ended. A panic in one of them continues here.
pub fn run_scoped(tasks: impl IntoIterator<Item = impl FnOnce() + Send>) {
    let mut tasks = tasks.into_iter();
    let first = tasks.next();
    let outcomes: Vec<Result<(), Panic>> = std::thread::scope(|scope| {
        let others: Vec<_> = tasks.map(|task| scope.spawn(|| panics::catch(task))).collect();
        let own = first.map(panics::catch);
        own.into_iter().chain(others.into_iter().map(|other| other.join().expect("the panic was caught"))).collect()
    });
    if let Some(panic) = outcomes.into_iter().find_map(Result::err) {
        panics::resume(panic);
    }
}
