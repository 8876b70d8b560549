//! Hooks for tests of what happens when native code panics, which nothing else can make it do on purpose. Private: their
//! names begin with an underscore, and nothing in the package calls them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hotloop_core::env::{Actions, EnvKind};
use hotloop_core::fields::Fields;
use hotloop_core::group::{Frames, Group, Rules};
use hotloop_core::group_state::GroupState;
use hotloop_core::options::Options;
use hotloop_py_macros::guarded;
use pyo3::prelude::*;

use crate::registry;

thread_local! {
    static REQUESTED: Cell<bool> = const { Cell::new(false) };
}

/// Panics once after `_panic_in_next_call`.
pub fn panic_if_requested() {
    assert!(!REQUESTED.replace(false), "requested by a test");
}

/// Makes the next guarded call of this thread panic.
#[guarded]
#[pyfunction]
pub fn _panic_in_next_call() {
    REQUESTED.set(true);
}

/// Registers an env that is `cartpole` but for one panic, in the first call of this method of a group.
#[guarded]
#[pyfunction]
pub fn _add_panicking_env(name: &str, method: String) -> PyResult<()> {
    let base = registry::find("cartpole")?;
    let (spec, build) = (base.clone(), base.clone());
    let armed = Arc::new(AtomicBool::new(true));
    registry::insert(EnvKind {
        name: name.to_string().leak(),
        gymnasium_id: base.gymnasium_id,
        about: base.about,
        options: base.options.clone(),
        spec: Box::new(move |options| (spec.spec)(options)),
        build: Box::new(move |options, count| {
            let (inner, method, armed) = ((build.build)(options, count), method.clone(), armed.clone());
            Box::new(Panicking { inner, method, armed })
        }),
    });
    Ok(())
}

struct Panicking {
    inner: Box<dyn Group>,
    method: String,
    armed: Arc<AtomicBool>,
}

impl Panicking {
    fn at(&mut self, method: &str) -> &mut dyn Group {
        assert!(method != self.method || !self.armed.swap(false, Ordering::Relaxed), "requested by a test");
        &mut *self.inner
    }
}

impl Group for Panicking {
    fn step(&mut self, group_state: &mut GroupState, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        self.at("step").step(group_state, rules, actions, frames);
    }

    fn reset(&mut self, group_state: &mut GroupState, rules: &Rules, which: &[bool]) {
        self.at("reset").reset(group_state, rules, which);
    }

    fn observe(&mut self, group_state: &mut GroupState, rules: &Rules, frames: &mut Frames<'_>) {
        self.at("observe").observe(group_state, rules, frames);
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        self.at("fields").fields(env, fields);
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self.at("check").check(env)
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        self.at("adopt").adopt(env, options);
    }
}
