//! `cliff-walking`: along a cliff's edge to the goal; a fall costs 100 and leads back to the start. The rules are those
//! of Gymnasium's `CliffWalking-v1`.

use std::sync::Arc;

use hotloop_core::env::{EnvType, Spec, max_steps};
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::scalar_group::ScalarGroup;

use crate::table::{self, Table, TableEnv, Tabular, Transition};

const ROWS: usize = 4;
const COLUMNS: usize = 12;
const START: usize = (ROWS - 1) * COLUMNS;
const GOAL: usize = ROWS * COLUMNS - 1;

/// The task.
pub struct CliffWalking;

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "cliff-walking",
        gymnasium_id: "CliffWalking-v1",
        about: "Walk along a cliff to the goal; a fall costs 100 and leads back to the start.",
        options: Arc::new([
            OptionSpec::bool(
                "slippery",
                false,
                "whether a move may slip sideways, at right angles to the chosen direction",
            ),
            max_steps(0),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<TableEnv<CliffWalking>>>::new(&spec, options, count))
        },
    }
}

// Every env has the same signature here; this one takes all options.
#[allow(clippy::unnecessary_wraps)]
fn spec(_options: &Options) -> Result<Spec, String> {
    Ok(table::spec(ROWS * COLUMNS, 4, false))
}

/// The outcome of going up, right, down or left.
fn go(cell: usize, direction: usize, probability: f64) -> Transition {
    let (row, column) = (cell / COLUMNS, cell % COLUMNS);
    let next = match direction {
        0 if row > 0 => cell - COLUMNS,
        1 if column + 1 < COLUMNS => cell + 1,
        2 if row + 1 < ROWS => cell + COLUMNS,
        3 if column > 0 => cell - 1,
        _ => cell,
    };
    if START < next && next < GOAL {
        return Transition { probability, next: START as u32, reward: -100.0, terminated: false };
    }
    Transition { probability, next: next as u32, reward: -1.0, terminated: next == GOAL }
}

impl Tabular for CliffWalking {
    const NAME: &'static str = "cliff-walking";

    fn table(options: &Options) -> Table {
        let slippery = options.bool("slippery");
        let only = |cell: usize| (0..ROWS * COLUMNS).map(move |other| other == cell);
        let start = only(START).map(|here| f64::from(u8::from(here))).collect();
        Table::new(start, only(GOAL).collect(), 4, |cell, action| {
            let directions = [(action + 3) % 4, action, (action + 1) % 4];
            let directions = if slippery { &directions[..] } else { &directions[1..2] };
            directions.iter().map(|direction| go(cell, *direction, 1.0 / directions.len() as f64)).collect()
        })
    }
}
