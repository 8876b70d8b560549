//! `catch`: a ball falls through a small image, and a paddle at the bottom must catch it. The rules are bsuite's; an
//! option hides the ball below some row, which only a recurrent policy solves.

use std::sync::Arc;

use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::scalar_group::ScalarGroup;
use hotloop_core::space::{Action, Observation};

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "catch",
        gymnasium_id: "Catch-v0",
        about: "Move a paddle to where a ball falls, seeing nothing but pixels.",
        options: Arc::new([
            OptionSpec::int("height", 10, 2, 64, "rows of the picture").fixed(),
            OptionSpec::int("width", 5, 2, 64, "columns of the picture").fixed(),
            OptionSpec::int("visible", 0, 0, 64, "rows from the top in which the ball can be seen; 0 for all"),
            max_steps(0),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<Catch>>::new(&spec, options, count))
        },
    }
}

fn spec(options: &Options) -> Result<Spec, String> {
    let (height, width) = (options.int("height") as usize, options.int("width") as usize);
    if width / 2 >= height {
        return Err(format!(
            "option \"width\" is {width}: a ball at the edge falls {} rows, too few to get there from the middle; \
             expected at most {}, or a larger height",
            height - 1,
            2 * height - 1
        ));
    }
    Ok(Spec {
        seats: 1,
        observation: Observation::Bytes { shape: vec![height, width], high: 1 },
        action: Action::Discrete { n: 3 },
        masked: false,
        masks_bind: true,
        terms: vec!["catch"],
        metrics: vec!["success"],
        infos: vec![],
        step_nanoseconds: 25 + (height * width) as u32 / 50,
        state_version: 1,
    })
}

/// One instance.
pub struct Catch {
    /// The ball's row and column.
    ball: [i32; 2],
    /// The paddle's column.
    paddle: i32,
    height: i32,
    width: i32,
    /// The first row in which the ball cannot be seen.
    hidden_from: i32,
}

impl Env for Catch {
    fn new(options: &Options) -> Self {
        let (height, visible) = (options.int("height") as i32, options.int("visible") as i32);
        let hidden_from = if visible == 0 { height } else { visible };
        Self { ball: [0; 2], paddle: 0, height, width: options.int("width") as i32, hidden_from }
    }

    fn reset(&mut self, rng: &Rng) {
        self.ball = [0, rng.draws().below(0, self.width as u32) as i32];
        self.paddle = self.width / 2;
    }

    fn step(&mut self, actions: &Actions<'_>, _rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        let bottom = self.height - 1;
        if self.ball[0] < bottom {
            self.paddle = (self.paddle + actions.choice(0) as i32 - 1).clamp(0, self.width - 1);
            self.ball[0] += 1;
            if self.ball[0] < bottom {
                return Status::Running;
            }
            let caught = self.paddle == self.ball[1];
            outcome.terms[0] = if caught { 1.0 } else { -1.0 };
            outcome.metrics[0] = f32::from(caught);
        }
        outcome.terminated[0] = true;
        Status::Over
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let pixels = frame.bytes(0);
        pixels.fill(0);
        let [row, column] = self.ball;
        if row < self.hidden_from {
            pixels[(row * self.width + column) as usize] = 1;
        }
        pixels[((self.height - 1) * self.width + self.paddle) as usize] = 1;
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        fields.i32s("ball", &mut self.ball);
        fields.i32("paddle", &mut self.paddle);
    }

    fn check(&mut self) -> Result<(), String> {
        let [row, column] = self.ball;
        // A ball in the last row is the state of an episode that is over.
        if !(0..self.height).contains(&row) || !(0..self.width).contains(&column) {
            let (height, width) = (self.height, self.width);
            return Err(format!("ball is at row {row}, column {column} of a picture of {height} rows by {width}"));
        }
        if !(0..self.width).contains(&self.paddle) {
            return Err(format!("paddle is {}: expected 0 to {}", self.paddle, self.width - 1));
        }
        Ok(())
    }
}
