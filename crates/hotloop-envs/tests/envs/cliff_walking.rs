use hotloop_core::options::Value;

use crate::play::Play;
use crate::table::{optimum, table};

const UP: i32 = 0;
const RIGHT: i32 = 1;
const DOWN: i32 = 2;

#[test]
fn the_safe_way_costs_thirteen() {
    let mut play = Play::new("cliff-walking", &[], 1);
    let mut total = 0.0;
    for action in [vec![UP], vec![RIGHT; 11], vec![DOWN]].concat() {
        assert!(!play.terminated[0]);
        play.step(&[action]);
        total += play.reward[0];
    }
    assert_eq!((play.state(0), play.terminated[0], total), (47, true, -13.0));
    assert!((optimum(&table("cliff-walking", &[]), 1.0) + 13.0).abs() < 1e-9);
}

#[test]
fn a_fall_costs_a_hundred_and_leads_back_to_the_start() {
    let mut play = Play::new("cliff-walking", &[], 1);
    play.step(&[RIGHT]);
    assert_eq!((play.state(0), play.reward[0], play.terminated[0]), (36, -100.0, false));
}

#[test]
fn slipping_goes_to_either_side() {
    let table = table("cliff-walking", &[("slippery", Value::Bool(true))]);
    let outcomes = table.outcomes(36, UP as usize);
    assert_eq!(table.next[outcomes.clone()], [36, 24, 36]);
    assert_eq!(table.reward[outcomes.clone()], [-1.0, -1.0, -100.0]);
    assert!(table.probability[outcomes].iter().all(|p| *p == 1.0 / 3.0));
}
