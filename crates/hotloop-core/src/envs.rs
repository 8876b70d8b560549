//! Several envs of one kind, by index in the group: a vector of instances, or a layout of their own.

use std::ops::Range;

use crate::env::{Actions, Env, Frame, Outcome, Rng, Status};
use crate::fields::Fields;
use crate::options::Options;

/// The envs of a [`crate::scalar_group::ScalarGroup`]. Methods are those of [`Env`], except for `play` and the failures.
pub trait Envs: Send + 'static {
    /// Starts an episode.
    fn reset(&mut self, env: usize, rng: &Rng);
    /// Steps an env.
    fn step(&mut self, env: usize, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status;
    /// Writes the observation of an env that was stepped or reset last, or whose state was set from outside.
    fn observe(&mut self, env: usize, frame: &mut Frame<'_>);
    /// Visits the whole state of an env.
    fn fields(&mut self, env: usize, fields: &mut dyn Fields);
    /// Validates a state that was set from outside.
    fn check(&mut self, env: usize) -> Result<(), String>;
    /// Changes the options.
    fn adopt(&mut self, env: usize, options: &Options);
    /// Writes an info array.
    fn info(&self, env: usize, index: usize, seat: usize, out: &mut [f32]);
    /// Whether any env has failed; called after every step.
    fn any_failed(&self) -> bool {
        false
    }
    /// Whether an env has failed. Its episode is cut, and it is reset.
    fn has_failed(&self, env: usize) -> bool {
        let _ = env;
        false
    }
    /// The cause of a failure. May be slow: it is called for the first few only.
    fn failure(&self, env: usize) -> Option<String> {
        let _ = env;
        None
    }
    /// Steps and observes those of these envs that do not wait for a reset. Override it if that can be done faster than one
    /// by one.
    fn play(&mut self, envs: Range<usize>, batch: &mut BatchStep<'_>) {
        play_each(self, envs, batch);
    }
}

/// A step of several envs: inputs and outputs of each, one after the other.
pub struct BatchStep<'a> {
    /// Seats per env.
    pub seats: usize,
    /// Reward terms per seat.
    pub terms: usize,
    /// Metrics per seat.
    pub metrics: usize,
    /// Their actions.
    pub actions: Actions<'a>,
    /// Not 0 for envs that wait for a reset: they are left out.
    pub waiting: &'a [u32],
    /// Each env's random numbers.
    pub rngs: &'a [Rng],
    /// Rewards, terminations and metrics of the step.
    pub outcome: Outcome<'a>,
    /// Observations after it.
    pub frame: Frame<'a>,
    /// Whether each env's episode continues.
    pub status: &'a mut [Status],
}

/// Steps and observes envs one by one.
#[inline(always)]
pub fn play_each<E: Envs + ?Sized>(all: &mut E, envs: Range<usize>, batch: &mut BatchStep<'_>) {
    let BatchStep { seats, terms, metrics, .. } = *batch;
    let width = batch.actions.width;
    for (i, env) in envs.enumerate() {
        if batch.waiting[i] != 0 {
            batch.status[i] = Status::Running;
            continue;
        }
        let rows = |width: usize| i * seats * width..(i + 1) * seats * width;
        let actions = Actions {
            ints: batch.actions.ints.get(rows(width)).unwrap_or_default(),
            floats: batch.actions.floats.get(rows(width)).unwrap_or_default(),
            width,
        };
        let mut outcome = Outcome {
            terms: &mut batch.outcome.terms[rows(terms)],
            terminated: &mut batch.outcome.terminated[rows(1)],
            metrics: &mut batch.outcome.metrics[rows(metrics)],
        };
        batch.status[i] = all.step(env, &actions, &batch.rngs[i], &mut outcome);
        all.observe(env, &mut batch.frame.part(i, seats));
    }
}

impl<E: Env> Envs for Vec<E> {
    fn reset(&mut self, env: usize, rng: &Rng) {
        self[env].reset(rng);
    }

    #[inline(always)]
    fn step(&mut self, env: usize, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        self[env].step(actions, rng, outcome)
    }

    #[inline(always)]
    fn observe(&mut self, env: usize, frame: &mut Frame<'_>) {
        self[env].observe(frame);
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        self[env].fields(fields);
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self[env].check()
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        self[env].adopt(options);
    }

    fn info(&self, env: usize, index: usize, seat: usize, out: &mut [f32]) {
        self[env].info(index, seat, out);
    }
}
