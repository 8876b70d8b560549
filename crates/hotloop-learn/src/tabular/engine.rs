//! The runtimes: one thread, threads that share a table without locks, threads with tables of their own that are merged.
//!
//! Work is handed out in small pieces to whoever is free, so a slow core does not hold the others. With one thread a run
//! is a function of options, settings and seed; with more it is not.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::discrete::Discrete;
use hotloop_core::error::{Result, input};
use hotloop_core::options::Options;
use hotloop_core::parallel::run_scoped;
use hotloop_core::simd::Isa;

use super::counters::Tally;
use super::merge;
use super::rule::Rule;
use super::table::Table;
use super::td_learner::TdLearner;
use super::view::{self, View, Work};
use super::worker::{self, Worker};

/// Steps that are handed out at once.
pub const PIECE: usize = 1024;
/// States that a piece can bring at most: each step's next one, and the first of a new episode.
const NEW_STATES: usize = 2 * PIECE;

/// How threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All use one table, or there is only one thread.
    Table,
    /// Each has its own, merged after every iteration.
    Nothing,
}

/// What an engine is made of.
pub struct Plan {
    /// How it learns.
    pub rule: Rule,
    /// Steps of an iteration.
    pub iteration: usize,
    /// Threads.
    pub threads: usize,
    /// What they share.
    pub sharing: Sharing,
    /// Steps until an episode is cut short.
    pub max_steps: u32,
    /// The seed.
    pub seed: u64,
    /// Which attempt of the run it is.
    pub attempt: u32,
    /// The first worker's number among those of all processes.
    pub first_worker: u32,
    /// The instructions to use; results are the same.
    pub isa: Isa,
}

/// An engine of any env.
pub trait Learns: Send {
    /// Makes up to so many iterations, none of which begins after the time is up; how many were made.
    fn advance(&mut self, iterations: usize, time: Duration) -> usize;
    /// The table.
    fn table(&self) -> &Table;
    /// Puts another table in place of the engine's.
    fn set_table(&mut self, table: Table);
    /// Takes over what another process learned.
    fn absorb(&mut self, changes: &merge::Changes) -> Result<()>;
    /// What was counted since the last time, and each worker's last returns with their lengths.
    fn tally(&mut self) -> (Tally, Vec<(f32, u32)>);
    /// Steps made by all threads.
    fn steps(&self) -> u64;
    /// All but the table.
    fn save(&mut self) -> Vec<u8>;
    /// Goes to what was saved; the table must be in place.
    fn load(&mut self, bytes: &[u8]) -> Result<()>;
    /// Bytes of all tables.
    fn bytes(&self) -> u128;
}

/// Workers and their tables.
pub struct Engine<E> {
    plan: Plan,
    tables: Vec<Table>,
    workers: Vec<Worker<E>>,
    steps: u64,
}

impl<E: Discrete> Engine<E> {
    /// With nothing learned yet.
    pub fn new(options: &Options, plan: Plan, table: Table) -> Self {
        let workers = (0..plan.threads as u32).map(|worker| {
            let mind = TdLearner::new(plan.rule, plan.seed, plan.attempt, plan.first_worker + worker);
            Worker::new(options, mind, plan.max_steps)
        });
        let mut engine = Self { workers: workers.collect(), tables: Vec::new(), plan, steps: 0 };
        engine.set_table(table);
        engine
    }

    fn iterate(&mut self) {
        let work = Claims { next: AtomicUsize::new(0), first: self.steps, steps: self.plan.iteration };
        let isa = self.plan.isa;
        if self.tables.len() == 1 && self.workers.len() > 1 {
            self.share_table(&work);
        } else if let ([table], [worker]) = (&mut self.tables[..], &mut self.workers[..]) {
            alone(worker, table, &work, isa);
        } else {
            let (pairs, work) = (self.workers.iter_mut().zip(&mut self.tables), &work);
            run_scoped(pairs.map(|(worker, table)| move || alone(worker, table, work, isa)));
            merge::merge(&mut self.tables);
            self.settle();
        }
        self.steps += self.plan.iteration as u64;
    }

    fn share_table(&mut self, work: &Claims) {
        let reserve = NEW_STATES * self.workers.len();
        let isa = self.plan.isa;
        loop {
            while !self.tables[0].has_room(reserve) {
                self.tables[0].grow();
                self.settle();
            }
            let table = &self.tables[0];
            let together = |worker: &mut Worker<E>| {
                while table.has_room(reserve)
                    && let Some((first, steps)) = work.claim()
                {
                    view::with(table, false, Run { worker, first, steps, isa });
                }
            };
            run_scoped(self.workers.iter_mut().map(|worker| move || together(worker)));
            if work.is_done() {
                return;
            }
        }
    }

    /// Finds all rows again.
    fn settle(&mut self) {
        let tables = self.tables.iter().cycle();
        for (worker, table) in self.workers.iter_mut().zip(tables) {
            view::with(table, true, Settle { worker });
        }
    }
}

impl<E: Discrete> Learns for Engine<E> {
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
        let copies = if self.plan.sharing == Sharing::Nothing { self.plan.threads } else { 1 };
        self.tables = (1..copies).map(|_| table.converted(table.shape)).collect();
        self.tables.insert(0, table);
        for table in &mut self.tables {
            while !table.has_room(NEW_STATES) {
                table.grow();
            }
        }
        self.settle();
    }

    fn absorb(&mut self, changes: &merge::Changes) -> Result<()> {
        merge::absorb(&mut self.tables[0], changes)?;
        self.settle();
        Ok(())
    }

    fn tally(&mut self) -> (Tally, Vec<(f32, u32)>) {
        let mut sum = Tally::default();
        let mut recent = Vec::new();
        for worker in &mut self.workers {
            let told = worker.take_tally();
            sum.add(&told);
            recent.extend(told.recent());
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
        // Another number of threads: who is there goes on, others begin anew.
        for worker in self.workers.iter_mut().take(count) {
            worker.load(&mut from)?;
        }
        if count <= self.workers.len() && from.left() != 0 {
            return input("the state of the envs has more bytes than it should");
        }
        self.settle();
        Ok(())
    }

    fn bytes(&self) -> u128 {
        self.tables.iter().map(Table::bytes).sum()
    }
}

/// The steps of an iteration, handed out piece by piece.
struct Claims {
    next: AtomicUsize,
    first: u64,
    steps: usize,
}

impl Claims {
    /// The next piece: its first step among all steps, and how many.
    fn claim(&self) -> Option<(u64, usize)> {
        let begin = self.next.fetch_add(PIECE, Relaxed);
        (begin < self.steps).then(|| (self.first + begin as u64, PIECE.min(self.steps - begin)))
    }

    fn is_done(&self) -> bool {
        self.next.load(Relaxed) >= self.steps
    }
}

fn alone<E: Discrete>(worker: &mut Worker<E>, table: &mut Table, work: &Claims, isa: Isa) {
    while let Some((first, steps)) = work.claim() {
        while !table.has_room(NEW_STATES) {
            table.grow();
            view::with(table, true, Settle { worker });
        }
        view::with(table, true, Run { worker, first, steps, isa });
    }
}

struct Run<'a, E> {
    worker: &'a mut Worker<E>,
    first: u64,
    steps: usize,
    isa: Isa,
}

impl<E: Discrete> Work for Run<'_, E> {
    type Output = ();
    /// So are those of all native envs.
    const NARROW: bool = true;

    fn run<V: View>(self, view: V) {
        worker::run(self.worker, view, self.first, self.steps, self.isa);
    }
}

struct Settle<'a, E> {
    worker: &'a mut Worker<E>,
}

impl<E: Discrete> Work for Settle<'_, E> {
    type Output = ();

    fn run<V: View>(self, view: V) {
        self.worker.settle(view);
    }
}
