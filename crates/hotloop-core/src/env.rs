//! The env interface: a spec with its spaces, and reset, step, observe and named state of one instance.
//!
//! An env allocates nothing in `step`, draws randomness only from the [`Rng`] it is given, and uses only [`crate::math`]
//! for functions that a system library would compute differently on another machine.

use std::sync::Arc;

use crate::fields::Fields;
use crate::group::Group;
use crate::options::{OptionSpec, Options};
use crate::rng::Stream;
use crate::space::{Action, Observation};

/// A registered env: its name, options, and how to build a group of it.
pub struct EnvType {
    /// The name people write.
    pub name: &'static str,
    /// The name under Gymnasium's `hotloop/` namespace.
    pub gymnasium_id: &'static str,
    /// A line for `hotloop envs`.
    pub about: &'static str,
    /// Its options; `max_steps` is among them.
    pub options: Arc<[OptionSpec]>,
    /// Its spaces under these options, or why the options do not go together.
    pub spec: fn(&Options) -> Result<Spec, String>,
    /// A group of that many instances; `spec` has accepted the options.
    pub build: fn(&Options, usize) -> Box<dyn Group>,
}

/// An env as the pool uses it: native or loaded from a library.
pub struct EnvKind {
    /// The name people write.
    pub name: &'static str,
    /// The name under Gymnasium's `hotloop/` namespace.
    pub gymnasium_id: &'static str,
    /// A line for `hotloop envs`.
    pub about: &'static str,
    /// Its options; `max_steps` is among them.
    pub options: Arc<[OptionSpec]>,
    /// See [`EnvType::spec`].
    pub spec: SpecOf,
    /// See [`EnvType::build`].
    pub build: BuildOf,
}

/// The spaces under some options.
pub type SpecOf = Box<dyn Fn(&Options) -> Result<Spec, String> + Send + Sync>;
/// A group of that many instances.
pub type BuildOf = Box<dyn Fn(&Options, usize) -> Box<dyn Group> + Send + Sync>;

impl From<EnvType> for EnvKind {
    fn from(env: EnvType) -> Self {
        let EnvType { name, gymnasium_id, about, options, spec, build } = env;
        Self { name, gymnasium_id, about, options, spec: Box::new(spec), build: Box::new(build) }
    }
}

/// Name of the option that every env has: the time limit in steps, 0 for none.
pub const MAX_STEPS: &str = "max_steps";

/// Declares the option [`MAX_STEPS`].
pub const fn max_steps(default: i64) -> OptionSpec {
    OptionSpec::int(MAX_STEPS, default, 0, 1 << 30, "time limit in steps, after which an episode is truncated; 0: none")
}

/// The fixed properties of an env: its spaces, reward terms and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Number of rows (agents) of an env.
    pub seats: usize,
    /// Observation space of a row.
    pub observation: Observation,
    /// Action space of a row.
    pub action: Action,
    /// Whether there are action masks.
    pub masked: bool,
    /// Whether actions that their mask forbids are rejected; else masks are hints.
    pub masks_bind: bool,
    /// The reward's terms; the reward is the weighted sum of them.
    pub terms: Vec<&'static str>,
    /// Metrics, measured once per row and episode; `success` (0 or 1) among them where the task defines it.
    pub metrics: Vec<&'static str>,
    /// Info arrays, computed on request: name and numbers per row.
    pub infos: Vec<(&'static str, usize)>,
    /// Approximate duration of a step on one core; only determines how envs are split into groups.
    pub step_nanoseconds: u32,
    /// Version of the named state; increased when its meaning changes.
    pub state_version: u32,
}

impl Spec {
    /// Whether a policy for one fits the other.
    pub fn has_spaces_of(&self, other: &Self) -> bool {
        (self.seats, self.masked) == (other.seats, other.masked)
            && self.observation == other.observation
            && self.action == other.action
    }
}

/// Whether the episode continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Another step will follow.
    Running,
    /// The episode is over for every seat.
    Over,
    /// The env's own time limit has ended it: rows in play are truncated.
    TimeUp,
}

/// One instance of a task; it plays one episode at a time.
pub trait Env: Send + 'static {
    /// A new instance. `reset` is called before anything else.
    fn new(options: &Options) -> Self;
    /// Starts an episode.
    fn reset(&mut self, rng: &Rng);
    /// Applies the actions of all seats; those of seats that are not `valid` are ignored.
    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status;
    /// Writes observation, action mask and `valid` of each seat.
    fn observe(&self, frame: &mut Frame<'_>);
    /// Visits the whole state by name.
    fn fields(&mut self, fields: &mut dyn Fields);
    /// Validates a state that was set from outside, and recomputes what is derived from it.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Changes the options; a reset or a state from outside comes next.
    fn adopt(&mut self, options: &Options)
    where
        Self: Sized,
    {
        *self = Self::new(options);
    }
    /// Writes the info array with that index in [`Spec::infos`].
    fn info(&self, index: usize, seat: usize, out: &mut [f32]) {
        unreachable!("info {index} of seat {seat} ({} numbers) was not declared", out.len())
    }
}

/// The random numbers of one env at one step, by index. It lies in memory as `hotloop_rng` of `hotloop.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Rng {
    /// The env's stream.
    pub env: Stream,
    /// Index of the env's episode.
    pub episode: u32,
    /// Step of the episode; 0 at reset.
    pub step: u32,
}

impl Rng {
    /// The stream of this step. Folding costs a few nanoseconds, so ask once and keep it.
    pub fn draws(&self) -> Stream {
        self.env.fold(self.episode).fold(self.step)
    }

    /// A stream of the whole episode, for what is decided once per episode but used later.
    pub fn episode_draws(&self) -> Stream {
        self.env.fold(self.episode).fold(u32::MAX)
    }
}

/// Actions of the seats of an env.
pub struct Actions<'a> {
    /// Discrete actions, `width` per seat; empty for continuous ones.
    pub ints: &'a [i32],
    /// Continuous actions, `width` per seat, clipped to the space; empty for discrete ones.
    pub floats: &'a [f32],
    /// Numbers per seat.
    pub width: usize,
}

impl Actions<'_> {
    /// The choice of a seat with a discrete action.
    pub fn choice(&self, seat: usize) -> usize {
        self.ints[seat * self.width] as usize
    }

    /// The choices of a seat with a multi-discrete action.
    pub fn choices(&self, seat: usize) -> &[i32] {
        &self.ints[seat * self.width..(seat + 1) * self.width]
    }

    /// The action of a seat with a continuous action space.
    pub fn continuous(&self, seat: usize) -> &[f32] {
        &self.floats[seat * self.width..(seat + 1) * self.width]
    }
}

/// Outcome of a step; all zero and false when `step` is called.
pub struct Outcome<'a> {
    /// `terms[seat * number_of_terms + term]`.
    pub terms: &'a mut [f32],
    /// Seats whose episode ended by the rules of the task, set once per episode.
    pub terminated: &'a mut [bool],
    /// `metrics[seat * number_of_metrics + metric]`, read when the episode is over, also by its time limit.
    pub metrics: &'a mut [f32],
}

/// Observations of the seats of an env.
pub struct Frame<'a> {
    pub(crate) obs: &'a mut [u8],
    pub(crate) row_bytes: usize,
    /// Whether the seat decides now; true when `observe` is called.
    pub valid: &'a mut [bool],
    pub(crate) mask: &'a mut [bool],
    pub(crate) mask_len: usize,
}

impl Frame<'_> {
    /// The part of one env in a frame of several.
    #[inline(always)]
    pub(crate) fn part(&mut self, env: usize, seats: usize) -> Frame<'_> {
        let Self { row_bytes, mask_len, .. } = *self;
        let part = |width: usize| env * seats * width..(env + 1) * seats * width;
        let (obs, mask) = (&mut self.obs[part(row_bytes)], &mut self.mask[part(mask_len)]);
        Frame { obs, row_bytes, valid: &mut self.valid[part(1)], mask, mask_len }
    }

    fn row(&mut self, seat: usize) -> &mut [u8] {
        &mut self.obs[seat * self.row_bytes..(seat + 1) * self.row_bytes]
    }

    /// A seat's observation of real numbers.
    pub fn f32s(&mut self, seat: usize) -> &mut [f32] {
        // SAFETY: any bit pattern is an f32.
        let (head, numbers, tail) = unsafe { self.row(seat).align_to_mut() };
        assert!(head.is_empty() && tail.is_empty(), "observations of f32 are aligned");
        numbers
    }

    /// A seat's observation of bytes.
    pub fn bytes(&mut self, seat: usize) -> &mut [u8] {
        self.row(seat)
    }

    /// Sets a seat's discrete observation.
    pub fn set_state(&mut self, seat: usize, state: usize) {
        self.row(seat).copy_from_slice(&(state as i64).to_ne_bytes());
    }

    /// Action mask of a seat; all true when `observe` is called.
    pub fn mask(&mut self, seat: usize) -> &mut [bool] {
        &mut self.mask[seat * self.mask_len..(seat + 1) * self.mask_len]
    }
}
