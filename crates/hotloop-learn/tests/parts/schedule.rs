//! Schedules of tabular learners: start, decay and floor.

use hotloop_learn::tabular::schedule::{Kind, Schedule};

fn schedule(kind: Kind) -> Schedule {
    Schedule { kind, start: 0.8, floor: 0.1, scale: 1000.0 }
}

fn value(schedule: Schedule, step: u64, visits: u32) -> f32 {
    schedule.at(step).value(|| visits)
}

#[test]
fn a_line_ends_at_its_floor() {
    let line = schedule(Kind::Linear);
    assert_eq!(value(line, 0, 0), 0.8);
    assert!((value(line, 500, 0) - 0.45).abs() < 1e-6);
    assert_eq!(value(line, 5000, 0), 0.1);
}

#[test]
fn an_exponential_halves_and_stops_at_its_floor() {
    let fall = schedule(Kind::Exponential);
    assert!((value(fall, 1000, 0) - 0.4).abs() < 1e-6);
    assert!((value(fall, 1500, 0) - 0.4 / 2f32.sqrt()).abs() < 1e-6);
    assert_eq!(value(fall, 100_000, 0), 0.1);
}

#[test]
fn visits_halve_it_and_steps_do_not() {
    let visits = schedule(Kind::Visits);
    assert!((value(visits, 10_000_000, 1000) - 0.4).abs() < 1e-6);
    assert_eq!(value(visits, 0, u32::MAX), 0.1);
}

#[test]
fn advancing_step_by_step_equals_starting_later() {
    for kind in [Kind::Linear, Kind::Exponential, Kind::Constant] {
        let mut cursor = schedule(kind).at(100);
        (0..400).for_each(|_| cursor.advance());
        assert!((cursor.value(|| 0) - value(schedule(kind), 500, 0)).abs() < 1e-5, "{kind:?}");
    }
}
