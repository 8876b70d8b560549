//! Envs written in other languages, given as a table of facts and C functions (`hotloop.h`): checked once, then stepped
//! like any other env.

mod env;
mod table;

use std::sync::Arc;

use crate::env::{EnvKind, MAX_STEPS, max_steps};
use crate::options::OptionSpec;
use crate::scalar_group::ScalarGroup;

use env::{Foreign, raw_values};
use table::Checked;
pub use table::{ABI, Table};

/// The env behind a table, under the name that people write. Says what is wrong with a table that cannot be used.
///
/// # Safety
/// `table` must point to what `hotloop.h` calls a `hotloop_env` (or to anything that begins with another version number),
/// in memory that never changes, with functions that behave as that header says.
pub unsafe fn kind(name: &str, table: *const Table) -> Result<EnvKind, String> {
    // SAFETY: the caller's promise.
    let checked = Arc::new(unsafe { Checked::read(table) }?);
    if let Some(taken) = checked.options.iter().find(|option| option.name == MAX_STEPS) {
        return Err(format!("{} is an option that every env has: set the table's max_steps", taken.name));
    }
    let options: Vec<OptionSpec> =
        checked.options.iter().cloned().chain([max_steps(i64::from(checked.max_steps))]).collect();
    let spec = checked.spec.clone();
    Ok(EnvKind {
        name: Box::leak(name.into()),
        gymnasium_id: checked.name,
        about: checked.about,
        options: options.into(),
        spec: Box::new(move |_| Ok(spec.clone())),
        build: Box::new(move |options, count| {
            let values = raw_values(&checked, options);
            Box::new(ScalarGroup::of(&checked.spec, Foreign::new(&checked, &values, count)))
        }),
    })
}
