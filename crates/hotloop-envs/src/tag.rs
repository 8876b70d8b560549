//! `tag`: two teams on a small grid with walls. Taggers chase runners; a caught runner is out, and the episode is over
//! when all are. The test bed for several agents and several policies.
//!
//! Seats are taggers first, then runners, then padding that never plays. All seats move at once, may share cells but
//! not enter walls, and a runner is caught when a tagger is in its cell after the moves, or when the two swapped cells.
//! Every tagger earns `catch` for every catch of any tagger; the caught runner gets `caught`; each runner that is
//! still in play gets `survive`.

use std::sync::Arc;

use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::scalar_group::ScalarGroup;
use hotloop_core::space::{Action, Observation};

mod grid;

use grid::{DIRECTIONS, Grid};

const MAX_SEATS: usize = 8;
/// Stay, or go north, south, west or east.
const ACTIONS: usize = 1 + DIRECTIONS;
/// Features of a vector observation about its own seat: row, column, team and four blocked directions.
const OWN: usize = 7;
/// Features about every other seat: rows and columns away, team, in play.
const OTHER: usize = 4;
/// Planes of a grid observation: walls, oneself, taggers, runners.
const PLANES: usize = 4;

const TERMS: usize = 3;
const CATCH: usize = 0;
const CAUGHT: usize = 1;
const SURVIVE: usize = 2;
/// A hundred steps of survival weigh as much as one catch.
const SURVIVAL: f32 = 0.01;

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "tag",
        gymnasium_id: "Tag-v0",
        about: "Two teams on a grid: taggers chase runners, and caught runners are out.",
        options: Arc::new([
            OptionSpec::int("seats", 4, 2, MAX_SEATS as i64, "agents per env").fixed(),
            OptionSpec::int("players", 0, 0, MAX_SEATS as i64, "number of seats that play; 0: all"),
            OptionSpec::int(
                "taggers",
                0,
                0,
                MAX_SEATS as i64 - 1,
                "number of taggers among the players; 0: half, rounded down",
            ),
            OptionSpec::int("size", 8, 5, 16, "rows and columns of the grid").fixed(),
            OptionSpec::float("walls", 0.1, 0.0, 0.3, "probability that a free cell is a wall"),
            OptionSpec::choice("observation", &["vector", "grid"], "features of all seats, or planes of the grid")
                .fixed(),
            max_steps(64),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<Tag>>::new(&spec, options, count))
        },
    }
}

fn spec(options: &Options) -> Result<Spec, String> {
    let (seats, size) = (options.int("seats") as usize, options.int("size") as usize);
    teams(options)?;
    let grid = options.text("observation") == "grid";
    Ok(Spec {
        seats,
        observation: if grid {
            Observation::Bytes { shape: vec![PLANES, size, size], high: 1 }
        } else {
            Observation::uniform(OWN + OTHER * (seats - 1), -1.0, 1.0)
        },
        action: Action::Discrete { n: ACTIONS },
        masked: true,
        masks_bind: true,
        terms: vec!["catch", "caught", "survive"],
        metrics: vec!["success"],
        infos: vec![],
        step_nanoseconds: 70 * seats as u32,
        state_version: 1,
    })
}

/// Number of taggers, and of players in all.
fn teams(options: &Options) -> Result<(usize, usize), String> {
    let (seats, players, taggers) = (options.int("seats"), options.int("players"), options.int("taggers"));
    let playing = if players == 0 { seats } else { players };
    if !(2..=seats).contains(&playing) {
        return Err(format!("option \"players\" is {players}: expected 2 to {seats} (the seats), or 0 for all"));
    }
    let chasing = if taggers == 0 { playing / 2 } else { taggers };
    if chasing >= playing {
        return Err(format!("option \"taggers\" is {taggers}: {playing} players must leave at least one runner"));
    }
    Ok((chasing as usize, playing as usize))
}

/// One game.
pub struct Tag {
    grid: Grid,
    cells: [i32; MAX_SEATS],
    in_play: [u8; MAX_SEATS],
    seats: usize,
    taggers: usize,
    players: usize,
    density: f32,
    observes_grid: bool,
}

impl Tag {
    fn cell(&self, seat: usize) -> usize {
        self.cells[seat] as usize
    }

    fn plays(&self, seat: usize) -> bool {
        self.in_play[seat] != 0
    }

    /// 1 for taggers, -1 for runners.
    fn team(&self, seat: usize) -> f32 {
        if seat < self.taggers { 1.0 } else { -1.0 }
    }

    /// Whether a tagger is where the runner is, or came from where the runner went and went where it came from.
    fn is_caught(&self, runner: usize, before: &[i32; MAX_SEATS]) -> bool {
        let now = &self.cells;
        (0..self.taggers).any(|tagger| {
            now[tagger] == now[runner] || (now[tagger] == before[runner] && before[tagger] == now[runner])
        })
    }

    /// Writes the observation of a seat in play.
    fn write_vector(&self, seat: usize, seen: &mut [f32]) {
        let far = (self.grid.size - 1) as f32;
        let [row, column] = self.grid.place(self.cell(seat));
        let (own, rest) = seen.split_at_mut(OWN);
        own[0] = 2.0 * row / far - 1.0;
        own[1] = 2.0 * column / far - 1.0;
        own[2] = self.team(seat);
        for (direction, blocked) in own[3..].iter_mut().enumerate() {
            *blocked = f32::from(!self.grid.is_open(self.cell(seat), direction));
        }
        let others = (0..self.seats).filter(|other| *other != seat);
        for (about, other) in rest.chunks_exact_mut(OTHER).zip(others) {
            let [other_row, other_column] = self.grid.place(self.cell(other));
            let values = [(other_row - row) / far, (other_column - column) / far, self.team(other), 1.0];
            about.copy_from_slice(if self.plays(other) { &values } else { &[0.0; OTHER] });
        }
    }

    /// Writes the observation of a seat in play.
    fn write_grid(&self, seat: usize, seen: &mut [u8]) {
        let cells = self.grid.walls.len();
        seen[..cells].copy_from_slice(&self.grid.walls);
        seen[cells..].fill(0);
        seen[cells + self.cell(seat)] = 1;
        for other in (0..self.players).filter(|other| self.plays(*other)) {
            let plane = if other < self.taggers { 2 } else { 3 };
            seen[plane * cells + self.cell(other)] = 1;
        }
    }
}

impl Env for Tag {
    fn new(options: &Options) -> Self {
        let (taggers, players) = teams(options).expect("the options were accepted");
        Self {
            grid: Grid::new(options.int("size") as usize),
            cells: [0; MAX_SEATS],
            in_play: [0; MAX_SEATS],
            seats: options.int("seats") as usize,
            taggers,
            players,
            density: options.float("walls"),
            observes_grid: options.text("observation") == "grid",
        }
    }

    fn reset(&mut self, rng: &Rng) {
        let draws = rng.draws();
        let cells = self.grid.walls.len();
        let mut places = [0; MAX_SEATS];
        for player in 0..self.players {
            // One of the cells that are still free: count past those that are taken, in their order.
            let mut place = draws.below(player as u32, (cells - player) as u32) as usize;
            let mut taken = places;
            taken[..player].sort_unstable();
            for other in &taken[..player] {
                place += usize::from(place >= *other);
            }
            places[player] = place;
            self.cells[player] = place as i32;
            self.in_play[player] = 1;
        }
        self.grid.build(self.density, &places[..self.players], draws, MAX_SEATS as u32);
    }

    fn step(&mut self, actions: &Actions<'_>, _rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        let before = self.cells;
        for seat in (0..self.players).filter(|seat| self.in_play[*seat] != 0) {
            if let Some(direction) = actions.choice(seat).checked_sub(1) {
                self.cells[seat] = self.grid.go(self.cell(seat), direction) as i32;
            }
        }
        let (mut catches, mut left) = (0.0, 0);
        for runner in self.taggers..self.players {
            if !self.plays(runner) {
                continue;
            }
            if self.is_caught(runner, &before) {
                catches += 1.0;
                self.in_play[runner] = 0;
                outcome.terms[runner * TERMS + CAUGHT] = -1.0;
                outcome.terminated[runner] = true;
            } else {
                left += 1;
                outcome.terms[runner * TERMS + SURVIVE] = SURVIVAL;
                outcome.metrics[runner] = 1.0;
            }
        }
        for tagger in 0..self.taggers {
            outcome.terms[tagger * TERMS + CATCH] = catches;
            outcome.terminated[tagger] = left == 0;
            outcome.metrics[tagger] = f32::from(left == 0);
        }
        if left == 0 { Status::Over } else { Status::Running }
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        for seat in 0..self.seats {
            let plays = self.plays(seat);
            frame.valid[seat] = plays;
            match (self.observes_grid, plays) {
                (true, true) => self.write_grid(seat, frame.bytes(seat)),
                (false, true) => self.write_vector(seat, frame.f32s(seat)),
                (_, false) => frame.bytes(seat).fill(0),
            }
            // A seat that does not decide keeps a mask of all choices: no row is without a legal action.
            if plays {
                for (direction, legal) in frame.mask(seat)[1..].iter_mut().enumerate() {
                    *legal = self.grid.is_open(self.cell(seat), direction);
                }
            }
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        fields.i32s("cell", &mut self.cells[..self.seats]);
        fields.u8s("in_play", &mut self.in_play[..self.seats]);
        fields.u8s("walls", &mut self.grid.walls);
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(wall) = self.grid.walls.iter().find(|wall| **wall > 1) {
            return Err(format!("walls has the entry {wall}: expected 0 or 1"));
        }
        let cells = self.grid.walls.len();
        for seat in 0..self.seats {
            let (cell, in_play) = (self.cells[seat], self.in_play[seat]);
            if !(0..cells as i32).contains(&cell) {
                return Err(format!("cell of seat {seat} is {cell}: expected 0 to {}", cells - 1));
            }
            let (least, most) = (u8::from(seat < self.taggers), u8::from(seat < self.players));
            if !(least..=most).contains(&in_play) {
                return Err(format!("in_play of seat {seat} is {in_play}: expected {least} to {most}"));
            }
            if in_play == 1 && self.grid.walls[cell as usize] == 1 {
                return Err(format!("seat {seat} is inside the wall at cell {cell}"));
            }
            if seat >= self.taggers && in_play == 1 && self.is_caught(seat, &[-1; MAX_SEATS]) {
                return Err(format!("the runner of seat {seat} is in play although a tagger is at its cell {cell}"));
            }
        }
        self.grid.survey();
        Ok(())
    }
}
