//! What learns from decisions, whoever plays them: draws actions, moves values, keeps transitions for later.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::error::Result;
use hotloop_core::rng::{Purpose, Stream};

use super::choice::{Cpu, Offer, draw, look};
use super::counters::Tally;
use super::external::Told;
use super::replay::{Replay, Transition};
use super::rule::{Algorithm, Rule, next_value};
use super::schedule::Running;
use super::table::BLOCK;
use super::view::View;

/// Steps under one fold of the streams; each uses eight draws.
pub const FOLD: u64 = 1 << 28;
/// Draws of a step.
const DRAWS: u32 = 8;

/// A decision that waits for what it leads to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Where it was taken.
    pub state: u64,
    /// That state's row.
    pub row: usize,
    /// What was done.
    pub action: usize,
    /// What it has earned so far.
    pub reward: f32,
    /// Whether there is one.
    pub on: bool,
}

/// What learns, apart from the envs.
pub struct TdLearner {
    rule: Rule,
    env_stream: Stream,
    action_stream: Stream,
    /// Steps made.
    pub made: u64,
    /// What was counted.
    pub tally: Tally,
    batch: Vec<Transition>,
    replay: Replay,
}

/// What a decision came to.
#[derive(Clone, Copy)]
struct TdUpdate {
    row: usize,
    action: usize,
    reward: f32,
    /// What comes after it, undiscounted.
    worth: f32,
    plane: usize,
    /// For what is left to chance.
    bits: u32,
}

/// Where a decision led, and what is done there.
#[derive(Clone, Copy)]
pub struct Next {
    /// The state.
    pub state: u64,
    /// What is done there.
    pub action: usize,
    /// The chance that it was drawn from all.
    pub epsilon: f32,
    /// 1, or 0 if the episode ended.
    pub alive: f32,
    /// What the state offers.
    pub offer: Offer,
}

/// What holds for the steps of one call.
#[derive(Clone, Copy)]
pub struct Now {
    /// How to learn.
    pub rule: Rule,
    /// The learning rate.
    pub rate: Running,
    /// The chance to explore.
    pub epsilon: Running,
    /// For what envs do.
    pub env: Stream,
    /// For what is decided.
    pub act: Stream,
}

impl Now {
    /// The same for the plain rule; says so to the compiler.
    #[inline(always)]
    #[must_use]
    pub fn plain(mut self) -> Self {
        debug_assert!(self.rule.is_plain());
        (self.rule.algorithm, self.rule.batch, self.rule.replay) = (Algorithm::QLearning, 1, 0);
        self
    }
}

/// What is left to chance in one step.
#[derive(Clone, Copy)]
pub struct Chance {
    stream: Stream,
    /// The stream's first draws: whether to explore, what to pick, and which of two planes or roundings it is.
    explore: u32,
    pick: u32,
    side: u32,
}

/// What is left to chance in some steps.
pub struct Chances<const N: usize> {
    first: Stream,
    explore: [u32; N],
    pick: [u32; N],
    side: [u32; N],
}

impl<const N: usize> Chances<N> {
    /// In one of them.
    #[inline(always)]
    pub fn at(&self, i: usize) -> Chance {
        let stream = self.first.skip(i as u32 * DRAWS);
        Chance { stream, explore: self.explore[i], pick: self.pick[i], side: self.side[i] }
    }
}

impl Chance {
    fn of(stream: Stream) -> Self {
        Self { stream, explore: stream.bits(0), pick: stream.bits(1), side: stream.bits(2) }
    }

    /// An unrelated one of the same step.
    #[must_use]
    pub fn fold(&self, index: u32) -> Self {
        Self::of(self.stream.fold(index))
    }
}

impl TdLearner {
    /// The mind of one of several workers.
    pub fn new(rule: Rule, seed: u64, attempt: u32, worker: u32) -> Self {
        Self {
            rule,
            env_stream: Stream::new(seed, attempt, Purpose::Env).fold(worker),
            action_stream: Stream::new(seed, attempt, Purpose::Action).fold(worker),
            made: 0,
            tally: Tally::default(),
            batch: Vec::new(),
            replay: Replay::default(),
        }
    }

    /// What holds from a step of all workers on.
    pub fn now(&self, step: u64) -> Now {
        let (env, act) = self.streams();
        let rule = self.rule;
        Now { rule, rate: rule.learning_rate.at(step), epsilon: rule.exploration.at(step), env, act }
    }

    /// The streams of env and actions, for the steps of this fold.
    pub fn streams(&self) -> (Stream, Stream) {
        let fold = (self.made / FOLD) as u32;
        (self.env_stream.fold(fold), self.action_stream.fold(fold))
    }

    /// The env's stream of the step that comes `ahead` of this one.
    #[inline(always)]
    pub fn env_draws(&self, now: &Now, ahead: u32) -> Stream {
        now.env.skip(self.draws_made().wrapping_add(ahead * DRAWS))
    }

    /// Chance in this step and those after it; all are made at once, which vectors can do.
    #[inline(always)]
    pub fn chances<const N: usize>(&self, now: &Now) -> Chances<N> {
        let first = now.act.skip(self.draws_made());
        let draws = |draw: u32| std::array::from_fn(|ahead| first.bits(ahead as u32 * DRAWS + draw));
        Chances { first, explore: draws(0), pick: draws(1), side: draws(2) }
    }

    fn draws_made(&self) -> u32 {
        (self.made % FOLD) as u32 * DRAWS
    }

    /// What the policy does in a state.
    #[inline(always)]
    pub fn decide<V: View, C: Cpu>(view: V, cpu: C, now: &Now, offer: &Offer, chance: &Chance) -> (usize, f32) {
        let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
        (draw(cpu, offer, epsilon, chance.explore, chance.pick), epsilon)
    }

    /// The same, by a stream.
    pub fn decide_by<V: View, C: Cpu>(view: V, cpu: C, now: &Now, offer: &Offer, draws: Stream) -> usize {
        Self::decide(view, cpu, now, offer, &Chance::of(draws)).0
    }

    /// Learns from a decision whose outcome is known.
    #[inline(always)]
    fn learn<V: View>(&mut self, view: V, now: &Now, lesson: TdUpdate) {
        let TdUpdate { row, action, reward, worth, plane, bits } = lesson;
        let table = view.table();
        let line = row * view.blocks() + if view.blocks() == 1 { 0 } else { action / BLOCK };
        let rate = now.rate.value(|| table.count(&table.visits, row, action));
        if table.shape.visits {
            let count = &table.visits[line].0[action % BLOCK];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
        if table.shape.fresh {
            let count = &table.fresh[line].0[action % BLOCK];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
            let word = &table.touched[row / 64];
            word.store(word.load(Relaxed) | 1 << (row % 64), Relaxed);
        }
        let value = view.get(row, plane, action);
        let error = reward + now.rule.gamma * worth - value;
        view.set(row, plane, action, value + rate * error, bits);
        self.tally.error += f64::from(error.abs());
        self.tally.updates += 1;
    }

    /// Learns from a transition that was kept.
    fn learn_kept<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, kept: &Transition, bits: u32) {
        let row = view.find(kept.state);
        let offer = look(view, cpu, view.find(kept.next), kept.legal);
        let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
        let plane = plane(now, bits);
        let worth = kept.alive * next_value(view, cpu, &now.rule, &offer, kept.next_action, epsilon, plane);
        self.learn(view, now, TdUpdate { row, action: kept.action, reward: kept.reward, worth, plane, bits });
    }

    /// Takes a transition: learns from it now or with its batch, and from old ones again.
    #[inline(always)]
    pub fn take<V: View, C: Cpu>(
        &mut self,
        view: V,
        cpu: C,
        now: &Now,
        waiting: &Waiting,
        next: &Next,
        chance: &Chance,
    ) {
        let Next { state, action, epsilon, alive, ref offer } = *next;
        let bits = chance.side;
        if now.rule.batch == 1 {
            let plane = plane(now, bits);
            let worth = alive * next_value(view, cpu, &now.rule, offer, action, epsilon, plane);
            self.learn(
                view,
                now,
                TdUpdate { row: waiting.row, action: waiting.action, reward: waiting.reward, worth, plane, bits },
            );
            if now.rule.replay == 0 {
                return;
            }
        }
        let kept = Transition {
            state: waiting.state,
            action: waiting.action,
            reward: waiting.reward,
            next: state,
            legal: offer.legal,
            next_action: action,
            alive,
        };
        self.keep(view, cpu, now, kept, chance.stream);
    }

    #[cold]
    #[inline(never)]
    fn keep<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, kept: Transition, draws: Stream) {
        if now.rule.batch > 1 {
            self.batch.push(kept);
            if self.batch.len() >= now.rule.batch {
                self.learn_batch(view, cpu, now, draws);
            }
        }
        if now.rule.replay > 0 {
            self.replay.push(kept, now.rule.replay);
            let picks = draws.fold(1);
            for again in 0..now.rule.replays as u32 {
                let old = self.replay.pick(picks.bits(2 * again));
                self.learn_kept(view, cpu, now, &old, picks.bits(2 * again + 1));
            }
        }
    }

    /// Makes all targets of the batch before any value changes.
    fn learn_batch<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, draws: Stream) {
        let batch = std::mem::take(&mut self.batch);
        let coins = draws.fold(2);
        let mut found = Vec::with_capacity(batch.len());
        for (i, kept) in batch.iter().enumerate() {
            let bits = coins.bits(i as u32);
            let plane = plane(now, bits);
            let offer = look(view, cpu, view.find(kept.next), kept.legal);
            let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
            let worth = kept.alive * next_value(view, cpu, &now.rule, &offer, kept.next_action, epsilon, plane);
            found.push((view.find(kept.state), worth, plane, bits));
        }
        for (kept, (row, worth, plane, bits)) in batch.iter().zip(found) {
            self.learn(view, now, TdUpdate { row, action: kept.action, reward: kept.reward, worth, plane, bits });
        }
        self.batch = batch;
        self.batch.clear();
    }

    /// For an env outside: an episode begins there; what to do.
    pub fn begin<V: View, C: Cpu>(&mut self, view: V, cpu: C, state: u64, legal: u64) -> usize {
        let now = self.now(self.made);
        let offer = look(view, cpu, view.find(state), legal);
        Self::decide_by(view, cpu, &now, &offer, self.env_draws(&now, 0).fold(5))
    }

    /// For an env outside: learns from what a decision led to, and decides anew.
    pub fn step<V: View, C: Cpu>(&mut self, view: V, cpu: C, (state, action): (u64, usize), told: &Told) -> usize {
        let now = self.now(self.made);
        let chance = self.chances::<1>(&now).at(0);
        let waiting = Waiting { state, row: view.find(state), action, reward: told.reward, on: true };
        let offer = look(view, cpu, view.find(told.state), told.legal);
        let (next, epsilon) = Self::decide(view, cpu, &now, &offer, &chance);
        let alive = if told.terminated { 0.0 } else { 1.0 };
        self.take(view, cpu, &now, &waiting, &Next { state: told.state, action: next, epsilon, alive, offer }, &chance);
        self.made += 1;
        next
    }

    /// For a checkpoint.
    pub fn save(&self, out: &mut Writer) {
        out.u64(self.made);
        self.replay.save(out);
        let mut batch = Replay::default();
        self.batch.iter().for_each(|kept| batch.push(*kept, usize::MAX));
        batch.save(out);
    }

    /// From a checkpoint.
    pub fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.made = from.u64()?;
        self.replay = Replay::load(from)?;
        self.batch = Replay::load(from)?.into_kept();
        self.tally = Tally::default();
        Ok(())
    }
}

/// The plane that learns, by chance where there are two.
#[inline(always)]
fn plane(now: &Now, bits: u32) -> usize {
    (now.rule.algorithm.planes() - 1) & (bits >> 31) as usize
}

#[inline(always)]
fn visits_of<V: View>(view: V, row: usize) -> u32 {
    let table = view.table();
    (0..table.shape.actions).map(|action| table.count(&table.visits, row, action)).fold(0, u32::saturating_add)
}
