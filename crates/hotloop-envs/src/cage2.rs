//! `cage2`: the network defence of CAGE Challenge 2 (Scenario2 of its simulator). One agent, blue, defends thirteen hosts
//! against a red agent that the rules play; a step is blue's action, green's, red's, and blue's observation of them.

use std::sync::Arc;

use hotloop_core::env::{Actions, Env, EnvType, Frame, Outcome, Rng, Spec, Status, max_steps};
use hotloop_core::fields::Fields;
use hotloop_core::options::{Allowed, OptionSpec, Options, Value};
use hotloop_core::scalar_group::ScalarGroup;
use hotloop_core::space::{Action, Observation};

mod bline;
mod blue;
mod blue_view;
mod choices;
mod meander;
mod network;
mod red;
mod state;
mod world;

use bline::BLine;
use blue::Blue;
use blue_view::{BlueView, Events};
use choices::{CHANCE, Choices, Injected};
use meander::Meander;
use network::HOSTS;
use red::{Knowledge, RedAction};
use world::World;

/// Bits of the challenge's own observation.
const BITS: usize = 4 * HOSTS;
/// Numbers that `memory` adds for every host, after a clock.
const NOTES: usize = 5;
const MAX_DECOYS: f32 = 4.0;

const TERMS: [&str; 3] = ["availability", "restore", "confidentiality"];
const INFOS: [(&str, usize); 3] = [("access", HOSTS), ("red_action", 5), ("ot", 3)];

const AGENTS: [&str; 3] = ["b-line", "meander", "sleep"];
const MIX: &str = "mix";

/// The entry in `hotloop envs`.
pub fn env_type() -> EnvType {
    EnvType {
        name: "cage2",
        gymnasium_id: "Cage2-v0",
        about: "Defend a network against an intruder: CAGE Challenge 2.",
        options: Arc::new([
            OptionSpec {
                name: "red",
                about: "red agent: b-line, meander, sleep, several joined by + (sampled per episode), or mix, which is \
                        b-line+meander",
                default: Value::Text(AGENTS[0].into()),
                allowed: Allowed::Any,
                fixed: false,
            },
            OptionSpec::bool("green", false, "whether green users act: a scan of a host with probability 1/2"),
            OptionSpec {
                name: "lengths",
                about: "episode lengths, one of which is sampled at each reset; 0: no limit",
                default: Value::Ints(vec![100]),
                allowed: Allowed::Range(0.0, 100_000.0),
                fixed: false,
            },
            OptionSpec::choice(
                "variant",
                &["official", "challenge2"],
                "simulator to reproduce: challenge2 reports a scan even if a decoy was placed in the same step",
            ),
            OptionSpec::choice(
                "actions",
                &["full", "compact"],
                "action space: the challenge's 145 actions, or 53 with one decoy action per host",
            )
            .fixed(),
            OptionSpec::choice(
                "features",
                &["bits", "memory"],
                "the challenge's 52 bits, or these plus a summary of each host's history",
            )
            .fixed(),
            max_steps(0),
        ]),
        spec,
        build: |options, count| {
            let spec = spec(options).expect("the options were accepted");
            Box::new(ScalarGroup::<Vec<Cage2>>::new(&spec, options, count))
        },
    }
}

fn spec(options: &Options) -> Result<Spec, String> {
    agents(options.text("red"))?;
    let compact = options.text("actions") == "compact";
    let notes = if options.text("features") == "memory" { NOTES * HOSTS + 1 } else { 0 };
    Ok(Spec {
        seats: 1,
        observation: Observation::uniform(BITS + notes, 0.0, 1.0),
        action: Action::Discrete { n: if compact { blue::COMPACT } else { blue::FULL } },
        masked: compact,
        // Actions without effect are useless, but allowed.
        masks_bind: false,
        terms: TERMS.to_vec(),
        metrics: vec![],
        infos: INFOS.to_vec(),
        step_nanoseconds: 90,
        state_version: 1,
    })
}

/// The red agents that an option names, by their numbers.
fn agents(red: &str) -> Result<Vec<u8>, String> {
    let names = if red == MIX { "b-line+meander" } else { red };
    let number = |name: &str| match AGENTS.iter().position(|agent| *agent == name.trim()) {
        Some(number) => Ok(number as u8),
        None => Err(format!(
            "red is {red:?}: there is no red agent {name:?}; expected {}, several of them joined by +, or {MIX}",
            AGENTS.join(", ")
        )),
    };
    names.split('+').map(number).collect()
}

/// The parsed options.
// Four switches that have nothing to do with each other.
#[allow(clippy::struct_excessive_bools)]
struct Rules {
    agents: Vec<u8>,
    lengths: Vec<i32>,
    green: bool,
    decoys_show: bool,
    compact: bool,
    notes: bool,
}

/// One network under attack.
pub struct Cage2 {
    rules: Rules,
    world: World,
    view: BlueView,
    known: Knowledge,
    last: RedAction,
    /// The red agent that attacks.
    agent: u8,
    bline: BLine,
    meander: Meander,
    time: i32,
    length: i32,
    injected: Injected,
}

impl Cage2 {
    fn red_action(&mut self, choices: &Choices<'_>) -> RedAction {
        match self.agent {
            0 => self.bline.choose(self.last, &self.known, choices),
            1 => self.meander.choose(self.last, &self.known, choices),
            _ => RedAction::NONE,
        }
    }

    /// Green's and red's part of a step, seen by blue, who placed a decoy on the hosts of `placed`.
    fn be_attacked(&mut self, choices: &Choices<'_>, placed: u16) {
        let scanned = if self.rules.green { choices.green() } else { None };
        // Green comes first, so it finds what was open before red came; red opens nothing.
        let green = scanned.map_or(Events::NONE, |host| Events::scan(&self.world, host));
        let mut red_action = self.red_action(choices);
        let mut events = red::act(&mut red_action, &mut self.world, &mut self.known, choices);
        self.last = red_action;
        self.view.blink();
        let mut look = |host: usize, events: Events| {
            let activity = events.activity(placed >> host & 1 == 1, self.rules.decoys_show);
            self.view.notice(host, activity, self.world.decoys[host]);
        };
        match scanned {
            Some(host) if events.count > 0 && host == red_action.target as usize => events = events.and(green),
            Some(host) => look(host, green),
            None => {}
        }
        if events.count > 0 {
            look(red_action.target as usize, events);
        }
    }

    /// Features beyond the challenge's bits: a summary of each host's history.
    fn write_notes(&self, out: &mut [f32]) {
        let (clock, out) = out.split_first_mut().expect("there is room for the notes");
        *clock = 1.0 / (1.0 + self.time as f32);
        for (host, notes) in out.as_chunks_mut::<NOTES>().0.iter_mut().enumerate() {
            let has = |set: u16| f32::from(set >> host & 1);
            let part = |ports: u8| ports.count_ones() as f32 / MAX_DECOYS;
            let seen = has(self.view.seen);
            *notes = [
                seen,
                seen / (1.0 + f32::from(self.view.ages[host])),
                has(self.view.restored),
                part(self.world.decoys[host]),
                part(self.view.listed[host]),
            ];
        }
    }
}

impl Env for Cage2 {
    fn new(options: &Options) -> Self {
        Self {
            rules: Rules {
                agents: agents(options.text("red")).expect("the options were accepted"),
                lengths: options.ints("lengths").iter().map(|length| *length as i32).collect(),
                green: options.bool("green"),
                decoys_show: options.text("variant") == "challenge2",
                compact: options.text("actions") == "compact",
                notes: options.text("features") == "memory",
            },
            world: World::START,
            view: BlueView::START,
            known: Knowledge::START,
            last: RedAction::NONE,
            agent: 0,
            bline: BLine::START,
            meander: Meander::START,
            time: 0,
            length: 0,
            injected: CHANCE,
        }
    }

    fn reset(&mut self, rng: &Rng) {
        let draws = rng.draws();
        self.world = World::START;
        self.view = BlueView::START;
        self.known = Knowledge::START;
        self.last = RedAction::NONE;
        self.agent = self.rules.agents[draws.below(0, self.rules.agents.len() as u32) as usize];
        self.bline = BLine::START;
        self.meander = Meander::START;
        self.time = 0;
        self.length = self.rules.lengths[draws.below(1, self.rules.lengths.len() as u32) as usize];
        self.injected = CHANCE;
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        let action = actions.choice(0);
        let blue = if self.rules.compact { Blue::compact(action) } else { Blue::full(action) };
        let (placed, found) = blue.act(&mut self.world, &mut self.view);
        let choices = Choices { rng, injected: self.injected };
        self.injected = CHANCE;
        self.be_attacked(&choices, placed);
        if found != 0 {
            self.view.find(found.trailing_zeros() as usize);
        }
        outcome.terms[0] = if self.world.ot_up { 0.0 } else { -10.0 };
        outcome.terms[1] = if matches!(blue, Blue::Restore(_)) { -1.0 } else { 0.0 };
        outcome.terms[2] = -self.world.confidentiality();
        self.time = self.time.saturating_add(1);
        if self.time == self.length { Status::TimeUp } else { Status::Running }
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let out = frame.f32s(0);
        self.view.show(out);
        if self.rules.notes {
            self.write_notes(&mut out[BITS..]);
        }
        if self.rules.compact {
            blue::mask(&self.world, &self.view, self.rules.green, frame.mask(0));
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        self.name_fields(fields);
    }

    fn check(&mut self) -> Result<(), String> {
        self.check_fields()
    }

    fn info(&self, index: usize, _seat: usize, out: &mut [f32]) {
        match index {
            0 => out.iter_mut().enumerate().for_each(|(host, x)| *x = f32::from(self.world.access(host))),
            1 => {
                let RedAction { kind, target, success, exploit, detected } = self.last;
                out.copy_from_slice(&[
                    f32::from(kind),
                    f32::from(target),
                    f32::from(success),
                    f32::from(exploit),
                    f32::from(detected),
                ]);
            }
            _ => out.copy_from_slice(&[self.world.ot_up, self.world.ot_killable, self.known.ot].map(f32::from)),
        }
    }
}
