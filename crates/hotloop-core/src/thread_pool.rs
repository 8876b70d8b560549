//! Threads that run numbered tasks. The caller is one of them while it waits, so a thread pool of one has no thread at all.
//!
//! Each task has a home thread, so that its data stays in one core's cache; idle threads steal from others.
//!
//! Idle threads spin for at most 50 microseconds, and only where there is a core for each, then sleep.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cpu;
use crate::fork;

const SPIN: Duration = Duration::from_micros(50);

/// Threads with one kind of task.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    born: usize,
}

struct Shared {
    run: Box<dyn Fn(usize) + Send + Sync>,
    queue: Mutex<Queue>,
    queued: AtomicUsize,
    work: Condvar,
    done: Mutex<Done>,
    finished: AtomicUsize,
    ready: Condvar,
    stop: AtomicBool,
    spin: bool,
}

struct Queue {
    /// By home thread.
    tasks: Vec<VecDeque<usize>>,
    count: usize,
    sleepers: usize,
}

impl Queue {
    /// The next task of this thread, or the last one of the thread that has most left.
    fn take(&mut self, thread: usize) -> Option<usize> {
        let own = self.tasks[thread].pop_front();
        let task = own.or_else(|| self.tasks.iter_mut().max_by_key(|tasks| tasks.len())?.pop_back())?;
        self.count -= 1;
        Some(task)
    }
}

#[derive(Default)]
struct Done {
    tasks: Vec<usize>,
    waiting: bool,
}

/// Tasks never leave the queues half-changed, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn pop(&self, thread: usize) -> Option<usize> {
        if self.queued.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = lock(&self.queue);
        let task = queue.take(thread);
        self.queued.store(queue.count, Ordering::Release);
        task
    }

    fn perform(&self, task: usize) {
        (self.run)(task);
        let mut done = lock(&self.done);
        done.tasks.push(task);
        self.finished.store(done.tasks.len(), Ordering::Release);
        if done.waiting {
            self.ready.notify_one();
        }
    }

    fn spin_until(&self, happened: impl Fn() -> bool) -> bool {
        if !self.spin {
            return happened();
        }
        let start = Instant::now();
        loop {
            for _ in 0..32 {
                if happened() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    fn work(&self, thread: usize) {
        while !self.stop.load(Ordering::Acquire) {
            if let Some(task) = self.pop(thread) {
                self.perform(task);
                continue;
            }
            if self.spin_until(|| self.queued.load(Ordering::Acquire) > 0 || self.stop.load(Ordering::Acquire)) {
                continue;
            }
            let mut queue = lock(&self.queue);
            while queue.count == 0 && !self.stop.load(Ordering::Acquire) {
                queue.sleepers += 1;
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.sleepers -= 1;
            }
        }
    }
}

impl ThreadPool {
    /// `threads` in all, the caller among them; `pin` ties each of the others to a core of its own.
    pub fn new(threads: usize, pin: bool, run: impl Fn(usize) + Send + Sync + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            run: Box::new(run),
            queue: Mutex::new(Queue { tasks: vec![VecDeque::new(); threads], count: 0, sleepers: 0 }),
            queued: AtomicUsize::new(0),
            work: Condvar::new(),
            done: Mutex::default(),
            finished: AtomicUsize::new(0),
            ready: Condvar::new(),
            stop: AtomicBool::new(false),
            spin: threads <= cpu::usable_cores(),
        });
        let cores = if pin { cpu::allowed_cores() } else { Vec::new() };
        let mut thread_pool = Self { shared, threads: Vec::new(), born: fork::generation() };
        for index in 1..threads {
            let shared = thread_pool.shared.clone();
            let core = cores.get(index % cores.len().max(1)).copied();
            let thread = std::thread::Builder::new().name(format!("hotloop-{index}")).spawn(move || {
                if let Some(core) = core {
                    cpu::pin_to(core);
                }
                shared.work(index);
            })?;
            thread_pool.threads.push(thread);
        }
        Ok(thread_pool)
    }

    /// Whether this process is a forked child of the one that started the threads.
    pub fn lost(&self) -> bool {
        self.born != fork::generation()
    }

    /// Number of threads that run tasks, the waiting caller included.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Queues one of `all` tasks.
    pub fn submit(&self, task: usize, all: usize) {
        self.queue(task..task + 1, all, 0);
    }

    /// Queues tasks 0 to `all - 1` before a wait for all of them: the caller does one itself, so one thread less is
    /// woken.
    pub fn submit_all(&self, all: usize) {
        self.queue(0..all, all, 1);
    }

    fn queue(&self, tasks: Range<usize>, all: usize, kept: usize) {
        let count = tasks.len() - kept;
        let mut queue = lock(&self.shared.queue);
        queue.count += tasks.len();
        for task in tasks {
            queue.tasks[task * self.threads() / all].push_back(task);
        }
        self.shared.queued.store(queue.count, Ordering::Release);
        let wake = queue.sleepers.min(count);
        drop(queue);
        for _ in 0..wake {
            self.shared.work.notify_one();
        }
    }

    /// Waits, and works, until `count` tasks have ended or the time is up; whether they have.
    pub fn wait(&self, count: usize, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let enough = || self.shared.finished.load(Ordering::Acquire) >= count;
        loop {
            if enough() {
                return true;
            }
            if let Some(task) = self.shared.pop(0) {
                self.shared.perform(task);
                continue;
            }
            if self.shared.spin_until(enough) {
                return true;
            }
            let mut done = lock(&self.shared.done);
            while done.tasks.len() < count {
                let Some(left) = until.checked_duration_since(Instant::now()) else {
                    return false;
                };
                done.waiting = true;
                done = self.shared.ready.wait_timeout(done, left).unwrap_or_else(PoisonError::into_inner).0;
                done.waiting = false;
            }
        }
    }

    /// Takes up to `count` ended tasks, in the order they ended.
    pub fn take(&self, count: usize, into: &mut Vec<usize>) {
        let mut done = lock(&self.shared.done);
        let count = count.min(done.tasks.len());
        into.extend(done.tasks.drain(..count));
        self.shared.finished.store(done.tasks.len(), Ordering::Release);
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if self.lost() {
            // Their handles mean nothing in a forked child.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        // Taking the lock makes sure that no thread is between looking at `stop` and going to sleep.
        drop(lock(&self.shared.queue));
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A task reports its own panics; there is nothing more to say about a thread that ends.
            let _ = thread.join();
        }
    }
}
