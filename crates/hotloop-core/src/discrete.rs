//! Envs with discrete states and actions for tabular learners: one decision at a time, without frames.
//!
//! An env's [`Env::reset`] and [`Env::step`] are composed of `begin` and `play`, so that its rules are written once.

use crate::env::Env;
use crate::rng::Stream;

/// Maximum number of seats of such an env.
pub const MAX_SEATS: usize = 2;
/// Maximum number of actions of such an env: a bit each.
pub const MAX_ACTIONS: usize = 64;
/// Number of draws that `begin` or `play` may use.
pub const DRAWS: u32 = 4;

/// Result of an action.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiscreteStep {
    /// Reward of each seat.
    pub rewards: [f32; MAX_SEATS],
    /// Seats that succeeded; read when the episode is over.
    pub success: [bool; MAX_SEATS],
    /// Whether the episode ended by the rules of the task.
    pub over: bool,
}

/// An env with discrete states and actions.
pub trait Discrete: Env {
    /// Seats that decide in turns.
    const SEATS: usize = 1;
    /// The state that the seat in turn sees.
    fn state(&self) -> u64;
    /// Its legal actions, a bit each; never none while the episode continues.
    fn legal(&self) -> u64;
    /// The seat in turn.
    fn seat(&self) -> usize {
        0
    }
    /// Starts an episode.
    fn begin(&mut self, draws: Stream);
    /// Applies a legal action of the seat in turn.
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep;
}
