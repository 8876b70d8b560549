//! `tictactoe`: three in a row against a random or a perfect opponent, or between two seats that both learn.
//!
//! Marks are 1 for the side that moved first and 2 for the other; a coin decides at each reset which side that is. A board's id
//! reads its nine cells, row by row, as digits to the base 3.

use std::sync::{Arc, OnceLock};

use hotloop_core::discrete::{Discrete, DiscreteStep};
use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::Stream;
use hotloop_core::scalar_group::ScalarGroup;
use hotloop_core::space::{Action, Observation};

use crate::table::{Table, Tabular, Transition, write_outcome};

const CELLS: usize = 9;
const IDS: usize = 19_683;
const FULL: u16 = (1 << CELLS) - 1;
/// Whether each set of cells, a bit per cell, has three in a row.
static HAS_LINE: [bool; 1 << CELLS] = {
    let lines = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];
    let mut table = [false; 1 << CELLS];
    let mut i = 0;
    while i < lines.len() << CELLS {
        let (line, cells) = (lines[i >> CELLS], i % table.len());
        table[cells] |= cells & line == line;
        i += 1;
    }
    table
};
/// The cells of each set, in order.
static MEMBERS: [[u8; CELLS]; 1 << CELLS] = {
    let mut table = [[0; CELLS]; 1 << CELLS];
    let mut i = 0;
    while i < table.len() * CELLS {
        let (cells, cell) = (i / CELLS, i % CELLS);
        if cells >> cell & 1 == 1 {
            let before = cells & ((1 << cell) - 1);
            table[cells][before.count_ones() as usize] = cell as u8;
        }
        i += 1;
    }
    table
};
/// Contribution of a stone with mark 1 in each cell to the id.
const WEIGHTS: [u16; CELLS] = [6561, 2187, 729, 243, 81, 27, 9, 3, 1];

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "tictactoe",
        gymnasium_id: "TicTacToe-v0",
        about: "Three in a row, against a random or perfect opponent or in self-play.",
        options: Arc::new([
            OptionSpec::choice(
                "opponent",
                &["random", "perfect", "self"],
                "opponent; with self, each side is an agent",
            )
            .fixed(),
            OptionSpec::choice(
                "observation",
                &["id", "board"],
                "index of the board state, or 18 bits: own stones, then the opponent's",
            )
            .fixed(),
            max_steps(0),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<TicTacToe>>::new(&spec, options, count))
        },
    }
}

// Every env has the same signature here; this one takes all options.
#[allow(clippy::unnecessary_wraps)]
fn spec(options: &Options) -> Result<Spec, String> {
    let by_id = options.text("observation") == "id";
    Ok(Spec {
        seats: if options.text("opponent") == "self" { 2 } else { 1 },
        observation: if by_id { Observation::Discrete { n: IDS } } else { Observation::uniform(2 * CELLS, 0.0, 1.0) },
        action: Action::Discrete { n: CELLS },
        masked: true,
        masks_bind: true,
        terms: vec!["result"],
        metrics: vec!["success"],
        infos: vec![],
        step_nanoseconds: 80,
        state_version: 1,
    })
}

/// Both sides' stones, a bit per cell: those of the side that moved first in the low half. In one number, because
/// reading two halves that were just written separately would stall the CPU.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Stones(u32);

impl Stones {
    /// The stones of a board of cells, or why it cannot come up in a game.
    fn of(board: &[u8; CELLS]) -> Result<Self, String> {
        let mut stones = Self::default();
        for (cell, mark) in board.iter().enumerate() {
            match mark {
                0 => {}
                1 | 2 => stones = stones.with(usize::from(*mark) - 1, cell),
                _ => return Err(format!("board has the mark {mark}: expected 0, 1 or 2")),
            }
        }
        let [first, second] = [0, 1].map(|side| stones.of_side(side).count_ones());
        if first != second && first != second + 1 {
            return Err(format!(
                "board has {first} stones of mark 1 and {second} of mark 2: 1 moves first, then in turn"
            ));
        }
        // The side that has a line must have moved last.
        if stones.won(stones.mover()) {
            return Err("board has a line of the side that moves next: the game ended before its last move".into());
        }
        Ok(stones)
    }

    /// The stones of a board that can come up and is not over, by its id.
    fn open(id: usize) -> Option<Self> {
        Self::of(&board_of(id)).ok().filter(|stones| !stones.over())
    }

    /// The side that moves next, 0 or 1.
    fn mover(self) -> usize {
        usize::from(self.of_side(0).count_ones() > self.of_side(1).count_ones())
    }

    fn of_side(self, side: usize) -> u16 {
        (self.0 >> (16 * side)) as u16 & FULL
    }

    fn empty(self) -> u16 {
        FULL & !(self.of_side(0) | self.of_side(1))
    }

    fn won(self, side: usize) -> bool {
        HAS_LINE[usize::from(self.of_side(side))]
    }

    fn over(self) -> bool {
        self.empty() == 0 || self.won(0) || self.won(1)
    }

    fn with(mut self, side: usize, cell: usize) -> Self {
        self.0 |= 1 << (cell + 16 * side);
        self
    }

    fn id(self) -> usize {
        let digit = |cell: usize| (self.of_side(0) >> cell & 1) + 2 * (self.of_side(1) >> cell & 1);
        (0..CELLS).map(|cell| usize::from(WEIGHTS[cell] * digit(cell))).sum()
    }
}

/// The marks of a board, by its id.
fn board_of(id: usize) -> [u8; CELLS] {
    WEIGHTS.map(|weight| (id / usize::from(weight) % 3) as u8)
}

/// The cells of a set.
fn cells(set: u16) -> impl Iterator<Item = usize> {
    MEMBERS[usize::from(set)][..set.count_ones() as usize].iter().map(|cell| usize::from(*cell))
}

/// The moves of every position that keep the best result both sides can force, a bit per cell, by id.
fn best_moves() -> &'static [u16] {
    static MOVES: OnceLock<Vec<u16>> = OnceLock::new();
    MOVES.get_or_init(|| {
        let mut moves = vec![0; IDS];
        // The result that the side to move can force. A stone only raises the id, so later positions come first.
        let mut values = vec![0_i8; IDS];
        for id in (0..IDS).rev() {
            let Ok(stones) = Stones::of(&board_of(id)) else { continue };
            let side = stones.mover();
            if stones.won(1 - side) {
                values[id] = -1;
            } else if !stones.over() {
                let value = |cell: usize| -values[stones.with(side, cell).id()];
                let best = cells(stones.empty()).map(value).max().unwrap_or(0);
                moves[id] = cells(stones.empty()).filter(|cell| value(*cell) == best).map(|cell| 1 << cell).sum();
                values[id] = best;
            }
        }
        moves
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Opponent {
    Random,
    Perfect(&'static [u16]),
    Seat,
}

/// One game.
pub struct TicTacToe {
    /// The marks as a named field of the state; the game itself uses stones and id.
    board: [u8; CELLS],
    /// The id that `board` was made from.
    shown: u16,
    /// The mark of seat 0.
    mark: u8,
    stones: Stones,
    id: u16,
    opponent: Opponent,
    by_id: bool,
}

impl TicTacToe {
    /// Puts a stone; true if it ends the game.
    #[inline(always)]
    fn put(&mut self, side: usize, cell: usize) -> bool {
        self.id += WEIGHTS[cell] * (side as u16 + 1);
        self.stones = self.stones.with(side, cell);
        self.stones.empty() == 0 || self.stones.won(side)
    }

    #[inline(always)]
    fn opponent_cell(&self, draws: Stream, draw: u32) -> usize {
        let choices = match self.opponent {
            Opponent::Perfect(moves) => moves[usize::from(self.id)],
            _ => self.stones.empty(),
        };
        let nth = draws.below(draw, choices.count_ones());
        usize::from(MEMBERS[usize::from(choices)][nth as usize])
    }

    /// The side that moves next while the game continues.
    #[inline(always)]
    fn mover(&self) -> usize {
        if self.opponent == Opponent::Seat { self.stones.mover() } else { usize::from(self.mark) - 1 }
    }

    /// The side a seat plays.
    #[inline(always)]
    fn side(&self, seat: usize) -> usize {
        (usize::from(self.mark) - 1) ^ seat
    }

    /// The end of a game that only `side` can have won.
    #[inline(always)]
    fn finish(&self, side: usize) -> DiscreteStep {
        let won = f32::from(self.stones.won(side));
        let result = if side == self.side(0) { won } else { -won };
        DiscreteStep { rewards: [result, -result], success: [result > 0.0, result < 0.0], over: true }
    }
}

impl Env for TicTacToe {
    fn new(options: &Options) -> Self {
        let opponent = match options.text("opponent") {
            "random" => Opponent::Random,
            "perfect" => Opponent::Perfect(best_moves()),
            _ => Opponent::Seat,
        };
        let by_id = options.text("observation") == "id";
        Self { board: [0; CELLS], shown: 0, mark: 1, stones: Stones::default(), id: 0, opponent, by_id }
    }

    fn reset(&mut self, rng: &Rng) {
        self.begin(rng.draws());
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        if self.stones.over() {
            outcome.terminated.fill(true);
            return Status::Over;
        }
        let side = self.stones.mover();
        let cell = actions.choice(side ^ self.side(0));
        // The runner refuses taken cells. After a state was set from outside its masks can be old: then nothing happens.
        if self.stones.empty() >> cell & 1 == 0 {
            return Status::Running;
        }
        write_outcome(&self.play(cell, rng.draws()), outcome)
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let decides = if self.stones.over() { None } else { Some(self.stones.mover() ^ self.side(0)) };
        for seat in 0..frame.valid.len() {
            if self.by_id {
                frame.set_state(seat, usize::from(self.id));
            } else {
                let (own, other) = (self.stones.of_side(self.side(seat)), self.stones.of_side(1 - self.side(seat)));
                for (cell, x) in frame.f32s(seat).iter_mut().enumerate() {
                    *x = f32::from(if cell < CELLS { own >> cell } else { other >> (cell - CELLS) } & 1);
                }
            }
            frame.valid[seat] = decides == Some(seat);
            // A seat that does not decide keeps a mask of all choices: no row is without a legal action.
            if frame.valid[seat] {
                let empty = self.stones.empty();
                frame.mask(seat).copy_from_slice(&std::array::from_fn::<_, CELLS, _>(|cell| empty >> cell & 1 == 1));
            }
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        // Skipped if already done: setting a state visits the fields more than once.
        if self.shown != self.id {
            (self.board, self.shown) = (board_of(usize::from(self.id)), self.id);
        }
        fields.u8s("board", &mut self.board);
        fields.u8("mark", &mut self.mark);
    }

    fn check(&mut self) -> Result<(), String> {
        let stones = Stones::of(&self.board)?;
        if !(1..=2).contains(&self.mark) {
            return Err(format!("mark is {}: expected 1 or 2", self.mark));
        }
        if self.opponent != Opponent::Seat && !stones.over() && stones.mover() + 1 != usize::from(self.mark) {
            return Err(format!("board has a move of mark {} next, which the opponent plays", stones.mover() + 1));
        }
        self.stones = stones;
        self.id = stones.id() as u16;
        self.shown = self.id;
        Ok(())
    }
}

impl Discrete for TicTacToe {
    #[inline(always)]
    fn state(&self) -> u64 {
        u64::from(self.id)
    }

    #[inline(always)]
    fn legal(&self) -> u64 {
        u64::from(self.stones.empty())
    }

    #[inline(always)]
    fn begin(&mut self, draws: Stream) {
        self.stones = Stones::default();
        self.id = 0;
        let second = draws.below(0, 2);
        self.mark = 1 + second as u8;
        if self.opponent != Opponent::Seat {
            // Without a branch: whether the opponent begins is unpredictable.
            let cell = self.opponent_cell(draws, 1);
            self.stones = Stones(second << cell);
            self.id = WEIGHTS[cell] * second as u16;
        }
    }

    #[inline(always)]
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep {
        let side = self.mover();
        if self.put(side, action) {
            return self.finish(side);
        }
        if self.opponent != Opponent::Seat {
            let reply = self.opponent_cell(draws, 0);
            if self.put(1 - side, reply) {
                return self.finish(1 - side);
            }
        }
        DiscreteStep::default()
    }
}

/// A game of two seats that both learn. The board determines the side to move, so one table serves both.
pub struct Duel(TicTacToe);

impl Env for Duel {
    fn new(options: &Options) -> Self {
        Self(TicTacToe::new(options))
    }

    fn reset(&mut self, rng: &Rng) {
        self.0.reset(rng);
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        self.0.step(actions, rng, outcome)
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        self.0.observe(frame);
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        self.0.fields(fields);
    }

    fn check(&mut self) -> Result<(), String> {
        self.0.check()
    }
}

impl Discrete for Duel {
    const SEATS: usize = 2;

    #[inline(always)]
    fn state(&self) -> u64 {
        self.0.state()
    }

    #[inline(always)]
    fn legal(&self) -> u64 {
        self.0.legal()
    }

    #[inline(always)]
    fn seat(&self) -> usize {
        self.0.mover() ^ self.0.side(0)
    }

    #[inline(always)]
    fn begin(&mut self, draws: Stream) {
        self.0.begin(draws);
    }

    #[inline(always)]
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep {
        self.0.play(action, draws)
    }
}

/// The boards at the learner's turn, against an opponent that is no seat. The others, and those that are over, lead
/// nowhere.
impl Tabular for TicTacToe {
    const NAME: &'static str = "tictactoe";

    fn table(options: &Options) -> Table {
        let perfect = options.text("opponent") == "perfect";
        let replies = |stones: Stones| if perfect { best_moves()[stones.id()] } else { stones.empty() };
        let boards: Vec<Option<Stones>> = (0..IDS).map(Stones::open).collect();
        let mut start = vec![0.0; IDS];
        start[0] = 0.5;
        let first = replies(Stones::default());
        for cell in cells(first) {
            start[Stones::default().with(0, cell).id()] = 0.5 / f64::from(first.count_ones());
        }
        let table = Table::new(start, vec![false; IDS], CELLS, |id, cell| {
            let end = |reward| Transition { probability: 1.0, next: id as u32, reward, terminated: true };
            let Some(board) = boards[id].filter(|board| board.empty() >> cell & 1 == 1) else {
                return vec![end(0.0)];
            };
            let side = board.mover();
            let moved = board.with(side, cell);
            if moved.over() {
                let reward = f32::from(moved.won(side));
                return vec![Transition { next: moved.id() as u32, ..end(reward) }];
            }
            let choices = replies(moved);
            let answer = |reply| {
                let replied = moved.with(1 - side, reply);
                let reward = -f32::from(replied.won(1 - side));
                let probability = 1.0 / f64::from(choices.count_ones());
                Transition { probability, next: replied.id() as u32, reward, terminated: replied.over() }
            };
            cells(choices).map(answer).collect()
        });
        let empty = |board: &Option<Stones>| board.map_or(FULL, Stones::empty);
        table.masked(boards.iter().flat_map(|board| (0..CELLS).map(|cell| empty(board) >> cell & 1 == 1)).collect())
    }
}
