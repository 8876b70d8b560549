//! Wake-ups between a runner and its worker processes: words in shared memory, waited for with futexes.
//!
//! Nothing here is ever locked, so a worker that is killed at any instruction leaves nothing that others wait for. A
//! group is handed over by a counter: whoever reads its new value also sees all earlier writes.
//!
//! Waking a process costs more than everything else here. So only sleeping processes are woken, and the runner publishes
//! how many groups it waits for: only the last of them wakes it. If there are enough cores, an idle worker polls for a
//! moment before it sleeps, yielding its core to others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Words that lie on one cache line.
const LINE: usize = 16;
/// Words of a waiter: its bell, and whether it sleeps.
const BELL: usize = 0;
const ASLEEP: usize = 1;
/// Additional word of a worker: the number of waits without polling that are left.
const SLEEPS: usize = 2;
/// Additional words of the runner.
const ALARM: usize = 2;
const TICKETS: usize = 3;
const MISSING: usize = 4;
/// Words of a group.
const REQUEST: usize = 0;
const DONE: usize = 1;
const TICKET: usize = 2;
const COMMAND: usize = 3;

/// Time that a worker polls for work before it sleeps: longer than the runner's turn and the lead over the slowest worker
/// took with steps of 10 us. To wake one that slept took the runner 20 to 30 us, on a virtual machine of two cores.
const AWAKE: Duration = Duration::from_micros(200);
/// Number of waits without polling after a poll that found nothing. A worker must poll again at some point: if all
/// sleep, all wait longer.
const SLEEPS_AFTER: u32 = 8;

/// The words of one runner: its own bell, a bell for each worker, and a line for each group.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    words: &'a [AtomicU32],
    workers: usize,
    groups: usize,
}

impl<'a> Signals<'a> {
    /// Number of words that a runner needs.
    pub fn words(workers: usize, groups: usize) -> usize {
        workers.saturating_add(groups).saturating_add(1).saturating_mul(LINE)
    }

    /// Uses words that are initially zero and shared with the other processes.
    pub fn new(words: &'a [AtomicU32], workers: usize, groups: usize) -> Self {
        assert!(words.len() >= Self::words(workers, groups), "there are words for every worker and group");
        Self { words, workers, groups }
    }

    fn runner(&self) -> &'a [AtomicU32] {
        &self.words[..LINE]
    }

    fn worker(&self, worker: usize) -> &'a [AtomicU32] {
        assert!(worker < self.workers, "there is a worker {worker}");
        &self.words[(1 + worker) * LINE..][..LINE]
    }

    fn group(&self, group: usize) -> &'a [AtomicU32] {
        assert!(group < self.groups, "there is a group {group}");
        &self.words[(1 + self.workers + group) * LINE..][..LINE]
    }

    fn ticket(&self) -> u32 {
        self.words[TICKETS].fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a group to its worker.
    pub fn send(&self, group: usize, worker: usize, command: u32) {
        let words = self.group(group);
        words[COMMAND].store(command, Ordering::Relaxed);
        words[TICKET].store(self.ticket(), Ordering::Relaxed);
        words[REQUEST].fetch_add(1, Ordering::Release);
        ring(self.worker(worker));
    }

    /// Takes a group back from a lost worker; it counts as done.
    pub fn take_back(&self, group: usize) {
        let words = self.group(group);
        words[DONE].store(words[REQUEST].load(Ordering::Relaxed), Ordering::Release);
    }

    fn is_done(&self, group: usize) -> bool {
        let words = self.group(group);
        words[DONE].load(Ordering::SeqCst) == words[REQUEST].load(Ordering::Relaxed)
    }

    /// Waits until `count` of the groups in flight are done, an alarm is raised, or the time is up; returns those that are
    /// done, in the order in which they finished.
    pub fn receive(&self, flying: &[usize], count: usize, time: Duration) -> Vec<usize> {
        let start = Instant::now();
        let own = self.runner();
        loop {
            let seen = own[BELL].load(Ordering::SeqCst);
            let known = flying.iter().filter(|group| self.is_done(**group)).count();
            own[MISSING].store(count.saturating_sub(known) as u32, Ordering::SeqCst);
            // Check again: groups that finished before the number was published did not count towards it.
            let mut ready: Vec<usize> = flying.iter().copied().filter(|group| self.is_done(*group)).collect();
            let left = time.saturating_sub(start.elapsed());
            if ready.len() >= count || left.is_zero() || own[ALARM].swap(0, Ordering::AcqRel) != 0 {
                let newest = self.words[TICKETS].load(Ordering::Relaxed);
                // By age, so that counters may wrap.
                let age = |group: &usize| newest.wrapping_sub(self.group(*group)[TICKET].load(Ordering::Relaxed));
                ready.sort_by_key(|group| std::cmp::Reverse(age(group)));
                return ready;
            }
            if ready.len() == known {
                wait(own, seen, left);
            }
        }
    }

    /// Makes `receive` return, now or when it is called next.
    pub fn alarm(&self) {
        self.words[ALARM].store(1, Ordering::Release);
        ring(self.runner());
    }

    /// Waits, as a worker, for one of its groups; returns the one that was sent first and its command. If `awake`, it
    /// polls for a moment before it sleeps, unless polling recently found nothing.
    pub fn next(&self, worker: usize, groups: &[usize], time: Duration, may_stay_awake: bool) -> Option<(usize, u32)> {
        let start = Instant::now();
        let own = self.worker(worker);
        loop {
            let seen = own[BELL].load(Ordering::SeqCst);
            let newest = self.words[TICKETS].load(Ordering::Relaxed);
            let waiting = groups.iter().copied().filter(|group| {
                let words = self.group(*group);
                words[REQUEST].load(Ordering::Acquire) != words[DONE].load(Ordering::Relaxed)
            });
            let age = |group: &usize| newest.wrapping_sub(self.group(*group)[TICKET].load(Ordering::Relaxed));
            if let Some(group) = waiting.max_by_key(age) {
                return Some((group, self.group(group)[COMMAND].load(Ordering::Relaxed)));
            }
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return None;
            }
            let sleeps = own[SLEEPS].load(Ordering::Relaxed);
            let stays_awake = may_stay_awake && sleeps == 0;
            if !stays_awake || !rung(own, seen, AWAKE.min(left)) {
                let to_come = if stays_awake { SLEEPS_AFTER } else { sleeps.saturating_sub(1) };
                own[SLEEPS].store(to_come, Ordering::Relaxed);
                wait(own, seen, left);
            }
        }
    }

    /// Returns a group from its worker to the runner.
    pub fn done(&self, group: usize) {
        let words = self.group(group);
        words[TICKET].store(self.ticket(), Ordering::Relaxed);
        words[DONE].store(words[REQUEST].load(Ordering::Relaxed), Ordering::SeqCst);
        if self.words[MISSING].fetch_sub(1, Ordering::SeqCst) == 1 {
            ring(self.runner());
        }
    }
}

/// Rings a waiter's bell, and wakes it if it sleeps.
fn ring(waiter: &[AtomicU32]) {
    waiter[BELL].fetch_add(1, Ordering::SeqCst);
    // A waiter that goes to sleep after this read finds the bell rung.
    if waiter[ASLEEP].load(Ordering::SeqCst) != 0 {
        wake(&waiter[BELL]);
    }
}

/// Whether the bell is rung within this time.
fn rung(waiter: &[AtomicU32], seen: u32, time: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
        if waiter[BELL].load(Ordering::SeqCst) != seen {
            return true;
        }
    }
    false
}

/// Sleeps until the bell is rung; may return early.
fn wait(waiter: &[AtomicU32], seen: u32, time: Duration) {
    waiter[ASLEEP].store(1, Ordering::SeqCst);
    sleep(&waiter[BELL], seen, time.min(Duration::from_secs(3600)));
    waiter[ASLEEP].store(0, Ordering::Relaxed);
}

#[cfg(target_os = "linux")]
fn wake(bell: &AtomicU32) {
    // SAFETY: the word lives as long as the borrow.
    unsafe {
        libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

#[cfg(target_os = "linux")]
fn sleep(bell: &AtomicU32, seen: u32, time: Duration) {
    let limit = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: the word and the limit live as long as the call; shared between processes, so not a private futex.
    unsafe {
        libc::syscall(libc::SYS_futex, bell.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit);
    }
}

#[cfg(not(target_os = "linux"))]
fn wake(_bell: &AtomicU32) {}

#[cfg(not(target_os = "linux"))]
fn sleep(bell: &AtomicU32, seen: u32, time: Duration) {
    let start = Instant::now();
    while bell.load(Ordering::Acquire) == seen && start.elapsed() < time {
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn words(workers: usize, groups: usize) -> Vec<AtomicU32> {
        (0..Signals::words(workers, groups)).map(|_| AtomicU32::new(0)).collect()
    }

    #[test]
    fn groups_come_back_in_the_order_they_finish() {
        let words = words(1, 3);
        let signals = Signals::new(&words, 1, 3);
        (0..3).for_each(|group| signals.send(group, 0, 7));
        [2, 0, 1].iter().for_each(|group| signals.done(*group));
        assert_eq!(signals.receive(&[0, 1, 2], 3, LONG), [2, 0, 1]);
    }

    #[test]
    fn a_worker_serves_what_was_sent_first_and_wakes_the_runner() {
        serve_many(false);
    }

    #[test]
    fn a_worker_that_stays_awake_serves_as_well() {
        serve_many(true);
    }

    #[test]
    fn a_worker_that_stayed_awake_in_vain_sleeps_a_few_times_and_tries_again() {
        let words = words(1, 1);
        let signals = Signals::new(&words, 1, 1);
        let sleeps = || words[LINE + SLEEPS].load(Ordering::Relaxed);
        assert_eq!(signals.next(0, &[0], Duration::from_millis(50), true), None);
        assert!((1..=SLEEPS_AFTER).contains(&sleeps()));
        while sleeps() > 0 {
            let before = sleeps();
            assert_eq!(signals.next(0, &[0], Duration::from_micros(1), true), None);
            assert!(sleeps() <= before);
        }
        assert_eq!(signals.next(0, &[0], Duration::from_millis(50), true), None);
        assert!(sleeps() > 0);
    }

    fn serve_many(may_stay_awake: bool) {
        let words = words(2, 4);
        let signals = Signals::new(&words, 2, 4);
        std::thread::scope(|scope| {
            for (worker, groups) in [(0, [0, 1]), (1, [2, 3])] {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let (group, command) =
                            signals.next(worker, &groups, LONG, may_stay_awake).expect("it was sent");
                        assert_eq!(command, 5);
                        signals.done(group);
                    }
                });
            }
            (0..4).for_each(|group| signals.send(group, group / 2, 5));
            let mut sent = [1; 4];
            let mut flying = vec![0, 1, 2, 3];
            while !flying.is_empty() {
                for group in signals.receive(&flying, 1, LONG) {
                    if sent[group] < 1000 {
                        sent[group] += 1;
                        signals.send(group, group / 2, 5);
                    } else {
                        flying.retain(|other| *other != group);
                    }
                }
            }
        });
    }

    #[test]
    fn an_alarm_ends_waiting_and_a_lost_group_can_be_taken_back() {
        let words = words(1, 1);
        let signals = Signals::new(&words, 1, 1);
        signals.send(0, 0, 0);
        signals.alarm();
        assert!(signals.receive(&[0], 1, LONG).is_empty());
        signals.take_back(0);
        assert_eq!(signals.receive(&[0], 1, LONG), [0]);
        assert_eq!(signals.next(0, &[0], Duration::from_millis(1), false), None);
    }
}
