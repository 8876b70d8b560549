use hotloop_core::episodes::{Episode, Totals};
use hotloop_core::group::Autoreset;
use hotloop_core::options::Value;
use hotloop_core::space::Observation;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::play::{Play, refusal, text};

const STAY: i32 = 0;
const NORTH: i32 = 1;
const SOUTH: i32 = 2;
const WEST: i32 = 3;
const EAST: i32 = 4;

fn int(name: &'static str, value: i64) -> (&'static str, Value) {
    (name, Value::Int(value))
}

/// One game on an open 5 x 5 grid with these cells; `taggers` of them chase.
fn open_field(taggers: i64, cells: &[i32]) -> Play {
    let options = [int("seats", cells.len() as i64), int("taggers", taggers), int("size", 5)];
    let mut play = Play::new("tag", &options, 1);
    play.set(&[("cell", cells), ("walls", &[0; 25])]);
    play
}

fn episodes(play: &Play) -> Vec<Episode> {
    let mut recent = Vec::new();
    play.pool.group_states(|group_state| group_state.episodes.report(&mut Totals::new(4), &mut recent));
    recent.sort_by_key(|episode| episode.row);
    recent
}

#[test]
fn moves_go_where_they_say_and_the_border_is_masked() {
    let mut play = open_field(1, &[0, 24]);
    assert_eq!(play.legal(0), [STAY, SOUTH, EAST].map(|a| a as usize));
    assert_eq!(play.legal(1), [STAY, NORTH, WEST].map(|a| a as usize));
    for (actions, cells) in [([SOUTH, NORTH], [5, 19]), ([EAST, WEST], [6, 18]), ([STAY, STAY], [6, 18])] {
        play.step(&actions);
        assert_eq!(play.get("cell"), cells);
    }
    play.step(&[NORTH, SOUTH]);
    let refused = play.try_step(&[NORTH, STAY]).expect_err("an illegal action").to_string();
    assert!(refused.contains("mask forbids"), "{refused}");
}

#[test]
fn walls_are_masked() {
    let mut play = open_field(1, &[12, 24]);
    let mut walls = [0; 25];
    walls[7] = 1;
    walls[13] = 1;
    play.set(&[("walls", &walls)]);
    assert_eq!(play.legal(0), [STAY, SOUTH, WEST].map(|a| a as usize));
}

#[test]
fn a_runner_in_a_taggers_cell_is_caught() {
    let mut play = open_field(1, &[0, 2]);
    play.step(&[EAST, WEST]);
    assert_eq!(play.terminated, [true, true]);
    assert_eq!(play.reward, [1.0, -1.0]);
    let success: Vec<f32> = episodes(&play).iter().map(|episode| episode.extra[3]).collect();
    assert_eq!(success, [1.0, 0.0]);
}

#[test]
fn swapping_cells_is_no_escape() {
    let mut play = open_field(1, &[0, 1]);
    play.step(&[EAST, WEST]);
    assert_eq!(play.terminated, [true, true]);
}

#[test]
fn passing_by_and_following_are_no_catch() {
    let mut play = open_field(1, &[0, 1]);
    play.step(&[EAST, EAST]);
    assert_eq!((play.get("cell"), &play.terminated[..]), (vec![1, 2], &[false; 2][..]));
    assert_eq!(play.reward, [0.0, 0.01]);
}

#[test]
fn a_caught_runner_drops_out_and_the_rest_play_on() {
    let mut play = open_field(2, &[0, 20, 1, 24]);
    play.step(&[EAST, STAY, STAY, STAY]);
    assert_eq!(play.terminated, [false, false, true, false]);
    assert_eq!(play.reward, [1.0, 1.0, -1.0, 0.01], "every tagger has its share of a catch");
    assert_eq!(play.valid, [true, true, false, true]);
    play.step(&[STAY, EAST, 99, STAY]);
    assert_eq!(play.terminated, [false; 4]);
    assert_eq!(play.reward, [0.0, 0.0, 0.0, 0.01]);
    play.set(&[("cell", &[0, 23, 1, 24])]);
    play.step(&[STAY, EAST, STAY, STAY]);
    assert_eq!(play.terminated, [true, true, false, true], "each row's episode ends once");
    let ended: Vec<(u32, u32, f32)> = episodes(&play).iter().map(|e| (e.row, e.length, e.extra[3])).collect();
    assert_eq!(ended, [(0, 3, 1.0), (1, 3, 1.0), (2, 1, 0.0), (3, 3, 0.0)]);
}

#[test]
fn two_runners_can_be_caught_at_once() {
    let mut play = open_field(1, &[0, 1, 2]);
    play.step(&[EAST, STAY, WEST]);
    assert_eq!(play.terminated, [true; 3]);
    assert_eq!(play.reward, [2.0, -1.0, -1.0]);
}

#[test]
fn who_is_left_when_time_runs_out_has_survived() {
    let options = [int("seats", 3), int("taggers", 1), int("size", 5), int("max_steps", 2)];
    let mut play = Play::new("tag", &options, 1);
    play.set(&[("cell", &[0, 1, 24]), ("walls", &[0; 25])]);
    play.step(&[EAST, STAY, STAY]);
    play.step(&[STAY, STAY, STAY]);
    assert_eq!(play.truncated, [true, false, true]);
    let success: Vec<f32> = episodes(&play).iter().map(|episode| episode.extra[3]).collect();
    assert_eq!(success, [0.0, 0.0, 1.0]);
}

#[test]
fn seats_without_a_player_never_play() {
    let options = [int("seats", 6), int("players", 3), int("size", 5)];
    let mut play = Play::with("tag", &options, 50, Autoreset::SameStep);
    for step in 0..200 {
        for env in 0..50 {
            assert!(play.valid[env * 6], "taggers are always in play");
            for row in env * 6 + 3..env * 6 + 6 {
                assert!(!play.valid[row] && !play.terminated[row] && !play.truncated[row]);
                assert!(play.seen(row).iter().all(|x| *x == 0.0));
                assert_eq!(play.reward[row], 0.0);
            }
        }
        let actions = play.any_actions(step);
        play.step(&actions);
    }
    assert!(episodes(&play).iter().all(|episode| episode.row % 6 < 3));
}

#[test]
fn half_of_the_players_chase_unless_said_otherwise() {
    for (seats, players, taggers, chasing) in [(4, 0, 0, 2), (5, 0, 0, 2), (8, 3, 0, 1), (8, 0, 7, 7)] {
        let play = Play::new("tag", &[int("seats", seats), int("players", players), int("taggers", taggers)], 1);
        let players = if players == 0 { seats } else { players };
        let teams: Vec<f32> = (0..seats as usize).map(|seat| play.seen(seat)[2]).collect();
        let expected = |seat: i64| if seat < chasing { 1.0 } else { -f32::from(i8::from(seat < players)) };
        assert_eq!(teams, (0..seats).map(expected).collect::<Vec<f32>>());
    }
}

#[test]
fn teams_that_do_not_go_together_are_refused() {
    assert!(refusal("tag", &[int("players", 5)]).contains("expected 2 to 4"));
    assert!(refusal("tag", &[int("players", 1)]).contains("expected 2 to 4"));
    assert!(refusal("tag", &[int("players", 2), int("taggers", 2)]).contains("at least one runner"));
}

#[test]
fn a_vector_tells_places_walls_and_the_others() {
    let mut play = open_field(1, &[0, 24, 12]);
    play.set(&[("in_play", &[1, 0, 1])]);
    let tagger = [-1.0, -1.0, 1.0, 1.0, 0.0, 1.0, 0.0];
    assert_eq!(play.seen(0), [&tagger[..], &[0.0; 4], &[0.5, 0.5, -1.0, 1.0]].concat());
    let runner = [0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(play.seen(2), [&runner[..], &[-0.5, -0.5, 1.0, 1.0], &[0.0; 4]].concat());
    assert_eq!(play.seen(1), [0.0; 15]);
}

#[test]
fn a_grid_shows_walls_oneself_taggers_and_runners() {
    let list = [int("seats", 3), int("taggers", 1), int("size", 5), ("observation", text("grid"))];
    let mut play = Play::new("tag", &list, 1);
    assert_eq!(play.pool.spec().observation, Observation::Bytes { shape: vec![4, 5, 5], high: 1 });
    let mut walls = [0; 25];
    walls[3] = 1;
    play.set(&[("cell", &[0, 7, 12]), ("walls", &walls), ("in_play", &[1, 1, 1])]);
    let ones = |row: usize| {
        let seen = play.seen(row);
        (0..seen.len()).filter(|i| seen[*i] == 1.0).collect::<Vec<usize>>()
    };
    assert_eq!(ones(0), [3, 25, 50, 75 + 7, 75 + 12]);
    assert_eq!(ones(2), [3, 25 + 12, 50, 75 + 7, 75 + 12]);
}

#[test]
fn observations_stay_in_bounds_and_masks_keep_everyone_on_free_cells() {
    let mut play = Play::with("tag", &[int("seats", 8), int("size", 6)], 30, Autoreset::SameStep);
    for step in 0..300 {
        for row in 0..play.valid.len() {
            assert!(play.seen(row).iter().all(|x| (-1.0..=1.0).contains(x)));
            assert!(play.legal(row).contains(&0));
        }
        let (cells, walls) = (play.get("cell"), play.get("walls"));
        assert!((0..cells.len()).all(|row| walls[row / 8 * 36 + cells[row] as usize] == 0));
        let actions = play.any_actions(step);
        play.step(&actions);
    }
}

/// Cells that can be walked to from the first, on a grid of this size.
fn reachable(walls: &[i32], size: usize, from: usize) -> Vec<bool> {
    let mut seen = vec![false; walls.len()];
    let mut open = vec![from];
    while let Some(cell) = open.pop() {
        if std::mem::replace(&mut seen[cell], true) {
            continue;
        }
        let (row, column) = (cell / size, cell % size);
        let mut visit = |inside: bool, next: usize| {
            if inside && walls[next] == 0 {
                open.push(next);
            }
        };
        visit(row > 0, cell.wrapping_sub(size));
        visit(row + 1 < size, cell + size);
        visit(column > 0, cell.wrapping_sub(1));
        visit(column + 1 < size, cell + 1);
    }
    seen
}

#[test]
fn players_start_apart_and_can_all_reach_each_other() {
    for size in [5, 16] {
        let options = [int("seats", 8), int("size", size as i64), ("walls", Value::Float(0.3))];
        let mut play = Play::new("tag", &options, 1000);
        let (cells, walls) = (play.get("cell"), play.get("walls"));
        for (cells, walls) in cells.chunks_exact(8).zip(walls.chunks_exact(size * size)) {
            let reached = reachable(walls, size, cells[0] as usize);
            assert!(cells.iter().all(|cell| reached[*cell as usize]));
            let mut apart = cells.to_vec();
            apart.sort_unstable();
            apart.dedup();
            assert_eq!(apart.len(), 8);
        }
        let share = walls.iter().sum::<i32>() as f32 / walls.len() as f32;
        assert!((0.1..0.3).contains(&share), "{share}");
    }
}

#[test]
fn every_cell_is_a_start_equally_often() {
    let mut play = Play::new("tag", &[int("size", 5), int("seats", 8)], 5000);
    let cells = play.get("cell");
    for seat in [0, 7] {
        for place in 0..25 {
            let count = cells.iter().skip(seat).step_by(8).filter(|cell| **cell == place).count();
            assert!((140..260).contains(&count), "{count} of 5000, a 25th expected");
        }
    }
}

#[test]
fn the_same_key_gives_the_same_games() {
    let play_out = |seed: u64| {
        let mut play = Play::with("tag", &[], 20, Autoreset::SameStep);
        play.seed(seed);
        let mut log = Vec::new();
        for step in 0..200 {
            let actions = play.any_actions(step);
            play.step(&actions);
            log.push((play.get("cell"), play.get("walls"), play.reward.clone()));
        }
        log
    };
    assert_eq!(play_out(3), play_out(3));
    assert_ne!(play_out(3), play_out(4));
}

#[test]
fn weights_of_the_terms_change_the_reward() {
    let mut play = open_field(1, &[0, 1, 24]);
    play.pool.set_weights(&[2.0, 0.5, 0.0]).expect("good weights");
    play.step(&[EAST, STAY, STAY]);
    assert_eq!(play.reward, [2.0, -0.5, 0.0]);
}

#[test]
fn impossible_states_are_refused() {
    let options = [int("seats", 4), int("players", 3), int("taggers", 1), int("size", 5)];
    let mut play = Play::new("tag", &options, 1);
    play.set(&[("cell", &[0, 1, 2, 0]), ("walls", &[0; 25])]);
    let mut walls = [0; 25];
    walls[1] = 1;
    for (field, value, why) in [
        ("cell", &[0, 1, 25, 0][..], "cell of seat 2 is 25: expected 0 to 24"),
        ("cell", &[0, -1, 2, 0], "cell of seat 1 is -1"),
        ("cell", &[0, 0, 2, 0], "a tagger is at its cell 0"),
        ("in_play", &[0, 1, 1, 0], "in_play of seat 0 is 0: expected 1 to 1"),
        ("in_play", &[1, 2, 1, 0], "in_play of seat 1 is 2: expected 0 to 1"),
        ("in_play", &[1, 1, 1, 1], "in_play of seat 3 is 1: expected 0 to 0"),
        ("walls", &walls, "seat 1 is inside the wall at cell 1"),
        ("walls", &[2; 25], "expected 0 or 1"),
    ] {
        let said = play.refused(&[(field, value)]);
        assert!(said.contains(why), "{said}");
    }
    play.set(&[("in_play", &[1, 0, 0, 0])]);
    play.step(&[STAY; 4]);
    assert!(play.terminated[0], "without runners the game is over");
}

proptest! {
    #[test]
    fn states_are_accepted_if_nobody_is_caught_yet_and_can_be_played_on(
        cells in vec(0..25, 5),
        runs in vec(0..2, 5),
        mut walls in vec(0..2, 25),
        players in 2_i64..=5,
        steps in 1_usize..20,
    ) {
        let mut play = Play::new("tag", &[int("seats", 5), int("players", players), int("size", 5)], 1);
        let (taggers, players) = (players as usize / 2, players as usize);
        let in_play: Vec<i32> =
            (0..5).map(|seat| if seat < taggers { 1 } else { runs[seat] * i32::from(seat < players) }).collect();
        for cell in &cells {
            walls[*cell as usize] = 0;
        }
        let accepted = play.try_set(&[("cell", &cells), ("in_play", &in_play), ("walls", &walls)]).is_ok();
        let met = (taggers..players).any(|runner| in_play[runner] == 1 && cells[..taggers].contains(&cells[runner]));
        prop_assert_eq!(accepted, !met);
        for step in 0..steps {
            let actions = play.any_actions(step);
            play.step(&actions);
            let (cells, in_play, walls) = (play.get("cell"), play.get("in_play"), play.get("walls"));
            prop_assert!((0..5).all(|seat| in_play[seat] == 0 || walls[cells[seat] as usize] == 0));
        }
    }
}
