//! Runtimes of the learner: one thread, threads that share a table without locks, threads with private tables that are
//! merged.
//!
//! Steps are handed out in small chunks to whichever thread is free, so a slow core does not hold up the others. With one
//! thread a run is a function of options, settings and seed; with more it is not.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::discrete::Discrete;
use hotloop_core::error::{Result, input};
use hotloop_core::options::Options;
use hotloop_core::parallel::run_scoped;
use hotloop_core::simd::Isa;

use super::algorithm::TdSettings;
use super::counters::Counters;
use super::merge;
use super::table::Table;
use super::td_learner::TdLearner;
use super::view::{self, TableWork, View};
use super::worker::{self, Worker};

/// Steps per chunk of work.
pub const CHUNK: usize = 1024;
/// Maximum number of new states per chunk: each step's next state, and the first of a new episode.
const NEW_STATES: usize = 2 * CHUNK;

/// Whether threads share a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableSharing {
    /// All threads use one table, or there is only one thread.
    Shared,
    /// Each thread has a table of its own; they are merged after every iteration.
    Private,
}

/// Settings of an engine.
pub struct EngineSettings {
    /// Settings of the learner.
    pub learner: TdSettings,
    /// Steps per iteration.
    pub iteration: usize,
    /// Number of threads.
    pub threads: usize,
    /// Whether they share a table.
    pub sharing: TableSharing,
    /// Maximum length of an episode; longer ones are truncated.
    pub max_steps: u32,
    /// Seed.
    pub seed: u64,
    /// Attempt of the run, a part of every random key.
    pub attempt: u32,
    /// Index of the first worker among those of all processes.
    pub first_worker: u32,
    /// Instruction set; results do not depend on it.
    pub isa: Isa,
}

/// An engine for any env.
pub trait TabularEngine: Send {
    /// Run up to `iterations` iterations, none of which begins after `time` has passed; returns their number.
    fn advance(&mut self, iterations: usize, time: Duration) -> usize;
    /// Table.
    fn table(&self) -> &Table;
    /// Replace the table.
    fn set_table(&mut self, table: Table);
    /// Merge the changes of another process.
    fn absorb(&mut self, changes: &merge::Changes) -> Result<()>;
    /// Take the statistics since the last call, with returns and lengths of each worker's recent episodes.
    fn take_counters(&mut self) -> (Counters, Vec<(f32, u32)>);
    /// Steps made by all threads.
    fn steps(&self) -> u64;
    /// Serialise everything except the table.
    fn save(&mut self) -> Vec<u8>;
    /// Restore what `save` returned; the table must be set before.
    fn load(&mut self, bytes: &[u8]) -> Result<()>;
    /// Size of all tables in bytes.
    fn bytes(&self) -> u128;
}

/// Workers and their tables.
pub struct Engine<E> {
    settings: EngineSettings,
    tables: Vec<Table>,
    workers: Vec<Worker<E>>,
    steps: u64,
}

impl<E: Discrete> Engine<E> {
    /// Create an engine that starts from this table.
    pub fn new(options: &Options, settings: EngineSettings, table: Table) -> Self {
        let EngineSettings { learner, seed, attempt, first_worker, .. } = settings;
        let workers = (0..settings.threads as u32).map(|worker| {
            let learner = TdLearner::new(learner, seed, attempt, first_worker + worker);
            Worker::new(options, learner, settings.max_steps)
        });
        let mut engine = Self { workers: workers.collect(), tables: Vec::new(), settings, steps: 0 };
        engine.set_table(table);
        engine
    }

    fn iterate(&mut self) {
        let queue = StepQueue { next: AtomicUsize::new(0), first: self.steps, steps: self.settings.iteration };
        let isa = self.settings.isa;
        if self.tables.len() == 1 && self.workers.len() > 1 {
            self.run_shared(&queue);
        } else if let ([table], [worker]) = (&mut self.tables[..], &mut self.workers[..]) {
            run_exclusive(worker, table, &queue, isa);
        } else {
            let (pairs, queue) = (self.workers.iter_mut().zip(&mut self.tables), &queue);
            run_scoped(pairs.map(|(worker, table)| move || run_exclusive(worker, table, queue, isa)));
            merge::merge(&mut self.tables);
            self.refresh_rows();
        }
        self.steps += self.settings.iteration as u64;
    }

    fn run_shared(&mut self, queue: &StepQueue) {
        let reserve = NEW_STATES * self.workers.len();
        let isa = self.settings.isa;
        loop {
            if self.tables[0].reserve(reserve) {
                self.refresh_rows();
            }
            let table = &self.tables[0];
            let run = |worker: &mut Worker<E>| {
                while table.has_room(reserve)
                    && let Some((first, steps)) = queue.claim()
                {
                    view::dispatch(table, false, Run { worker, first, steps, isa });
                }
            };
            run_scoped(self.workers.iter_mut().map(|worker| move || run(worker)));
            if queue.is_empty() {
                return;
            }
        }
    }

    /// Look up all workers' rows again.
    fn refresh_rows(&mut self) {
        let tables = self.tables.iter().cycle();
        for (worker, table) in self.workers.iter_mut().zip(tables) {
            view::dispatch(table, true, RefreshRows { worker });
        }
    }
}

impl<E: Discrete> TabularEngine for Engine<E> {
    fn advance(&mut self, iterations: usize, time: Duration) -> usize {
        let start = Instant::now();
        let mut done = 0;
        while done < iterations && (done == 0 || start.elapsed() < time) {
            self.iterate();
            done += 1;
        }
        done
    }

    fn table(&self) -> &Table {
        &self.tables[0]
    }

    fn set_table(&mut self, table: Table) {
        let copies = if self.settings.sharing == TableSharing::Private { self.settings.threads } else { 1 };
        self.tables = (1..copies).map(|_| table.converted(table.shape)).collect();
        self.tables.insert(0, table);
        for table in &mut self.tables {
            table.reserve(NEW_STATES);
        }
        self.refresh_rows();
    }

    fn absorb(&mut self, changes: &merge::Changes) -> Result<()> {
        merge::absorb(&mut self.tables[0], changes)?;
        self.refresh_rows();
        Ok(())
    }

    fn take_counters(&mut self) -> (Counters, Vec<(f32, u32)>) {
        let mut sum = Counters::default();
        let mut recent = Vec::new();
        for worker in &mut self.workers {
            let counters = worker.take_counters();
            sum.add(&counters);
            recent.extend(counters.recent());
        }
        (sum, recent)
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn save(&mut self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32(self.workers.len() as u32);
        out.u64(self.steps);
        self.workers.iter_mut().for_each(|worker| worker.save(&mut out));
        out.into_bytes()
    }

    fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let mut from = Reader::new(bytes);
        let count = from.u32()? as usize;
        self.steps = from.u64()?;
        // The number of threads may have changed: saved workers resume, additional ones start new episodes.
        for worker in self.workers.iter_mut().take(count) {
            worker.load(&mut from)?;
        }
        if count <= self.workers.len() && from.left() != 0 {
            return input("the state of the envs has trailing bytes");
        }
        self.refresh_rows();
        Ok(())
    }

    fn bytes(&self) -> u128 {
        self.tables.iter().map(Table::bytes).sum()
    }
}

/// The steps of an iteration, handed out in chunks.
struct StepQueue {
    next: AtomicUsize,
    first: u64,
    steps: usize,
}

impl StepQueue {
    /// Claim the next chunk; returns the index of its first step in the run, and its length.
    fn claim(&self) -> Option<(u64, usize)> {
        let begin = self.next.fetch_add(CHUNK, Relaxed);
        (begin < self.steps).then(|| (self.first + begin as u64, CHUNK.min(self.steps - begin)))
    }

    fn is_empty(&self) -> bool {
        self.next.load(Relaxed) >= self.steps
    }
}

fn run_exclusive<E: Discrete>(worker: &mut Worker<E>, table: &mut Table, queue: &StepQueue, isa: Isa) {
    while let Some((first, steps)) = queue.claim() {
        if table.reserve(NEW_STATES) {
            view::dispatch(table, true, RefreshRows { worker });
        }
        view::dispatch(table, true, Run { worker, first, steps, isa });
    }
}

struct Run<'a, E> {
    worker: &'a mut Worker<E>,
    first: u64,
    steps: usize,
    isa: Isa,
}

impl<E: Discrete> TableWork for Run<'_, E> {
    type Output = ();
    /// Native envs have at most sixteen actions.
    const NARROW: bool = true;

    fn run<V: View>(self, view: V) {
        worker::run(self.worker, view, self.first, self.steps, self.isa);
    }
}

struct RefreshRows<'a, E> {
    worker: &'a mut Worker<E>,
}

impl<E: Discrete> TableWork for RefreshRows<'_, E> {
    type Output = ();

    fn run<V: View>(self, view: V) {
        self.worker.refresh_rows(view);
    }
}
