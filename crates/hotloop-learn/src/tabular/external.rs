//! The slower way: somebody else steps the env, one step at a time, and tells what came of it.

use hotloop_core::error::{Error, Result};

use super::choice::Portable;
use super::counters::Tally;
use super::rule::REWARD_LIMIT;
use super::table::Table;
use super::td_learner::TdLearner;
use super::view::{self, View, Work};

/// A table that learns from an env outside.
pub struct External {
    /// The table.
    pub table: Table,
    /// What learns.
    pub mind: TdLearner,
    /// How many states the env has; a sparse table does not know.
    states: u64,
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
    /// Before the first episode; `states` is the size of the env's observation space.
    pub fn new(table: Table, states: u64, mind: TdLearner) -> Self {
        Self { table, mind, states, state: 0, action: 0 }
    }

    /// Begin an episode and return the first action.
    pub fn begin(&mut self, state: i64, legal: u64) -> Result<usize> {
        let state = self.checked(state, legal)?;
        self.make_room();
        self.action = view::with(&self.table, true, Decide { mind: &mut self.mind, state, legal });
        self.state = state;
        Ok(self.action)
    }

    /// Learn from the outcome of the last action and return the next one.
    pub fn step(&mut self, reward: f32, terminated: bool, state: i64, legal: u64) -> Result<usize> {
        let told = Told { reward, terminated, state: self.checked(state, legal)?, legal };
        if !(-REWARD_LIMIT..=REWARD_LIMIT).contains(&reward) {
            return Err(Error::Env(format!(
                "the env returned a reward of {reward}: expected a finite number from -{REWARD_LIMIT:e} to {REWARD_LIMIT:e}"
            )));
        }
        self.make_room();
        let (state, action) = (self.state, self.action);
        self.action = view::with(&self.table, true, Learn { mind: &mut self.mind, state, action, told });
        self.state = told.state;
        Ok(self.action)
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.mind.tally)
    }

    fn checked(&self, state: i64, legal: u64) -> Result<u64> {
        let (states, actions) = (self.states, self.table.shape.actions as u32);
        if legal == 0 || legal.checked_shr(actions).unwrap_or(0) != 0 {
            return Err(Error::Env(format!(
                "the env's action mask is {legal:#b}: expected at least one of the first {actions} bits and no others"
            )));
        }
        let found = u64::try_from(state).ok().filter(|state| *state < states);
        found.ok_or_else(|| Error::Env(format!("the env returned state {state}: expected 0 to {}", states - 1)))
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
