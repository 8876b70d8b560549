use hotloop_core::options::Value;

use crate::play::{Play, refusal, text};
use crate::table::{optimum, table};

const LEFT: i32 = 0;
const DOWN: i32 = 1;
const RIGHT: i32 = 2;
const UP: i32 = 3;

fn firm() -> [(&'static str, Value); 1] {
    [("slippery", Value::Bool(false))]
}

#[test]
fn firm_ice_is_crossed_in_six_steps() {
    let mut play = Play::new("frozen-lake", &firm(), 1);
    assert_eq!(play.state(0), 0);
    for (action, state) in [(DOWN, 4), (DOWN, 8), (RIGHT, 9), (RIGHT, 10), (DOWN, 14)] {
        play.step(&[action]);
        assert_eq!((play.state(0), play.reward[0], play.terminated[0]), (state, 0.0, false));
    }
    play.step(&[RIGHT]);
    assert_eq!((play.state(0), play.reward[0], play.terminated[0]), (15, 1.0, true));
}

#[test]
fn the_shore_stops_and_a_hole_ends() {
    let mut play = Play::new("frozen-lake", &firm(), 1);
    for action in [LEFT, UP] {
        play.step(&[action]);
        assert_eq!((play.state(0), play.terminated[0]), (0, false));
    }
    play.step(&[DOWN]);
    play.step(&[RIGHT]);
    assert_eq!((play.state(0), play.reward[0], play.terminated[0]), (5, 0.0, true));
}

#[test]
fn time_runs_out_after_a_hundred_steps() {
    let mut play = Play::new("frozen-lake", &firm(), 1);
    for step in 1..=100 {
        play.step(&[LEFT]);
        assert_eq!(play.truncated[0], step == 100);
    }
}

#[test]
fn the_best_walker_on_slippery_ice_arrives_14_times_of_17() {
    assert!((optimum(&table("frozen-lake", &[]), 1.0) - 14.0 / 17.0).abs() < 1e-9);
}

#[test]
fn rewards_are_options() {
    let schedule = [("reward_goal", 5.0), ("reward_hole", -2.0), ("reward_frozen", -0.5)];
    let mut options: Vec<(&str, Value)> = schedule.iter().map(|(name, x)| (*name, Value::Float(*x))).collect();
    options.extend([("map", text("SFH/FGF")), ("slippery", Value::Bool(false))]);
    let mut play = Play::new("frozen-lake", &options, 1);
    for (state, action, reward) in [(0, RIGHT, -0.5), (1, RIGHT, -2.0), (1, DOWN, 5.0)] {
        play.set(&[("state", &[state])]);
        play.step(&[action]);
        assert_eq!(play.reward[0], reward);
    }
}

#[test]
fn episodes_start_at_any_start() {
    let mut play = Play::new("frozen-lake", &[("map", text("SFS/FGF"))], 1000);
    play.reset();
    let starts: Vec<usize> = (0..1000).map(|row| play.state(row)).collect();
    let first = starts.iter().filter(|state| **state == 0).count();
    assert!((400..600).contains(&first), "{first}");
    assert!(starts.iter().all(|state| [0, 2].contains(state)));
}

#[test]
fn maps_that_make_no_lake_are_refused() {
    for (map, why) in [
        ("5x5", "expected 4x4, 8x8"),
        ("SF/G", "same number of letters"),
        ("", "same number of letters"),
        ("SFF", "a start S and a goal G"),
        ("GFF", "a start S and a goal G"),
        ("SÄG", "letters S, F, H, G"),
    ] {
        let said = refusal("frozen-lake", &[("map", text(map))]);
        assert!(said.contains(why), "{map}: {said}");
    }
    let long = format!("SG{}", "F".repeat(1 << 16));
    assert!(refusal("frozen-lake", &[("map", text(&long))]).contains("at most 65536 tiles"));
}
