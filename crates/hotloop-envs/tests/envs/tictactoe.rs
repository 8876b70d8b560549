use std::collections::{HashMap, HashSet};

use crate::play::{Play, text};

type Board = [u8; 9];

/// An independent reading of the rules, slow and plain.
mod rules {
    use super::Board;

    pub fn id(board: &Board) -> usize {
        board.iter().fold(0, |id, cell| 3 * id + usize::from(*cell))
    }

    pub fn board(id: usize) -> Board {
        std::array::from_fn(|cell| (id / 3_usize.pow(8 - cell as u32) % 3) as u8)
    }

    pub fn empty(board: &Board) -> Vec<usize> {
        (0..9).filter(|cell| board[*cell] == 0).collect()
    }

    pub fn mover(board: &Board) -> u8 {
        1 + u8::from(empty(board).len().is_multiple_of(2))
    }

    pub fn winner(board: &Board) -> Option<u8> {
        let line = |cells: [usize; 3]| cells.map(|cell| board[cell]);
        let straight = (0..3).flat_map(|i| [line([3 * i, 3 * i + 1, 3 * i + 2]), line([i, i + 3, i + 6])]);
        let lines = straight.chain([line([0, 4, 8]), line([2, 4, 6])]);
        lines.into_iter().find(|[a, b, c]| *a != 0 && a == b && b == c).map(|[a, _, _]| a)
    }

    pub fn over(board: &Board) -> bool {
        winner(board).is_some() || empty(board).is_empty()
    }

    pub fn play(board: &Board, cell: usize) -> Board {
        let mut next = *board;
        next[cell] = mover(board);
        next
    }

    /// The result for a mark when the game is over.
    pub fn result(board: &Board, mark: u8) -> f64 {
        winner(board).map_or(0.0, |winner| if winner == mark { 1.0 } else { -1.0 })
    }
}

/// All boards at which the learner may have to move: any start, any play.
fn learner_boards() -> Vec<Board> {
    let mut seen = HashSet::new();
    let mut open: Vec<Board> = vec![[0; 9]];
    open.extend((0..9).map(|cell| rules::play(&[0; 9], cell)));
    while let Some(board) = open.pop() {
        if !seen.insert(board) {
            continue;
        }
        for cell in rules::empty(&board) {
            let moved = rules::play(&board, cell);
            if !rules::over(&moved) {
                let replies = rules::empty(&moved).into_iter().map(|reply| rules::play(&moved, reply));
                open.extend(replies.filter(|next| !rules::over(next)));
            }
        }
    }
    let mut boards: Vec<Board> = seen.into_iter().collect();
    boards.sort_unstable();
    boards
}

/// Expected result after a move against a random opponent, with optimal play from there on.
fn action_value(board: &Board, cell: usize, discount: f64, values: &mut HashMap<Board, f64>) -> f64 {
    let mark = rules::mover(board);
    let moved = rules::play(board, cell);
    if rules::over(&moved) {
        return rules::result(&moved, mark);
    }
    let replies = rules::empty(&moved);
    let total: f64 = replies
        .iter()
        .map(|reply| {
            let next = rules::play(&moved, *reply);
            if rules::over(&next) { rules::result(&next, mark) } else { discount * value(&next, discount, values) }
        })
        .sum();
    total / replies.len() as f64
}

fn value(board: &Board, discount: f64, values: &mut HashMap<Board, f64>) -> f64 {
    if let Some(known) = values.get(board) {
        return *known;
    }
    let choices = rules::empty(board);
    let best = choices.iter().map(|c| action_value(board, *c, discount, values)).fold(f64::NEG_INFINITY, f64::max);
    values.insert(*board, best);
    best
}

/// The result that the side to move can force.
fn forced(board: &Board, values: &mut HashMap<Board, i32>) -> i32 {
    if rules::over(board) {
        return rules::result(board, rules::mover(board)) as i32;
    }
    if let Some(known) = values.get(board) {
        return *known;
    }
    let replies = rules::empty(board).into_iter().map(|cell| rules::play(board, cell));
    let best = replies.map(|next| -forced(&next, values)).max().expect("a move");
    values.insert(*board, best);
    best
}

/// Every board of the learner with every move, and a pool that stands at these boards.
fn all_moves(opponent: &str) -> (Play, Vec<(Board, usize)>) {
    let moves: Vec<(Board, usize)> = learner_boards()
        .into_iter()
        .flat_map(|board| rules::empty(&board).into_iter().map(move |cell| (board, cell)))
        .collect();
    let play = Play::new("tictactoe", &[("opponent", text(opponent))], moves.len());
    (play, moves)
}

fn set_all(play: &mut Play, moves: &[(Board, usize)]) {
    let boards: Vec<i32> = moves.iter().flat_map(|(board, _)| board.map(i32::from)).collect();
    let marks: Vec<i32> = moves.iter().map(|(board, _)| i32::from(rules::mover(board))).collect();
    play.set(&[("board", &boards), ("mark", &marks)]);
}

fn step_all(play: &mut Play, moves: &[(Board, usize)]) {
    play.step(&moves.iter().map(|(_, cell)| *cell as i32).collect::<Vec<i32>>());
}

#[test]
fn the_learner_can_meet_4520_boards() {
    assert_eq!(learner_boards().len(), 4520);
}

/// Expected result of optimal play, over both starts.
fn optimum(discount: f64, values: &mut HashMap<Board, f64>) -> f64 {
    let first = value(&[0; 9], discount, values);
    let second: f64 = (0..9).map(|cell| value(&rules::play(&[0; 9], cell), discount, values) / 9.0).sum();
    f64::midpoint(first, second)
}

#[test]
fn the_best_player_expects_what_is_known() {
    assert!((optimum(1.0, &mut HashMap::new()) - 0.959_83).abs() < 5e-6);
    let mut values = HashMap::new();
    assert!((optimum(0.99, &mut values) - 0.939_18).abs() < 5e-6);

    // Who plays best for a discount of 0.99 also wins most, in the env as on paper.
    let envs = 40_000;
    let mut play = Play::new("tictactoe", &[], envs);
    let mut total = 0.0;
    let mut playing = vec![true; envs];
    let mut policy: HashMap<usize, i32> = HashMap::new();
    for _ in 0..5 {
        let actions: Vec<i32> = (0..envs)
            .map(|row| {
                let id = play.state(row);
                *policy.entry(id).or_insert_with(|| {
                    let board = rules::board(id);
                    let mut q = |cell: &usize| action_value(&board, *cell, 0.99, &mut values);
                    let better = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
                    let best = rules::empty(&board).iter().map(|cell| (*cell, q(cell))).max_by(better);
                    best.map_or(0, |(cell, _)| cell as i32)
                })
            })
            .collect();
        play.step(&actions);
        for (row, on) in playing.iter_mut().enumerate().filter(|(_, on)| **on) {
            total += f64::from(play.reward[row]);
            *on = !play.terminated[row];
        }
    }
    assert!(playing.iter().all(|on| !on), "a game has at most five moves of one side");
    let mean = total / envs as f64;
    assert!((mean - 0.959_83).abs() < 0.005, "{mean}");
}

#[test]
fn every_move_against_a_random_opponent_follows_the_rules() {
    let (mut play, moves) = all_moves("random");
    set_all(&mut play, &moves);
    for (row, (board, _)) in moves.iter().enumerate() {
        assert_eq!(play.state(row), rules::id(board));
        assert_eq!(play.legal(row), rules::empty(board));
    }
    step_all(&mut play, &moves);
    for (row, (board, cell)) in moves.iter().enumerate() {
        let moved = rules::play(board, *cell);
        let nexts = if rules::over(&moved) {
            vec![moved]
        } else {
            rules::empty(&moved).into_iter().map(|reply| rules::play(&moved, reply)).collect()
        };
        let next = rules::board(play.state(row));
        assert!(nexts.contains(&next), "{board:?} {cell} {next:?}");
        assert_eq!(play.terminated[row], rules::over(&next));
        assert_eq!(f64::from(play.reward[row]), rules::result(&next, rules::mover(board)));
    }
}

#[test]
fn random_replies_are_uniform() {
    let envs = 9000;
    let mut play = Play::new("tictactoe", &[], envs);
    play.set(&[("board", &vec![0; 9 * envs]), ("mark", &vec![1; envs])]);
    play.step(&vec![4; envs]);
    let boards = play.get("board");
    for cell in [0, 1, 2, 3, 5, 6, 7, 8] {
        let count = boards.iter().skip(cell).step_by(9).filter(|mark| **mark == 2).count();
        assert!((1000..1250).contains(&count), "{count} of {envs}, an eighth expected");
    }
}

#[test]
fn a_perfect_opponent_never_gives_anything_away() {
    let mut values = HashMap::new();
    assert_eq!(forced(&[0; 9], &mut values), 0);
    assert!((0..9).all(|cell| forced(&rules::play(&[0; 9], cell), &mut values) == 0));
    // The result that the learner can force never rises over a move and a reply; it is 0 at both starts: no play wins.
    let (mut play, moves) = all_moves("perfect");
    let mut replies: HashMap<Board, HashSet<Board>> = HashMap::new();
    for seed in 0..40 {
        play.seed(seed);
        set_all(&mut play, &moves);
        step_all(&mut play, &moves);
        for (row, (board, cell)) in moves.iter().enumerate() {
            let next = rules::board(play.state(row));
            let mark = rules::mover(board);
            let now = if rules::over(&next) { rules::result(&next, mark) as i32 } else { forced(&next, &mut values) };
            assert!(now <= forced(board, &mut values), "{board:?} {cell} {next:?}");
            replies.entry(rules::play(board, *cell)).or_default().insert(next);
        }
    }
    for (moved, played) in replies.iter().filter(|(moved, _)| !rules::over(moved)) {
        let value = forced(moved, &mut values);
        let all = rules::empty(moved).into_iter().map(|reply| rules::play(moved, reply));
        let best: HashSet<Board> = all.filter(|next| -forced(next, &mut values) == value).collect();
        assert!(played.is_subset(&best));
        assert!(*played == best || best.len() > 3, "of few best replies all are played: {moved:?}");
    }
}

#[test]
fn a_coin_decides_who_starts() {
    let mut play = Play::new("tictactoe", &[], 2000);
    let (marks, boards) = (play.get("mark"), play.get("board"));
    let first = marks.iter().filter(|mark| **mark == 1).count();
    assert!((900..1100).contains(&first), "{first}");
    for (mark, board) in marks.iter().zip(boards.chunks_exact(9)) {
        assert_eq!(board.iter().sum::<i32>(), mark - 1, "a starting opponent has one stone");
    }
}

#[test]
fn both_seats_play_in_turn_and_see_the_same_id() {
    let mut play = Play::new("tictactoe", &[("opponent", text("self"))], 1);
    play.set(&[("mark", &[2]), ("board", &[0; 9])]);
    for (turn, cell) in [0, 3, 1, 4].into_iter().enumerate() {
        let seat = 1 - turn % 2;
        assert_eq!((play.valid[seat], play.valid[1 - seat]), (true, false));
        assert_eq!(play.state(0), play.state(1));
        assert!(play.legal(seat).contains(&(cell as usize)));
        assert_eq!(play.legal(seat).len(), 9 - turn);
        let mut actions = [-1; 2];
        actions[seat] = cell;
        play.step(&actions);
        assert_eq!((&play.reward[..], &play.terminated[..]), (&[0.0; 2][..], &[false; 2][..]));
    }
    play.step(&[-1, 2]);
    assert_eq!((&play.reward[..], &play.terminated[..]), (&[-1.0, 1.0][..], &[true; 2][..]));
}

#[test]
fn a_full_board_is_a_draw() {
    let mut play = Play::new("tictactoe", &[("opponent", text("self"))], 1);
    play.set(&[("board", &[1, 1, 2, 2, 2, 1, 1, 2, 0]), ("mark", &[1])]);
    play.step(&[8, 0]);
    assert_eq!((&play.reward[..], &play.terminated[..]), (&[0.0; 2][..], &[true; 2][..]));
}

#[test]
fn the_board_is_shown_from_the_seats_view() {
    let list = [("opponent", text("self")), ("observation", text("board"))];
    let mut play = Play::new("tictactoe", &list, 1);
    play.set(&[("board", &[1, 2, 0, 0, 1, 0, 0, 0, 0]), ("mark", &[1])]);
    let (first, second) =
        ([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(play.seen(0), [first, second].concat());
    assert_eq!(play.seen(1), [second, first].concat());
}

#[test]
fn taken_cells_are_refused() {
    let mut play = Play::new("tictactoe", &[], 1);
    play.set(&[("board", &[1, 2, 0, 0, 0, 0, 0, 0, 0]), ("mark", &[1])]);
    let refused = play.try_step(&[1]).expect_err("an illegal action").to_string();
    assert!(refused.contains("mask forbids"), "{refused}");
    play.step(&[2]);
}

#[test]
fn boards_that_cannot_come_up_are_refused() {
    let mut play = Play::new("tictactoe", &[], 1);
    for (board, mark, why) in [
        ([3, 0, 0, 0, 0, 0, 0, 0, 0], 1, "expected 0, 1 or 2"),
        ([2, 0, 0, 0, 0, 0, 0, 0, 0], 1, "1 moves first"),
        ([1, 1, 0, 0, 0, 0, 0, 0, 0], 1, "1 moves first"),
        ([1, 1, 1, 2, 2, 0, 2, 0, 0], 1, "line of the side that moves next"),
        ([0; 9], 0, "expected 1 or 2"),
        ([0; 9], 2, "which the opponent plays"),
    ] {
        let said = play.refused(&[("board", &board), ("mark", &[mark])]);
        assert!(said.contains(why), "{board:?}: {said}");
    }
}

#[test]
fn a_finished_game_stays_finished() {
    let mut play = Play::new("tictactoe", &[], 1);
    play.set(&[("board", &[1, 1, 1, 2, 2, 0, 0, 0, 0]), ("mark", &[1])]);
    assert!(!play.valid[0]);
    play.step(&[5]);
    assert_eq!((play.reward[0], play.terminated[0]), (0.0, true));
}
