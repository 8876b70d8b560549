//! Several envs of one kind, by their number in the group: instances in a row, or whatever keeps them better together.

use std::ops::Range;

use crate::env::{Actions, Env, Frame, Outcome, Rng, Status};
use crate::fields::Fields;
use crate::options::Options;

/// What [`crate::scalar_group::Each`] makes a group of. Except for `play` and `failure`, see [`Env`].
pub trait Envs: Send + 'static {
    /// Starts an episode.
    fn reset(&mut self, env: usize, rng: &Rng);
    /// Plays a step.
    fn step(&mut self, env: usize, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status;
    /// Shows an env that was stepped or reset last, or whose state came from outside.
    fn observe(&mut self, env: usize, frame: &mut Frame<'_>);
    /// Names all of an env's state.
    fn fields(&mut self, env: usize, fields: &mut dyn Fields);
    /// Whether a state from outside is a possible one.
    fn check(&mut self, env: usize) -> Result<(), String>;
    /// Takes other options.
    fn adopt(&mut self, env: usize, options: &Options);
    /// Writes an info array.
    fn info(&self, env: usize, index: usize, seat: usize, out: &mut [f32]);
    /// Whether some env cannot go on: asked after every step.
    fn any_failed(&self) -> bool {
        false
    }
    /// Whether an env cannot go on. Its episode is cut, and it is reset.
    fn has_failed(&self, env: usize) -> bool {
        let _ = env;
        false
    }
    /// Why an env cannot go on, if it cannot. May take its time: it is not asked every time.
    fn failure(&self, env: usize) -> Option<String> {
        let _ = env;
        None
    }
    /// Plays a step of each of these envs that does not wait for a reset, and shows it: for those who know a faster way than one by one.
    fn play(&mut self, envs: Range<usize>, batch: &mut BatchStep<'_>) {
        play_each(self, envs, batch);
    }
}

/// A step of several envs: what each of them is given and gives, one after the other.
pub struct BatchStep<'a> {
    /// Seats per env.
    pub seats: usize,
    /// Reward terms per seat.
    pub terms: usize,
    /// Metrics per seat.
    pub metrics: usize,
    /// What they decided.
    pub actions: Actions<'a>,
    /// Not 0 for envs that wait for a reset: they are left out.
    pub waiting: &'a [u32],
    /// Each env's random numbers.
    pub rngs: &'a [Rng],
    /// What the step brought.
    pub outcome: Outcome<'a>,
    /// What is seen after it.
    pub frame: Frame<'a>,
    /// Whether each env's episode goes on.
    pub status: &'a mut [Status],
}

/// One by one.
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
