//! Learning from an env that is stepped elsewhere, one step per call.

use hotloop_core::error::{Error, Result};

use super::algorithm::REWARD_LIMIT;
use super::counters::Counters;
use super::epsilon_greedy::Portable;
use super::table::Table;
use super::td_learner::TdLearner;
use super::view::{self, TableWork, View};

/// A table and its learner for an external env.
pub struct ExternalLearner {
    /// Table.
    pub table: Table,
    /// Learner.
    pub learner: TdLearner,
    /// Number of states of the env, which a sparse table does not know.
    states: u64,
    state: u64,
    action: usize,
}

/// Result of an external env's step.
#[derive(Clone, Copy, Debug)]
pub struct StepResult {
    /// Reward.
    pub reward: f32,
    /// Whether the episode ended by the rules of the task.
    pub terminated: bool,
    /// Next state.
    pub state: u64,
    /// Legal actions in the next state, a bit each.
    pub legal: u64,
}

impl ExternalLearner {
    /// Create a learner; `states` is the size of the env's observation space.
    pub fn new(table: Table, states: u64, learner: TdLearner) -> Self {
        Self { table, learner, states, state: 0, action: 0 }
    }

    /// Begin an episode and return the first action.
    pub fn begin(&mut self, state: i64, legal: u64) -> Result<usize> {
        let state = self.check_state(state, legal)?;
        self.table.reserve(2);
        self.action = view::dispatch(&self.table, true, Begin { learner: &mut self.learner, state, legal });
        self.state = state;
        Ok(self.action)
    }

    /// Learn from the outcome of the last action and return the next one.
    pub fn step(&mut self, reward: f32, terminated: bool, state: i64, legal: u64) -> Result<usize> {
        let result = StepResult { reward, terminated, state: self.check_state(state, legal)?, legal };
        if !(-REWARD_LIMIT..=REWARD_LIMIT).contains(&reward) {
            return Err(Error::Env(format!(
                "the env returned a reward of {reward}: expected a finite number from -{REWARD_LIMIT:e} to {REWARD_LIMIT:e}"
            )));
        }
        self.table.reserve(2);
        let (state, action) = (self.state, self.action);
        self.action = view::dispatch(&self.table, true, Step { learner: &mut self.learner, state, action, result });
        self.state = result.state;
        Ok(self.action)
    }

    /// Take the statistics since the last call.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.learner.counters)
    }

    fn check_state(&self, state: i64, legal: u64) -> Result<u64> {
        let (states, actions) = (self.states, self.table.shape.actions as u32);
        if legal == 0 || legal.checked_shr(actions).unwrap_or(0) != 0 {
            return Err(Error::Env(format!(
                "the env's action mask is {legal:#b}: expected at least one of the first {actions} bits and no others"
            )));
        }
        let found = u64::try_from(state).ok().filter(|state| *state < states);
        found.ok_or_else(|| Error::Env(format!("the env returned state {state}: expected 0 to {}", states - 1)))
    }
}

struct Begin<'a> {
    learner: &'a mut TdLearner,
    state: u64,
    legal: u64,
}

impl TableWork for Begin<'_> {
    type Output = usize;

    fn run<V: View>(self, view: V) -> usize {
        self.learner.begin(view, Portable, self.state, self.legal)
    }
}

struct Step<'a> {
    learner: &'a mut TdLearner,
    state: u64,
    action: usize,
    result: StepResult,
}

impl TableWork for Step<'_> {
    type Output = usize;

    fn run<V: View>(self, view: V) -> usize {
        self.learner.step(view, Portable, (self.state, self.action), &self.result)
    }
}
