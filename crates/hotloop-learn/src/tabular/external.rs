//! The slower way: somebody else steps the env, one step at a time, and tells what came of it.

use super::choice::Portable;
use super::counters::Tally;
use super::table::Table;
use super::td_learner::TdLearner;
use super::view::{self, View, Work};

/// A table that learns from an env outside.
pub struct External {
    /// The table.
    pub table: Table,
    /// What learns.
    pub mind: TdLearner,
    state: u64,
    action: usize,
}

/// What somebody else's env did.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What the last decision earned.
    pub reward: f32,
    /// Whether it ended the episode by the rules of the task.
    pub terminated: bool,
    /// Where it led.
    pub state: u64,
    /// What may be done there.
    pub legal: u64,
}

impl External {
    /// Nothing has happened yet.
    pub fn new(table: Table, mind: TdLearner) -> Self {
        Self { table, mind, state: 0, action: 0 }
    }

    /// An episode begins there; what to do.
    pub fn begin(&mut self, state: u64, legal: u64) -> usize {
        self.make_room();
        self.action = view::with(&self.table, true, Decide { mind: &mut self.mind, state, legal });
        self.state = state;
        self.action
    }

    /// Learns from what the last decision led to; what to do next.
    pub fn step(&mut self, told: Told) -> usize {
        self.make_room();
        let (state, action) = (self.state, self.action);
        self.action = view::with(&self.table, true, Learn { mind: &mut self.mind, state, action, told });
        self.state = told.state;
        self.action
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.mind.tally)
    }

    fn make_room(&mut self) {
        while !self.table.has_room(2) {
            self.table.grow();
        }
    }
}

struct Decide<'a> {
    mind: &'a mut TdLearner,
    state: u64,
    legal: u64,
}

impl Work for Decide<'_> {
    type Output = usize;

    fn run<V: View>(self, view: V) -> usize {
        self.mind.begin(view, Portable, self.state, self.legal)
    }
}

struct Learn<'a> {
    mind: &'a mut TdLearner,
    state: u64,
    action: usize,
    told: Told,
}

impl Work for Learn<'_> {
    type Output = usize;

    fn run<V: View>(self, view: V) -> usize {
        self.mind.step(view, Portable, (self.state, self.action), &self.told)
    }
}
