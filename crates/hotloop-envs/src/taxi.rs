//! `taxi`: pick up a passenger at one of four stands and deliver them to another. The rules are those of Gymnasium's
//! `Taxi-v4`.

use std::sync::Arc;

use hotloop_core::discrete::{Discrete, DiscreteStep};
use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::Stream;
use hotloop_core::scalar_group::ScalarGroup;

use crate::table::{self, Table, TableEnv, Tabular, Transition};

const SIDE: usize = 5;
const STANDS: [(usize, usize); 4] = [(0, 0), (0, 4), (4, 0), (4, 3)];
/// The passenger's place after the four stands.
const IN_TAXI: usize = 4;
const PLACES: usize = 5;
const STATES: usize = SIDE * SIDE * PLACES * STANDS.len();
const ACTIONS: usize = 6;
const PICK_UP: usize = 4;
/// Cells with a wall on their east side, besides those at the border.
const EAST_WALLS: [(usize, usize); 6] = [(0, 1), (1, 1), (3, 0), (3, 2), (4, 0), (4, 2)];
/// For south, north, east and west: the direction to the driver's left and right.
const SIDES: [[usize; 2]; 4] = [[2, 3], [3, 2], [1, 0], [0, 1]];

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "taxi",
        gymnasium_id: "Taxi-v4",
        about: "Pick up a passenger and deliver them, in as few moves as possible.",
        options: Arc::new([
            OptionSpec::bool(
                "rainy",
                false,
                "whether a move may slip sideways, at right angles to the chosen direction",
            ),
            OptionSpec::float(
                "rainy_probability",
                0.8,
                0.0,
                1.0,
                "probability that a move in the rain goes in the chosen direction",
            ),
            OptionSpec::bool("fickle", false, "whether the passenger may change the destination when the ride begins"),
            OptionSpec::float("fickle_probability", 0.3, 0.0, 1.0, "probability that a fickle passenger does so"),
            OptionSpec::bool(
                "masked",
                true,
                "whether masks mark the actions that have an effect; the others stay allowed",
            )
            .fixed(),
            max_steps(200),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<Taxi>>::new(&spec, options, count))
        },
    }
}

// Every env has the same signature here; this one takes all options.
#[allow(clippy::unnecessary_wraps)]
fn spec(options: &Options) -> Result<Spec, String> {
    // As in Gymnasium, the mask is a hint: masked actions are allowed and cost the usual reward.
    Ok(Spec { masks_bind: false, ..table::spec(STATES, ACTIONS, options.bool("masked")) })
}

/// Position of the taxi, position of the passenger, and destination.
#[derive(Clone, Copy, PartialEq)]
struct TaxiState {
    row: usize,
    column: usize,
    passenger: usize,
    destination: usize,
}

impl TaxiState {
    fn decode(state: usize) -> Self {
        let (rest, destination) = (state / 4, state % 4);
        let (cell, passenger) = (rest / PLACES, rest % PLACES);
        Self { row: cell / SIDE, column: cell % SIDE, passenger, destination }
    }

    fn encode(self) -> usize {
        ((self.row * SIDE + self.column) * PLACES + self.passenger) * 4 + self.destination
    }

    fn stand(self) -> Option<usize> {
        STANDS.iter().position(|stand| *stand == (self.row, self.column))
    }

    fn start(self) -> bool {
        self.passenger != IN_TAXI && self.passenger != self.destination
    }

    fn delivered(self) -> bool {
        self.passenger == self.destination && self.stand() == Some(self.destination)
    }

    /// One cell to the south, north, east or west, unless a wall is there.
    fn drive(self, direction: usize) -> Option<Self> {
        let Self { row, column, .. } = self;
        let wall_east_of = |column| EAST_WALLS.contains(&(row, column));
        Some(match direction {
            0 if row + 1 < SIDE => Self { row: row + 1, ..self },
            1 if row > 0 => Self { row: row - 1, ..self },
            2 if column + 1 < SIDE && !wall_east_of(column) => Self { column: column + 1, ..self },
            3 if column > 0 && !wall_east_of(column - 1) => Self { column: column - 1, ..self },
            _ => return None,
        })
    }

    fn pick_up(self) -> Option<Self> {
        (self.stand() == Some(self.passenger)).then_some(Self { passenger: IN_TAXI, ..self })
    }

    fn drop_off(self) -> Option<Self> {
        let passenger = self.stand()?;
        (self.passenger == IN_TAXI).then_some(Self { passenger, ..self })
    }

    /// The intended effect of an action, if it has one.
    fn act(self, action: usize) -> Option<Self> {
        match action {
            PICK_UP => self.pick_up(),
            _ if action > PICK_UP => self.drop_off(),
            direction => self.drive(direction),
        }
    }

    /// The outcomes of an action; in the rain a move goes as meant with probability `straight`.
    fn outcomes(self, action: usize, rainy: bool, straight: f64) -> Vec<Transition> {
        let outcome = |probability, scene: Self, reward, terminated| Transition {
            probability,
            next: scene.encode() as u32,
            reward,
            terminated,
        };
        let meant = self.act(action);
        let scene = meant.unwrap_or(self);
        if action >= PICK_UP {
            let delivered = action > PICK_UP && meant.is_some_and(Self::delivered);
            let reward = match meant {
                Some(_) if delivered => 20.0,
                Some(_) => -1.0,
                None => -10.0,
            };
            return vec![outcome(1.0, scene, reward, delivered)];
        }
        if !rainy {
            return vec![outcome(1.0, scene, -1.0, false)];
        }
        // A taxi that cannot move as meant does not drift either.
        let drift = |direction| meant.and_then(|_| self.drive(direction)).unwrap_or(self);
        let aside = (1.0 - straight) / 2.0;
        let [left, right] = SIDES[action].map(drift);
        vec![
            outcome(straight, scene, -1.0, false),
            outcome(aside, left, -1.0, false),
            outcome(aside, right, -1.0, false),
        ]
    }
}

/// A ride through the table, and the one rule that is not in it: a passenger who may change the destination.
pub struct Taxi {
    ride: TableEnv<Taxi>,
    fickle: u8,
    fickle_probability: f32,
}

impl Tabular for Taxi {
    const NAME: &'static str = "taxi";

    fn table(options: &Options) -> Table {
        let (rainy, straight) = (options.bool("rainy"), table::exact(options, "rainy_probability"));
        let scenes = || (0..STATES).map(TaxiState::decode);
        let start = scenes().map(|scene| f64::from(u8::from(scene.start()))).collect();
        let goal = scenes().map(TaxiState::delivered).collect();
        let table = Table::new(start, goal, ACTIONS, |state, action| {
            TaxiState::decode(state).outcomes(action, rainy, straight)
        });
        if !options.bool("masked") {
            return table;
        }
        table.masked(scenes().flat_map(|scene| (0..ACTIONS).map(move |a| scene.act(a).is_some())).collect())
    }
}

impl Env for Taxi {
    fn new(options: &Options) -> Self {
        let fickle_probability = if options.bool("fickle") { options.float("fickle_probability") } else { 0.0 };
        Self { ride: TableEnv::new(options), fickle: 0, fickle_probability }
    }

    fn reset(&mut self, rng: &Rng) {
        self.begin(rng.draws());
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        table::write_outcome(&self.play(actions.choice(0), rng.draws()), outcome)
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        self.ride.observe(frame);
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        self.ride.fields(fields);
        fields.u8("fickle", &mut self.fickle);
    }

    fn check(&mut self) -> Result<(), String> {
        if self.fickle > 1 {
            return Err(format!("fickle is {}: expected 0 or 1", self.fickle));
        }
        self.ride.check()
    }

    fn info(&self, index: usize, seat: usize, out: &mut [f32]) {
        self.ride.info(index, seat, out);
    }
}

impl Discrete for Taxi {
    #[inline(always)]
    fn state(&self) -> u64 {
        self.ride.state() as u64
    }

    #[inline(always)]
    fn legal(&self) -> u64 {
        self.ride.legal()
    }

    #[inline(always)]
    fn begin(&mut self, draws: Stream) {
        self.ride.begin(draws);
        self.fickle = u8::from(self.fickle_probability > 0.0 && draws.uniform(1) < self.fickle_probability);
    }

    #[inline(always)]
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep {
        let before = self.ride.state();
        let turn = self.ride.play(action, draws);
        if self.fickle != 0 {
            let (before, now) = (TaxiState::decode(before), TaxiState::decode(self.ride.state()));
            if before.passenger == IN_TAXI && (before.row, before.column) != (now.row, now.column) {
                self.fickle = 0;
                let other = draws.below(1, STANDS.len() as u32 - 1) as usize;
                let destination = other + usize::from(other >= now.destination);
                self.ride.place(TaxiState { destination, ..now }.encode());
            }
        }
        turn
    }
}
