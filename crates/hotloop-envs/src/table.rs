//! Envs that are tables: for every state and action the possible outcomes and their probabilities, written down once
//! per set of options and shared by all instances. The same table can be enumerated for exact solutions.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hotloop_core::codec::Writer;
use hotloop_core::discrete::{Discrete, DiscreteStep};
use hotloop_core::env::{Actions, Env, Frame, Outcome, Rng, Spec, Status};
use hotloop_core::fields::Fields;
use hotloop_core::options::{Options, Value};
use hotloop_core::rng::Stream;
use hotloop_core::space::{Action, Observation};

/// A possible outcome of an action in a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// Probability.
    pub probability: f64,
    /// The state it leads to.
    pub next: u32,
    /// Reward.
    pub reward: f32,
    /// Whether it ends the episode.
    pub terminated: bool,
}

/// A finite Markov decision process as plain arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Number of states.
    pub states: usize,
    /// Number of actions.
    pub actions: usize,
    /// Outcomes of action `a` in state `s`: from `offsets[s * actions + a]` up to the next offset.
    pub offsets: Vec<u32>,
    /// Each outcome's probability.
    pub probability: Vec<f64>,
    /// Each outcome's next state.
    pub next: Vec<u32>,
    /// Each outcome's reward.
    pub reward: Vec<f32>,
    /// Whether each outcome ends the episode.
    pub terminated: Vec<bool>,
    /// Probability of each start state.
    pub start: Vec<f64>,
    /// Whether an episode that ends in this state is a success.
    pub goal: Vec<bool>,
    /// `legal[s * actions + a]`; empty when every action is always legal.
    pub legal: Vec<bool>,
    /// The same, a bit per action.
    legal_bits: Vec<u64>,
    /// Running sums of `probability` within each list of outcomes.
    cumulative: Vec<f32>,
    /// The states with a positive `start`, and the running sums of it.
    start_states: Vec<u32>,
    start_cumulative: Vec<f32>,
}

impl Table {
    /// Asks `outcomes` for every state and action in turn. All actions are legal.
    pub fn new(
        mut start: Vec<f64>,
        goal: Vec<bool>,
        actions: usize,
        mut outcomes: impl FnMut(usize, usize) -> Vec<Transition>,
    ) -> Self {
        let states = start.len();
        let total: f64 = start.iter().sum();
        for p in &mut start {
            *p /= total;
        }
        let start_states: Vec<u32> = (0..states as u32).filter(|s| start[*s as usize] > 0.0).collect();
        let start_cumulative = running_sums(start_states.iter().map(|s| start[*s as usize]));
        let mut table = Self {
            states,
            actions,
            offsets: vec![0],
            probability: Vec::new(),
            next: Vec::new(),
            reward: Vec::new(),
            terminated: Vec::new(),
            start,
            goal,
            legal: Vec::new(),
            legal_bits: vec![u64::MAX >> (64 - actions); states],
            cumulative: Vec::new(),
            start_states,
            start_cumulative,
        };
        for state in 0..states {
            for action in 0..actions {
                let list = outcomes(state, action);
                table.cumulative.extend(running_sums(list.iter().map(|x| x.probability)));
                for outcome in list {
                    table.probability.push(outcome.probability);
                    table.next.push(outcome.next);
                    table.reward.push(outcome.reward);
                    table.terminated.push(outcome.terminated);
                }
                table.offsets.push(table.next.len() as u32);
            }
        }
        table
    }

    /// The same task with masks, `legal[s * actions + a]`.
    #[must_use]
    pub fn masked(mut self, legal: Vec<bool>) -> Self {
        let bits = |row: &[bool]| row.iter().rev().fold(0, |bits, legal| bits << 1 | u64::from(*legal));
        self.legal_bits = legal.chunks_exact(self.actions).map(bits).collect();
        self.legal = legal;
        self
    }

    /// Range of the outcomes of an action in a state.
    pub fn outcomes(&self, state: usize, action: usize) -> std::ops::Range<usize> {
        let at = state * self.actions + action;
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }
}

fn running_sums(probabilities: impl Iterator<Item = f64>) -> Vec<f32> {
    let mut sum = 0.0;
    probabilities
        .map(|p| {
            sum += p;
            sum as f32
        })
        .collect()
}

/// The first entry whose running sum is above `u`; the last one if rounding has left none.
fn pick(cumulative: &[f32], u: f32) -> usize {
    cumulative[..cumulative.len() - 1].partition_point(|sum| *sum <= u)
}

/// A task that is a table.
pub trait Tabular: 'static {
    /// The env's name.
    const NAME: &'static str;
    /// The table that the options describe.
    fn table(options: &Options) -> Table;
}

/// The tables in use. They are held weakly: a curriculum that keeps changing options leaves nothing behind.
struct Cache {
    tables: Option<HashMap<Vec<u8>, Weak<Table>>>,
    sweep_at: usize,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache { tables: None, sweep_at: 64 });

/// The table that the options describe, built only if no env has it already.
pub fn shared<T: Tabular>(options: &Options) -> Arc<Table> {
    let mut key = Writer::default();
    key.text(T::NAME);
    options.save(&mut key);
    let key = key.into_bytes();
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let Cache { tables, sweep_at } = &mut *cache;
    let tables = tables.get_or_insert_default();
    if let Some(table) = tables.get(&key).and_then(Weak::upgrade) {
        return table;
    }
    if tables.len() >= *sweep_at {
        tables.retain(|_, table| table.strong_count() > 0);
        *sweep_at = 64.max(2 * tables.len());
    }
    let table = Arc::new(T::table(options));
    tables.insert(key, Arc::downgrade(&table));
    table
}

/// The value of a number option at its full precision: probabilities should be those people wrote.
pub fn exact(options: &Options, name: &str) -> f64 {
    match options.iter().find(|(spec, _)| spec.name == name) {
        Some((_, Value::Float(x))) => *x,
        other => panic!("option {name} is {other:?}"),
    }
}

/// The spec of all tables.
pub fn spec(states: usize, actions: usize, masked: bool) -> Spec {
    Spec {
        seats: 1,
        observation: Observation::Discrete { n: states },
        action: Action::Discrete { n: actions },
        masked,
        masks_bind: true,
        terms: vec!["reward"],
        metrics: vec!["success"],
        infos: vec![("prob", 1)],
        step_nanoseconds: 40,
        state_version: 1,
    }
}

/// Writes the result of a discrete step to the runner's arrays.
pub fn write_outcome(step: &DiscreteStep, outcome: &mut Outcome<'_>) -> Status {
    for seat in 0..outcome.terminated.len() {
        outcome.terms[seat] = step.rewards[seat];
        outcome.terminated[seat] = step.over;
        outcome.metrics[seat] = f32::from(step.success[seat]);
    }
    if step.over { Status::Over } else { Status::Running }
}

/// An env that walks through a table.
pub struct TableEnv<T> {
    table: Arc<Table>,
    state: i32,
    probability: f32,
    task: PhantomData<fn() -> T>,
}

impl<T> TableEnv<T> {
    /// The state it is in.
    pub fn state(&self) -> usize {
        self.state as usize
    }

    /// Puts it elsewhere.
    pub fn place(&mut self, state: usize) {
        self.state = state as i32;
    }
}

impl<T: Tabular> Env for TableEnv<T> {
    fn new(options: &Options) -> Self {
        Self { table: shared::<T>(options), state: 0, probability: 1.0, task: PhantomData }
    }

    fn reset(&mut self, rng: &Rng) {
        self.begin(rng.draws());
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        write_outcome(&self.play(actions.choice(0), rng.draws()), outcome)
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let (state, table) = (self.state(), &*self.table);
        frame.set_state(0, state);
        if !table.legal.is_empty() {
            frame.mask(0).copy_from_slice(&table.legal[state * table.actions..(state + 1) * table.actions]);
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        fields.i32("state", &mut self.state);
        fields.f32("prob", &mut self.probability);
    }

    fn check(&mut self) -> Result<(), String> {
        if !(0..self.table.states as i32).contains(&self.state) {
            return Err(format!("state is {}: expected 0 to {}", self.state, self.table.states - 1));
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("prob is {}: expected 0 to 1", self.probability));
        }
        Ok(())
    }

    fn info(&self, _index: usize, _seat: usize, out: &mut [f32]) {
        out[0] = self.probability;
    }
}

impl<T: Tabular> Discrete for TableEnv<T> {
    #[inline(always)]
    fn state(&self) -> u64 {
        u64::from(self.state as u32)
    }

    #[inline(always)]
    fn legal(&self) -> u64 {
        self.table.legal_bits[TableEnv::state(self)]
    }

    #[inline(always)]
    fn begin(&mut self, draws: Stream) {
        let (states, sums) = (&self.table.start_states, &self.table.start_cumulative);
        let chosen = if let [_] = sums[..] { 0 } else { pick(sums, draws.uniform(0)) };
        self.state = states[chosen] as i32;
        self.probability = 1.0;
    }

    #[inline(always)]
    fn play(&mut self, action: usize, draws: Stream) -> DiscreteStep {
        let table = &*self.table;
        let list = table.outcomes(TableEnv::state(self), action);
        let at = match list.len() {
            1 => list.start,
            _ => list.start + pick(&table.cumulative[list], draws.uniform(0)),
        };
        self.state = table.next[at] as i32;
        self.probability = table.probability[at] as f32;
        let over = table.terminated[at];
        let success = over && table.goal[TableEnv::state(self)];
        DiscreteStep { rewards: [table.reward[at], 0.0], success: [success, false], over }
    }
}
