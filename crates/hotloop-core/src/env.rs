//! What an env is: a description of its spaces, and reset, step, observe and named state for one instance.
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

/// An env as the pool takes it: a native one, or one whose makers remember where it came from.
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

/// The name of the option that every env has: steps until an episode is truncated, 0 for never.
pub const MAX_STEPS: &str = "max_steps";

/// Declares the option [`MAX_STEPS`].
pub const fn max_steps(default: i64) -> OptionSpec {
    OptionSpec::int(MAX_STEPS, default, 0, 1 << 30, "time limit in steps, after which an episode is truncated; 0: none")
}

/// What stays the same for an env while its runner lives.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// How many rows an env has.
    pub seats: usize,
    /// What a row sees.
    pub observation: Observation,
    /// What a row decides.
    pub action: Action,
    /// Whether masks tell which actions make sense now.
    pub masked: bool,
    /// Whether an action that its mask forbids is refused; else masks are advice.
    pub masks_bind: bool,
    /// The reward's terms; the reward is the weighted sum of them.
    pub terms: Vec<&'static str>,
    /// What is measured once per row and episode, `success` (0 or 1) among them where the task defines it.
    pub metrics: Vec<&'static str>,
    /// What an env tells about itself on request: name and how many numbers per row.
    pub infos: Vec<(&'static str, usize)>,
    /// About how long a step takes on one core; only decides how many envs make a group worth a thread.
    pub step_nanoseconds: u32,
    /// Raised when the named state changes its meaning.
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

/// Whether the episode goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Another step will follow.
    Running,
    /// The episode is over for every seat.
    Over,
    /// The same by a time limit of the env's own: whoever was in play is truncated.
    TimeUp,
}

/// One instance of a task; it plays one episode at a time.
pub trait Env: Send + 'static {
    /// A new instance. `reset` is called before anything else.
    fn new(options: &Options) -> Self;
    /// Starts an episode.
    fn reset(&mut self, rng: &Rng);
    /// Plays the actions of all seats; seats that are not `valid` have no say.
    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status;
    /// Writes what each seat sees, may do, and whether it decides now.
    fn observe(&self, frame: &mut Frame<'_>);
    /// Names all of its state.
    fn fields(&mut self, fields: &mut dyn Fields);
    /// Whether the state, set from outside, is a possible one; also the place to rebuild what is derived from it.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Takes other options; a reset or a state from outside comes next.
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
    /// Which episode of the env this is.
    pub episode: u32,
    /// Which step of the episode; 0 at reset.
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

/// What the seats of an env decided.
pub struct Actions<'a> {
    /// Choices, `width` per seat; empty for continuous actions.
    pub ints: &'a [i32],
    /// Amounts, `width` per seat, clipped to the space; empty for discrete actions.
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

    /// The amounts of a seat with a continuous action.
    pub fn continuous(&self, seat: usize) -> &[f32] {
        &self.floats[seat * self.width..(seat + 1) * self.width]
    }
}

/// What a step brought; all zero and false when `step` is called.
pub struct Outcome<'a> {
    /// `terms[seat * number_of_terms + term]`.
    pub terms: &'a mut [f32],
    /// Whose episode ended by the rules of the task, told once per episode.
    pub terminated: &'a mut [bool],
    /// `metrics[seat * number_of_metrics + metric]`, read when the episode is over, also by its time limit.
    pub metrics: &'a mut [f32],
}

/// What the seats of an env see.
pub struct Frame<'a> {
    pub(crate) obs: &'a mut [u8],
    pub(crate) row_bytes: usize,
    /// Whether the seat decides now; true when `observe` is called.
    pub valid: &'a mut [bool],
    pub(crate) mask: &'a mut [bool],
    pub(crate) mask_len: usize,
}

impl Frame<'_> {
    /// Of a frame of several envs, the part of one.
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

    /// Which of its choices a seat may make; all true when `observe` is called.
    pub fn mask(&mut self, seat: usize) -> &mut [bool] {
        &mut self.mask[seat * self.mask_len..(seat + 1) * self.mask_len]
    }
}
