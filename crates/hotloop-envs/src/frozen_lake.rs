//! `frozen-lake`: across the ice to the goal without falling into a hole. The rules are those of Gymnasium's
//! `FrozenLake-v1`.

use std::sync::Arc;

use hotloop_core::env::{EnvType, Spec, max_steps};
use hotloop_core::options::{Allowed, OptionSpec, Options, Value};
use hotloop_core::scalar_group::ScalarGroup;

use crate::table::{self, Table, TableEnv, Tabular, Transition};

const FOUR: &str = "SFFF/FHFH/FFFH/HFFG";
const EIGHT: &str = "SFFFFFFF/FFFFFFFF/FFFHFFFF/FFFFFHFF/FFFHFFFF/FHHFFFHF/FHFFHFHF/FFFHFFFG";
const MAX_TILES: usize = 1 << 16;

/// The task.
pub struct FrozenLake;

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    const REWARD: f64 = 1e6;
    EnvType {
        name: "frozen-lake",
        gymnasium_id: "FrozenLake-v1",
        about: "Cross a slippery lake to the goal without falling into a hole.",
        options: Arc::new([
            OptionSpec {
                name: "map",
                about: "4x4, 8x8, or rows of S (start), F (frozen), H (hole), G (goal) joined by '/'",
                default: Value::Text("4x4".into()),
                allowed: Allowed::Any,
                fixed: true,
            },
            OptionSpec::bool(
                "slippery",
                true,
                "whether a move may slip sideways, at right angles to the chosen direction",
            ),
            OptionSpec::float(
                "success_rate",
                1.0 / 3.0,
                0.0,
                1.0,
                "probability that a move on slippery ice goes in the chosen direction",
            ),
            OptionSpec::float("reward_goal", 1.0, -REWARD, REWARD, "the reward for reaching the goal"),
            OptionSpec::float("reward_hole", 0.0, -REWARD, REWARD, "the reward for falling into a hole"),
            OptionSpec::float("reward_frozen", 0.0, -REWARD, REWARD, "the reward for any other step"),
            // Gymnasium gives its 8x8 lake 200 steps; a default cannot depend on another option.
            max_steps(100),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<TableEnv<FrozenLake>>>::new(&spec, options, count))
        },
    }
}

fn spec(options: &Options) -> Result<Spec, String> {
    Lake::parse(options.text("map")).map(|lake| table::spec(lake.tiles.len(), 4, false))
}

struct Lake {
    tiles: Vec<u8>,
    columns: usize,
}

impl Lake {
    fn parse(text: &str) -> Result<Self, String> {
        let rows: Vec<&[u8]> = match text {
            "4x4" => FOUR,
            "8x8" => EIGHT,
            rows => rows,
        }
        .split('/')
        .map(str::as_bytes)
        .collect();
        let why = |what: &str| Err(format!("option \"map\" is {text:?}: {what}"));
        let (tiles, columns) = (rows.concat(), rows[0].len());
        if tiles.iter().any(|tile| !b"SFHG".contains(tile)) {
            return why("expected 4x4, 8x8, or rows of the letters S, F, H, G joined by '/'");
        }
        if columns == 0 || rows.iter().any(|row| row.len() != columns) {
            return why("all rows must have the same number of letters");
        }
        if tiles.len() > MAX_TILES {
            return why(&format!("at most {MAX_TILES} tiles are allowed"));
        }
        if !tiles.contains(&b'S') || !tiles.contains(&b'G') {
            return why("a start S and a goal G are needed");
        }
        Ok(Self { tiles, columns })
    }

    /// The tile one step to the left, down, right or up; the same one at the shore.
    fn neighbour(&self, tile: usize, direction: usize) -> usize {
        let (row, column) = (tile / self.columns, tile % self.columns);
        let inside = [column > 0, tile + self.columns < self.tiles.len(), column + 1 < self.columns, row > 0];
        match direction {
            _ if !inside[direction] => tile,
            0 => tile - 1,
            1 => tile + self.columns,
            2 => tile + 1,
            _ => tile - self.columns,
        }
    }
}

impl Tabular for FrozenLake {
    const NAME: &'static str = "frozen-lake";

    fn table(options: &Options) -> Table {
        let lake = Lake::parse(options.text("map")).expect("the options were accepted");
        let (slippery, success_rate) = (options.bool("slippery"), table::exact(options, "success_rate"));
        let fail_rate = (1.0 - success_rate) / 2.0;
        let [goal, hole, frozen] = ["reward_goal", "reward_hole", "reward_frozen"].map(|name| options.float(name));
        let go = |tile: usize, direction: usize, probability: f64| {
            let next = lake.neighbour(tile, direction);
            let (reward, terminated) = match lake.tiles[next] {
                b'G' => (goal, true),
                b'H' => (hole, true),
                _ => (frozen, false),
            };
            Transition { probability, next: next as u32, reward, terminated }
        };
        let start = lake.tiles.iter().map(|tile| f64::from(u8::from(*tile == b'S'))).collect();
        let goals = lake.tiles.iter().map(|tile| *tile == b'G').collect();
        Table::new(start, goals, 4, |tile, action| {
            if b"GH".contains(&lake.tiles[tile]) {
                vec![Transition { probability: 1.0, next: tile as u32, reward: 0.0, terminated: true }]
            } else if slippery {
                let sides = [(action + 3) % 4, (action + 1) % 4];
                vec![go(tile, sides[0], fail_rate), go(tile, action, success_rate), go(tile, sides[1], fail_rate)]
            } else {
                vec![go(tile, action, 1.0)]
            }
        })
    }
}
