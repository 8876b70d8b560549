//! A group whose panics say which envs they come from.

use crate::env::{Actions, EnvKind, Spec};
use crate::fields::Fields;
use crate::group::{Frames, Group, Rules};
use crate::group_state::GroupState;
use crate::options::Options;
use crate::panics::{self, Panic};

/// Wrapper of any group: a panic of an env carries the env's name, its index and its rows, whichever thread steps it.
pub(crate) struct CheckedGroup {
    inner: Box<dyn Group>,
    env: &'static str,
    first_env: usize,
    envs: usize,
    seats: usize,
}

impl CheckedGroup {
    /// Builds `envs` envs, the first of which has the index `first_env`.
    pub(crate) fn new(env: &EnvKind, spec: &Spec, options: &Options, first_env: usize, envs: usize) -> Self {
        Self { inner: (env.build)(options, envs), env: env.name, first_env, envs, seats: spec.seats }
    }

    /// Runs `work`, which is about one env or about all.
    fn watch<T>(&mut self, env: Option<usize>, work: impl FnOnce(&mut dyn Group) -> T) -> T {
        panics::catch(|| work(&mut *self.inner)).unwrap_or_else(|panic| panics::resume(self.blame(env, panic)))
    }

    #[cold]
    fn blame(&self, env: Option<usize>, panic: Panic) -> Panic {
        let (first, count) = env.map_or((self.first_env, self.envs), |env| (self.first_env + env, 1));
        let range = |what: &str, first: usize, count: usize| match count {
            1 => format!("{what} {first}"),
            _ => format!("{what}s {first} to {}", first + count - 1),
        };
        let (name, message) = (self.env, panic.message);
        let (envs, rows) = (range("env", first, count), range("row", first * self.seats, count * self.seats));
        let one_of = if count == 1 { "" } else { "one of " };
        Panic {
            message: format!(
                "internal error in the env {name} ({one_of}{envs}, {rows}): {message}. This is a bug in the env's code. Reset \
                 the runner to continue, or close it"
            ),
            in_env: true,
        }
    }
}

impl Group for CheckedGroup {
    fn step(&mut self, group_state: &mut GroupState, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        self.watch(None, |group| group.step(group_state, rules, actions, frames));
    }

    fn reset(&mut self, group_state: &mut GroupState, rules: &Rules, which: &[bool]) {
        self.watch(None, |group| group.reset(group_state, rules, which));
    }

    fn observe(&mut self, group_state: &mut GroupState, rules: &Rules, frames: &mut Frames<'_>) {
        self.watch(None, |group| group.observe(group_state, rules, frames));
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        self.watch(Some(env), |group| group.fields(env, fields));
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self.watch(Some(env), |group| group.check(env))
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        self.watch(Some(env), |group| group.adopt(env, options));
    }
}
