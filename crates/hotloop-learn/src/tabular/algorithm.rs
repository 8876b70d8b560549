//! The algorithms: settings of temporal-difference learning, and the value of the next state in each update target.

use super::epsilon_greedy::{ActionValues, Cpu, best_of_plane, mean};
use super::schedule::Schedule;
use super::view::View;

/// Algorithm, by how it values the next state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Value of its best action.
    QLearning,
    /// Value of the action chosen there.
    Sarsa,
    /// Expected value under the policy.
    ExpectedSarsa,
    /// The best action by one plane, valued by the other.
    DoubleQLearning,
}

impl Algorithm {
    /// Number of values per action.
    pub fn planes(self) -> usize {
        if self == Self::DoubleQLearning { 2 } else { 1 }
    }
}

/// Largest magnitude of an initial value.
///
/// This bound, [`REWARD_LIMIT`] and a discount of at most 1 keep every value far below [`TABLE_LIMIT`] for 2^63 steps, so
/// the inner loop needs no test for overflow and a state always has a best action.
pub const INITIAL_LIMIT: f64 = 1e30;
/// Largest magnitude of a reward.
pub const REWARD_LIMIT: f32 = 1e12;
/// Largest magnitude of a value in a table that is loaded: a sum of 64 of them is finite.
pub const TABLE_LIMIT: f32 = 1e36;

/// Settings of temporal-difference learning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TdSettings {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Discount factor per step.
    pub gamma: f32,
    /// Learning rate (step size).
    pub learning_rate: Schedule,
    /// Exploration rate (epsilon).
    pub exploration: Schedule,
    /// Transitions per batch: their targets are computed before any value changes.
    pub batch: usize,
    /// Capacity of the replay buffer, in transitions.
    pub replay: usize,
    /// Replayed transitions per new one.
    pub replays: usize,
}

impl TdSettings {
    /// Check the ranges; the message names the setting.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.gamma) {
            return Err(format!("gamma is {}: expected a number from 0 to 1", self.gamma));
        }
        if self.batch == 0 {
            return Err("batch_size is 0: expected at least 1".into());
        }
        self.learning_rate.check("learning_rate")?;
        self.exploration.check("exploration")
    }

    /// Whether this is Q-learning from each transition as it comes: the common case, compiled separately.
    pub fn is_online_q_learning(&self) -> bool {
        self.algorithm == Algorithm::QLearning && self.batch == 1 && self.replay == 0
    }
}

/// Value of the next state to the plane that is updated.
#[inline(always)]
pub fn next_value<V: View, C: Cpu>(
    view: V,
    cpu: C,
    settings: &TdSettings,
    next: &ActionValues,
    action: usize,
    epsilon: f32,
    plane: usize,
) -> f32 {
    match settings.algorithm {
        Algorithm::QLearning => next.best,
        Algorithm::Sarsa => view.get(next.row, 0, action),
        Algorithm::ExpectedSarsa => (1.0 - epsilon) * next.best + epsilon * mean(view, next.row, next.legal),
        Algorithm::DoubleQLearning => {
            let (_, ties) = best_of_plane(view, cpu, next.row, plane, next.legal);
            view.get(next.row, 1 - plane, ties.trailing_zeros() as usize)
        }
    }
}
