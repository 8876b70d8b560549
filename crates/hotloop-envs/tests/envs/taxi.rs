use std::collections::HashSet;

use hotloop_core::options::Value;

use crate::play::Play;
use crate::table::{optimum, table};

const SOUTH: i32 = 0;
const NORTH: i32 = 1;
const EAST: i32 = 2;
const WEST: i32 = 3;
const PICK_UP: i32 = 4;
const DROP_OFF: i32 = 5;
const IN_TAXI: i32 = 4;

fn state(row: i32, column: i32, passenger: i32, destination: i32) -> i32 {
    ((row * 5 + column) * 5 + passenger) * 4 + destination
}

#[test]
fn a_passenger_is_delivered() {
    let mut play = Play::new("taxi", &[], 1);
    play.set(&[("state", &[state(1, 0, 0, 2)])]);
    for action in [NORTH, PICK_UP, SOUTH, SOUTH, SOUTH, SOUTH] {
        play.step(&[action]);
        assert_eq!((play.reward[0], play.terminated[0]), (-1.0, false));
    }
    assert_eq!(play.get("state"), [state(4, 0, IN_TAXI, 2)]);
    play.step(&[DROP_OFF]);
    assert_eq!((play.reward[0], play.terminated[0]), (20.0, true));
    assert_eq!(play.get("state"), [state(4, 0, 2, 2)]);
}

#[test]
fn what_does_nothing_is_masked() {
    let mut play = Play::new("taxi", &[], 1);
    let mut legal = |row, column, passenger, destination| {
        play.set(&[("state", &[state(row, column, passenger, destination)])]);
        play.legal(0).into_iter().map(|action| action as i32).collect::<Vec<i32>>()
    };
    assert_eq!(legal(0, 0, 0, 1), [SOUTH, EAST, PICK_UP]);
    assert_eq!(legal(0, 1, 0, 1), [SOUTH, WEST], "a wall to the east");
    assert_eq!(legal(0, 2, 0, 1), [SOUTH, EAST], "a wall to the west");
    assert_eq!(legal(4, 3, IN_TAXI, 0), [NORTH, EAST, DROP_OFF], "any stand will do to get off");
    assert_eq!(legal(2, 2, IN_TAXI, 0), [SOUTH, NORTH, EAST, WEST]);
}

#[test]
fn the_mask_is_advice_and_useless_actions_cost() {
    for masked in [true, false] {
        useless_actions_cost(Play::new("taxi", &[("masked", Value::Bool(masked))], 1));
    }
}

fn useless_actions_cost(mut play: Play) {
    for (action, reward) in [(WEST, -1.0), (PICK_UP, -10.0), (DROP_OFF, -10.0)] {
        let here = state(3, 3, 0, 1);
        play.set(&[("state", &[here])]);
        play.step(&[action]);
        assert_eq!((play.get("state"), play.reward[0]), (vec![here], reward));
    }
}

#[test]
fn episodes_start_in_all_300_states_that_are_worth_a_ride() {
    let mut play = Play::new("taxi", &[], 5000);
    play.reset();
    let starts: HashSet<usize> = (0..5000).map(|row| play.state(row)).collect();
    let table = table("taxi", &[]);
    assert_eq!(starts.len(), 300);
    assert!(starts.iter().all(|state| table.start[*state] == 1.0 / 300.0));
}

#[test]
fn the_best_driver_earns_what_shortest_ways_allow() {
    // 20 less one per move: the mean over all starts of the moves that the walls leave necessary.
    let best = optimum(&table("taxi", &[]), 1.0);
    assert!((best - 7.93).abs() < 0.005, "{best}");
}

#[test]
fn rain_pushes_aside_but_not_through_walls_and_not_when_blocked() {
    let table = table("taxi", &[("rainy", Value::Bool(true))]);
    let look = |from: i32, action: i32| {
        let outcomes = table.outcomes(from as usize, action as usize);
        (table.next[outcomes.clone()].to_vec(), table.probability[outcomes].to_vec())
    };
    let at = |row, column| state(row, column, 3, 0);
    let (next, probability) = look(at(2, 2), NORTH);
    assert_eq!(next, [at(1, 2), at(2, 1), at(2, 3)].map(|x| x as u32));
    assert!(probability.iter().zip([0.8, 0.1, 0.1]).all(|(p, q)| (p - q).abs() < 1e-12));
    assert_eq!(look(at(1, 2), SOUTH).0, [at(2, 2), at(1, 3), at(1, 2)].map(|x| x as u32));
    assert_eq!(look(at(1, 2), WEST).0, [at(1, 2); 3].map(|x| x as u32));
}

#[test]
fn a_fickle_passenger_changes_the_destination_at_the_first_move_of_the_ride() {
    let envs = 3000;
    let mut play = Play::new("taxi", &[("fickle", Value::Bool(true))], envs);
    play.reset();
    let fickle: i32 = play.get("fickle").iter().sum();
    assert!((800..1000).contains(&fickle), "{fickle} of {envs}, about 30 % expected");

    play.set(&[("state", &vec![state(0, 0, 0, 1); envs]), ("fickle", &vec![1; envs])]);
    play.step(&vec![PICK_UP; envs]);
    assert_eq!(play.get("state"), vec![state(0, 0, IN_TAXI, 1); envs]);
    play.step(&vec![SOUTH; envs]);
    for destination in [0, 2, 3] {
        let count = play.get("state").iter().filter(|s| **s == state(1, 0, IN_TAXI, destination)).count();
        assert!((900..1100).contains(&count), "{count} of {envs}, about a third expected");
    }
    assert_eq!(play.get("fickle"), vec![0; envs]);
    let before = play.get("state");
    play.step(&vec![NORTH; envs]);
    assert!(play.get("state").iter().zip(&before).all(|(now, then)| now % 4 == then % 4), "once is enough");
}

#[test]
fn nobody_is_fickle_by_default() {
    let mut play = Play::new("taxi", &[], 1000);
    assert_eq!(play.get("fickle").iter().sum::<i32>(), 0);
    assert!(play.refused(&[("fickle", &[2; 1000])]).contains("expected 0 or 1"));
}
