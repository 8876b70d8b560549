//! `recall`: a cue is shown at the first step and must be answered after a delay during which nothing is shown. Only a
//! recurrent policy solves it.

use std::sync::Arc;

use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::scalar_group::ScalarGroup;
use hotloop_core::space::{Action, Observation};

const MAX_SYMBOLS: usize = 8;

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "recall",
        gymnasium_id: "Recall-v0",
        about: "Remember a cue that is shown once and answer it after a delay.",
        options: Arc::new([
            OptionSpec::int("delay", 8, 1, 10_000, "blank steps between the cue and the step that must answer it"),
            OptionSpec::int("cues", 4, 2, 64, "number of different symbols").fixed(),
            OptionSpec::int("symbols", 1, 1, MAX_SYMBOLS as i64, "number of symbols of a cue").fixed(),
            max_steps(0),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<Recall>>::new(&spec, options, count))
        },
    }
}

// Every env has the same signature here; this one takes all options.
#[allow(clippy::unnecessary_wraps)]
fn spec(options: &Options) -> Result<Spec, String> {
    let (cues, symbols) = (options.int("cues") as usize, options.int("symbols") as usize);
    let action =
        if symbols == 1 { Action::Discrete { n: cues } } else { Action::MultiDiscrete { n: vec![cues; symbols] } };
    Ok(Spec {
        seats: 1,
        observation: Observation::uniform(cues * symbols + 1, 0.0, 1.0),
        action,
        masked: false,
        masks_bind: true,
        terms: vec!["answer"],
        metrics: vec!["success"],
        infos: vec![],
        step_nanoseconds: 30 + (cues * symbols) as u32 / 3,
        state_version: 1,
    })
}

/// One instance.
pub struct Recall {
    cue: [u8; MAX_SYMBOLS],
    /// Steps since the cue.
    time: i32,
    cues: usize,
    symbols: usize,
    /// The time at which the answer is due.
    due: i32,
}

impl Env for Recall {
    fn new(options: &Options) -> Self {
        let (cues, symbols) = (options.int("cues") as usize, options.int("symbols") as usize);
        Self { cue: [0; MAX_SYMBOLS], time: 0, cues, symbols, due: options.int("delay") as i32 + 1 }
    }

    fn reset(&mut self, rng: &Rng) {
        let draws = rng.draws();
        self.time = 0;
        for (draw, symbol) in self.cue[..self.symbols].iter_mut().enumerate() {
            *symbol = draws.below(draw as u32, self.cues as u32) as u8;
        }
    }

    fn step(&mut self, actions: &Actions<'_>, _rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        if self.time < self.due {
            self.time += 1;
            return Status::Running;
        }
        if self.time == self.due {
            let pairs = self.cue[..self.symbols].iter().zip(actions.choices(0));
            let right = pairs.filter(|(symbol, choice)| i32::from(**symbol) == **choice).count();
            outcome.terms[0] = right as f32 / self.symbols as f32;
            outcome.metrics[0] = f32::from(right == self.symbols);
            self.time += 1;
        }
        outcome.terminated[0] = true;
        Status::Over
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let seen = frame.f32s(0);
        seen.fill(0.0);
        if self.time == 0 {
            for (symbol, hot) in self.cue.iter().zip(seen.chunks_exact_mut(self.cues)) {
                hot[usize::from(*symbol)] = 1.0;
            }
        }
        if self.time == self.due {
            seen[self.cues * self.symbols] = 1.0;
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        fields.u8s("cue", &mut self.cue[..self.symbols]);
        fields.i32("time", &mut self.time);
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(symbol) = self.cue[..self.symbols].iter().find(|symbol| usize::from(**symbol) >= self.cues) {
            return Err(format!("cue has the symbol {symbol}: expected 0 to {}", self.cues - 1));
        }
        // One past the due time is the state of an episode that is over.
        if !(0..=self.due + 1).contains(&self.time) {
            return Err(format!("time is {}: expected 0 to {}", self.time, self.due + 1));
        }
        Ok(())
    }
}
