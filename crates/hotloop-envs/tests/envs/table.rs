//! Laws of every env that is a table.

use std::sync::Arc;

use hotloop_core::options::Value;
use hotloop_envs::table::Table;
use hotloop_envs::table_of;

use crate::play::{Play, checked, text};

const YES: Value = Value::Bool(true);

/// The table of an env under these options.
pub fn table(name: &str, options: &[(&str, Value)]) -> Arc<Table> {
    table_of(name, &checked(name, options)).expect("an env that is a table")
}

/// The best expected return from the start, by value iteration.
pub fn optimum(table: &Table, discount: f64) -> f64 {
    let mut values = vec![0.0; table.states];
    let value = |values: &[f64], state: usize, action: usize| -> f64 {
        let outcomes = table.outcomes(state, action);
        outcomes
            .map(|i| {
                let later = if table.terminated[i] { 0.0 } else { discount * values[table.next[i] as usize] };
                table.probability[i] * (f64::from(table.reward[i]) + later)
            })
            .sum()
    };
    for _ in 0..10_000 {
        for state in 0..table.states {
            values[state] = (0..table.actions).map(|a| value(&values, state, a)).fold(f64::NEG_INFINITY, f64::max);
        }
    }
    table.start.iter().zip(&values).map(|(p, v)| p * v).sum()
}

#[test]
fn outcomes_are_distributions_over_states() {
    let tables = [
        table("frozen-lake", &[]),
        table("frozen-lake", &[("map", text("8x8")), ("success_rate", Value::Float(0.7))]),
        table("cliff-walking", &[]),
        table("cliff-walking", &[("slippery", YES)]),
        table("taxi", &[]),
        table("taxi", &[("rainy", YES)]),
    ];
    for table in tables {
        assert_eq!(table.offsets.len(), table.states * table.actions + 1);
        for state in 0..table.states {
            for action in 0..table.actions {
                let outcomes = table.outcomes(state, action);
                let total: f64 = table.probability[outcomes.clone()].iter().sum();
                assert!((total - 1.0).abs() < 1e-12, "{total}");
                assert!(table.next[outcomes].iter().all(|next| (*next as usize) < table.states));
            }
        }
        assert!((table.start.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn equal_options_share_a_table_for_as_long_as_someone_uses_it() {
    let options = [("success_rate", Value::Float(0.123))];
    let first = table("frozen-lake", &options);
    assert!(Arc::ptr_eq(&first, &table("frozen-lake", &options)));
    assert_eq!(Arc::strong_count(&first), 1);
    let play = Play::new("frozen-lake", &options, 100);
    assert_eq!(Arc::strong_count(&first), 101);
    drop(play);
    assert_eq!(Arc::strong_count(&first), 1);
    assert!(!Arc::ptr_eq(&first, &table("frozen-lake", &[("success_rate", Value::Float(0.124))])));
}

#[test]
fn envs_without_a_table_have_none() {
    assert!(table_of("recall", &checked("recall", &[])).is_none());
}

#[test]
fn outcomes_come_as_often_as_the_table_says() {
    let envs = 20_000;
    let mut play = Play::new("frozen-lake", &[("success_rate", Value::Float(0.5))], envs);
    play.set(&[("state", &vec![9; envs])]);
    play.step(&vec![2; envs]);
    // From tile 9 to the right: down to 13, right to 10, up into the hole at 5.
    for (next, probability) in [(13, 0.25), (10, 0.5), (5, 0.25)] {
        let rows: Vec<usize> = (0..envs).filter(|row| play.state(*row) == next).collect();
        let share = rows.len() as f64 / envs as f64;
        assert!((share - probability).abs() < 0.02, "{next}: {share}");
        assert!(rows.iter().all(|row| f64::from(play.infos[*row]) == probability));
        assert!(rows.iter().all(|row| play.terminated[*row] == (next == 5)));
    }
}

#[test]
fn states_that_do_not_exist_are_refused() {
    let mut play = Play::new("cliff-walking", &[], 1);
    for state in [-1, 48] {
        assert!(play.refused(&[("state", &[state])]).contains("expected 0 to 47"));
    }
    assert_eq!(play.get("state"), [36]);
}
