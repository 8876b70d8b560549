//! `catch`: bsuite's rules, played by hand.

use hotloop_core::options::Value;

use crate::play::{Play, refusal};

const LEFT: i32 = 0;
const STAY: i32 = 1;
const RIGHT: i32 = 2;

fn options(height: i64, width: i64, visible: i64) -> [(&'static str, Value); 3] {
    [("height", Value::Int(height)), ("width", Value::Int(width)), ("visible", Value::Int(visible))]
}

#[test]
fn the_ball_falls_a_row_a_step_and_the_paddle_moves_a_column() {
    let mut play = Play::new("catch", &options(4, 5, 0), 1);
    play.set(&[("ball", &[0, 3])]);
    #[rustfmt::skip]
    assert_eq!(play.seen(0), [
        0.0, 0.0, 0.0, 1.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 1.0, 0.0, 0.0,
    ]);
    for (action, ball, paddle) in [(RIGHT, [1, 3], 3), (LEFT, [2, 3], 2)] {
        play.step(&[action]);
        assert_eq!((play.get("ball"), play.get("paddle")), (ball.to_vec(), vec![paddle]));
        assert_eq!((play.reward[0], play.terminated[0]), (0.0, false));
    }
    play.step(&[RIGHT]);
    assert_eq!((play.reward[0], play.terminated[0]), (1.0, true));
}

#[test]
fn a_ball_that_lands_elsewhere_costs_one() {
    let mut play = Play::new("catch", &options(4, 5, 0), 1);
    play.set(&[("ball", &[2, 3])]);
    play.step(&[STAY]);
    assert_eq!((play.reward[0], play.terminated[0]), (-1.0, true));
}

#[test]
fn the_paddle_stops_at_the_edges() {
    let mut play = Play::new("catch", &options(9, 3, 0), 1);
    for (action, edge) in [(LEFT, 0), (RIGHT, 2)] {
        (0..3).for_each(|_| play.step(&[action]));
        assert_eq!(play.get("paddle"), [edge]);
    }
}

#[test]
fn a_hidden_ball_falls_on() {
    let mut play = Play::new("catch", &options(4, 3, 1), 1);
    play.set(&[("ball", &[0, 2])]);
    assert_eq!(play.seen(0).iter().sum::<f32>(), 2.0);
    play.step(&[RIGHT]);
    assert_eq!(play.seen(0), [&[0.0; 9][..], &[0.0, 0.0, 1.0]].concat());
    play.step(&[STAY]);
    play.step(&[STAY]);
    assert_eq!((play.reward[0], play.terminated[0]), (1.0, true));
}

#[test]
fn balls_start_in_every_column_and_paddles_in_the_middle() {
    let mut play = Play::new("catch", &options(10, 5, 0), 5000);
    let balls = play.get("ball");
    assert!(balls.chunks(2).all(|ball| ball[0] == 0));
    for column in 0..5 {
        let count = balls.chunks(2).filter(|ball| ball[1] == column).count();
        assert!((850..1150).contains(&count), "{count} of 5000, about a fifth expected");
    }
    assert!(play.get("paddle").iter().all(|paddle| *paddle == 2));
}

#[test]
fn impossible_states_and_pictures_are_refused() {
    let mut play = Play::new("catch", &options(4, 3, 0), 1);
    assert!(play.refused(&[("ball", &[4, 0])]).contains("row 4, column 0 of a picture of 4 rows by 3"));
    assert!(play.refused(&[("ball", &[0, -1])]).contains("column -1"));
    assert!(play.refused(&[("paddle", &[3])]).contains("expected 0 to 2"));
    play.set(&[("ball", &[3, 0])]);
    play.step(&[STAY]);
    assert!(play.terminated[0], "a finished episode stays finished");
    assert!(refusal("catch", &options(4, 8, 0)).contains("expected at most 7"));
}
