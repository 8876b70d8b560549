//! A group: a fixed slice of a runner's envs that moves as a unit. The pool knows envs only through this trait;
//! [`crate::scalar_group::ScalarGroup`] makes a group of any [`crate::env::Env`], [`crate::simd_group::SimdGroup`] of
//! vectorised ones.

use crate::env::Actions;
use crate::fields::Fields;
use crate::group_state::GroupState;
use crate::options::Options;
use crate::simd::Isa;

/// When a finished env starts its next episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoreset {
    /// At the next step, whose action is ignored.
    NextStep,
    /// In the step that ends it; the final observation is kept apart.
    SameStep,
    /// When the caller resets it.
    Disabled,
}

/// Settings shared by all envs of a runner.
#[derive(Clone, Debug)]
pub struct Rules {
    /// When a finished env starts again.
    pub autoreset: Autoreset,
    /// The weight of each reward term.
    pub weights: Vec<f32>,
    /// Instruction set of vectorised envs.
    pub isa: Isa,
    /// Requested info arrays: index in the env's spec, and numbers per row.
    pub infos: Vec<(usize, usize)>,
    /// Ticks that a step spans: the action is repeated, rewards add up, and the end of an episode ends the step.
    pub action_repeat: u32,
}

/// Final observations that a step keeps under [`Autoreset::SameStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFinals {
    /// Those of all rows that ended.
    Ended,
    /// Those of truncated rows only, from which a learner bootstraps.
    Truncated,
}

/// Final observations and infos of rows, from before their envs were reset.
#[derive(Default, Debug)]
pub struct Finals {
    /// The slot of the step in its rollout.
    pub slots: Vec<u32>,
    /// Rows, counted within the group.
    pub rows: Vec<u32>,
    /// Observations, one after the other.
    pub obs: Vec<u8>,
    /// The info arrays that were asked for, row by row.
    pub infos: Vec<f32>,
    /// Action masks, one after the other, where the env has them.
    pub mask: Vec<bool>,
}

impl Finals {
    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.rows.clear();
        self.obs.clear();
        self.infos.clear();
        self.mask.clear();
    }
}

/// Destination of a group's results: one entry per row of the group; arrays that are not wanted are empty.
pub struct Frames<'a> {
    /// Observations, in bytes.
    pub obs: &'a mut [u8],
    /// Weighted sums of the reward terms.
    pub reward: &'a mut [f32],
    /// Ended by the rules of the task.
    pub terminated: &'a mut [bool],
    /// Ended by the time limit or by a fault.
    pub truncated: &'a mut [bool],
    /// Ended by a fault: nothing of the episode can be trusted.
    pub cut: &'a mut [bool],
    /// Whether the row decides next.
    pub valid: &'a mut [bool],
    /// Actions that the row may take next.
    pub mask: &'a mut [bool],
    /// Policy of the row.
    pub policy: &'a mut [i32],
    /// The info arrays that were asked for, row by row.
    pub infos: &'a mut [f32],
    /// Final observations.
    pub finals: &'a mut Finals,
    /// Final observations to keep.
    pub keep: KeepFinals,
    /// The slot of this step in its rollout.
    pub slot: u32,
}

/// A slice of a runner's envs.
pub trait Group: Send {
    /// Steps every env once.
    fn step(&mut self, group_state: &mut GroupState, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>);
    /// Starts a new episode in the envs that `which` names.
    fn reset(&mut self, group_state: &mut GroupState, rules: &Rules, which: &[bool]);
    /// Writes the current observations without changing anything but the group state's masks and `valid`.
    fn observe(&mut self, group_state: &mut GroupState, rules: &Rules, frames: &mut Frames<'_>);
    /// Visits the state of one env.
    fn fields(&mut self, env: usize, fields: &mut dyn Fields);
    /// Whether the state of one env, set from outside, is a possible one.
    fn check(&mut self, env: usize) -> Result<(), String>;
    /// Makes the options of one env those its state was saved under (no reset follows).
    fn adopt(&mut self, env: usize, options: &Options);
}
