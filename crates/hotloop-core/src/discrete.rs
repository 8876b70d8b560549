//! Envs with numbered states and choices, as a learner of tables meets them: one decision at a time, without frames.
//!
//! An env's [`Env::reset`] and [`Env::step`] are made of `begin` and `play`, so that its rules stand once.

use crate::env::Env;
use crate::rng::Stream;

/// How many seats such an env has at most.
pub const MOST_SEATS: usize = 2;
/// How many choices such an env has at most: a bit each.
pub const MOST_ACTIONS: usize = 64;
/// How many draws of its stream `begin` or `play` may use.
pub const DRAWS: u32 = 4;

/// What a decision led to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiscreteStep {
    /// What each seat earned.
    pub rewards: [f32; MOST_SEATS],
    /// Which seats reached what they were to reach; of interest when it is over.
    pub success: [bool; MOST_SEATS],
    /// Whether the episode ended by the rules of the task.
    pub over: bool,
}

/// An env with numbered states and choices.
pub trait Discrete: Env {
    /// Seats that decide in turns.
    const SEATS: usize = 1;
    /// The state that the seat in turn sees.
    fn state(&self) -> u64;
    /// What it may choose, a bit each; never none while the episode goes on.
    fn legal(&self) -> u64;
    /// The seat in turn.
    fn seat(&self) -> usize {
        0
    }
    /// Starts an episode.
    fn begin(&mut self, draws: Stream);
    /// The seat in turn chooses; its choice is a legal one.
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep;
}
