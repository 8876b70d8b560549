//! The algorithms: what a transition says the value of its action should be, and how far the value moves there.

use super::choice::{Cpu, Offer, best_of_plane, mean};
use super::schedule::Schedule;
use super::view::View;

/// How the next state's worth is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By its best action.
    QLearning,
    /// By the action that is taken there.
    Sarsa,
    /// By what the policy does there in the mean.
    ExpectedSarsa,
    /// By one table's best action, valued by another.
    DoubleQLearning,
}

impl Algorithm {
    /// Values per action.
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

/// All that learning is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Discount per step.
    pub gamma: f32,
    /// How far a value moves to where a transition says it should be.
    pub learning_rate: Schedule,
    /// The chance to explore.
    pub exploration: Schedule,
    /// Transitions whose targets are made before any of them is learned from.
    pub batch: usize,
    /// Past transitions that are kept.
    pub replay: usize,
    /// Past transitions learned from again, after each new one.
    pub replays: usize,
}

impl Rule {
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

    /// Whether it is what most people run: Q-learning, from each transition as it comes.
    pub fn is_plain(&self) -> bool {
        self.algorithm == Algorithm::QLearning && self.batch == 1 && self.replay == 0
    }
}

/// What the next state is worth to the plane that learns.
#[inline(always)]
pub fn next_value<V: View, C: Cpu>(
    view: V,
    cpu: C,
    rule: &Rule,
    next: &Offer,
    action: usize,
    epsilon: f32,
    plane: usize,
) -> f32 {
    match rule.algorithm {
        Algorithm::QLearning => next.best,
        Algorithm::Sarsa => view.get(next.row, 0, action),
        Algorithm::ExpectedSarsa => (1.0 - epsilon) * next.best + epsilon * mean(view, next.row, next.legal),
        Algorithm::DoubleQLearning => {
            let (_, ties) = best_of_plane(view, cpu, next.row, plane, next.legal);
            view.get(next.row, 1 - plane, ties.trailing_zeros() as usize)
        }
    }
}
