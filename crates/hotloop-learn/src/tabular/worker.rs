//! The inner loop: a worker plays a few envs in turns and learns from every step, env, policy and table in one piece.
//!
//! The next action is drawn before the last one is learned from, for every algorithm as for SARSA, so that one loop
//! serves them all. Several envs in turns let the CPU work on one while another waits for memory.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::discrete::{Discrete, MOST_SEATS};
use hotloop_core::error::{Result, input};
use hotloop_core::fields::{Load, Save};
use hotloop_core::options::Options;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::Isa;

use super::choice::{Cpu, Offer, Portable, draw, look};
use super::external::Told;
use super::replay::{Experience, Replay};
use super::rule::{Rule, next_value};
use super::schedule::Running;
use super::table::BLOCK;
use super::tally::Tally;
use super::view::View;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// Envs of a worker.
pub const LANES: usize = 4;
/// Steps under one fold of the streams; each uses eight draws.
const FOLD: u64 = 1 << 28;

/// A decision that waits for what it leads to.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    state: u64,
    row: usize,
    action: usize,
    reward: f32,
    on: bool,
}

struct Lane<E> {
    env: E,
    /// Where the seat in turn is, and what it will do.
    state: u64,
    row: usize,
    action: usize,
    seat: usize,
    waiting: [Waiting; MOST_SEATS],
    elapsed: u32,
    totals: [f32; MOST_SEATS],
    lengths: [u32; MOST_SEATS],
}

/// Some envs, and what learning needs besides the table.
pub struct Worker<E> {
    lanes: Vec<Lane<E>>,
    mind: Mind,
    max_steps: u32,
    begun: bool,
    next_lane: usize,
}

/// What learns, apart from the envs.
pub struct Mind {
    rule: Rule,
    env_stream: Stream,
    action_stream: Stream,
    /// Steps made.
    pub made: u64,
    /// What was counted.
    pub tally: Tally,
    batch: Vec<Experience>,
    replay: Replay,
}

/// What a decision came to.
#[derive(Clone, Copy)]
struct Lesson {
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
struct Next {
    state: u64,
    action: usize,
    epsilon: f32,
    /// 1, or 0 if the episode ended.
    alive: f32,
    offer: Offer,
}

/// What holds for the steps of one call.
#[derive(Clone, Copy)]
struct Now {
    rate: Running,
    epsilon: Running,
    env: Stream,
    act: Stream,
}

impl Mind {
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

    fn now(&self, step: u64) -> Now {
        let fold = (self.made / FOLD) as u32;
        Now {
            rate: self.rule.learning_rate.at(step),
            epsilon: self.rule.exploration.at(step),
            env: self.env_stream.fold(fold),
            act: self.action_stream.fold(fold),
        }
    }

    /// The streams of env and action at this step.
    #[inline(always)]
    fn draws(&self, now: &Now) -> (Stream, Stream) {
        let first = (self.made % FOLD) as u32 * 8;
        (now.env.skip(first), now.act.skip(first))
    }

    /// What the policy does in a state.
    #[inline(always)]
    fn decide<V: View, C: Cpu>(view: V, cpu: C, now: &Now, offer: &Offer, draws: Stream) -> (usize, f32) {
        let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
        (draw(cpu, offer, epsilon, draws.bits(0), draws.bits(1)), epsilon)
    }

    /// Learns from a decision whose outcome is known.
    #[inline(always)]
    fn learn<V: View>(&mut self, view: V, now: &Now, lesson: Lesson) {
        let Lesson { row, action, reward, worth, plane, bits } = lesson;
        let table = view.table();
        let line = row * table.shape.blocks() + action / BLOCK;
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
        let error = reward + self.rule.gamma * worth - value;
        view.set(row, plane, action, value + rate * error, bits);
        self.tally.error += f64::from(error.abs());
        self.tally.updates += 1;
    }

    /// Learns from a transition that was kept.
    fn learn_kept<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, kept: &Experience, bits: u32) {
        let row = view.find(kept.state);
        let offer = look(view, cpu, view.find(kept.next), kept.legal);
        let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
        let plane = self.plane(bits);
        let worth = kept.alive * next_value(view, cpu, &self.rule, &offer, kept.next_action, epsilon, plane);
        self.learn(view, now, Lesson { row, action: kept.action, reward: kept.reward, worth, plane, bits });
    }

    #[inline(always)]
    fn plane(&self, bits: u32) -> usize {
        (self.rule.algorithm.planes() - 1) & (bits >> 31) as usize
    }

    /// Takes a transition: learns from it now or with its batch, and from old ones again.
    #[inline(always)]
    fn take<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, waiting: &Waiting, next: &Next, draws: Stream) {
        let Next { state, action, epsilon, alive, ref offer } = *next;
        let bits = draws.bits(2);
        if self.rule.batch == 1 {
            let plane = self.plane(bits);
            let worth = alive * next_value(view, cpu, &self.rule, offer, action, epsilon, plane);
            self.learn(
                view,
                now,
                Lesson { row: waiting.row, action: waiting.action, reward: waiting.reward, worth, plane, bits },
            );
            if self.rule.replay == 0 {
                return;
            }
        }
        let kept = Experience {
            state: waiting.state,
            action: waiting.action,
            reward: waiting.reward,
            next: state,
            legal: offer.legal,
            next_action: action,
            alive,
        };
        self.keep(view, cpu, now, kept, draws);
    }

    #[cold]
    #[inline(never)]
    fn keep<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, kept: Experience, draws: Stream) {
        if self.rule.batch > 1 {
            self.batch.push(kept);
            if self.batch.len() >= self.rule.batch {
                self.learn_batch(view, cpu, now, draws);
            }
        }
        if self.rule.replay > 0 {
            self.replay.push(kept, self.rule.replay);
            let picks = draws.fold(1);
            for again in 0..self.rule.replays as u32 {
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
            let plane = self.plane(bits);
            let offer = look(view, cpu, view.find(kept.next), kept.legal);
            let epsilon = now.epsilon.value(|| visits_of(view, offer.row));
            let worth = kept.alive * next_value(view, cpu, &self.rule, &offer, kept.next_action, epsilon, plane);
            found.push((view.find(kept.state), worth, plane, bits));
        }
        for (kept, (row, worth, plane, bits)) in batch.iter().zip(found) {
            self.learn(view, now, Lesson { row, action: kept.action, reward: kept.reward, worth, plane, bits });
        }
        self.batch = batch;
        self.batch.clear();
    }

    /// For an env outside: an episode begins there; what to do.
    pub fn begin<V: View, C: Cpu>(&mut self, view: V, cpu: C, state: u64, legal: u64) -> usize {
        let now = self.now(self.made);
        let (draws, _) = self.draws(&now);
        let offer = look(view, cpu, view.find(state), legal);
        Self::decide(view, cpu, &now, &offer, draws.fold(5)).0
    }

    /// For an env outside: learns from what a decision led to, and decides anew.
    pub fn step<V: View, C: Cpu>(&mut self, view: V, cpu: C, (state, action): (u64, usize), told: &Told) -> usize {
        let now = self.now(self.made);
        let (_, act) = self.draws(&now);
        let waiting = Waiting { state, row: view.find(state), action, reward: told.reward, on: true };
        let offer = look(view, cpu, view.find(told.state), told.legal);
        let (next, epsilon) = Self::decide(view, cpu, &now, &offer, act);
        let alive = if told.terminated { 0.0 } else { 1.0 };
        self.take(view, cpu, &now, &waiting, &Next { state: told.state, action: next, epsilon, alive, offer }, act);
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

#[inline(always)]
fn visits_of<V: View>(view: V, row: usize) -> u32 {
    let table = view.table();
    (0..table.shape.actions).map(|action| table.count(&table.visits, row, action)).fold(0, u32::saturating_add)
}

impl<E: Discrete> Worker<E> {
    /// Envs that have not begun.
    pub fn new(options: &Options, mind: Mind, max_steps: u32) -> Self {
        let lane = |_| Lane {
            env: E::new(options),
            state: 0,
            row: 0,
            action: 0,
            seat: 0,
            waiting: [Waiting::default(); MOST_SEATS],
            elapsed: 0,
            totals: [0.0; MOST_SEATS],
            lengths: [0; MOST_SEATS],
        };
        Self { lanes: (0..LANES).map(lane).collect(), mind, max_steps, begun: false, next_lane: 0 }
    }

    /// What learns.
    pub fn mind(&self) -> &Mind {
        &self.mind
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.mind.tally)
    }

    /// Other random numbers from now on.
    pub fn reseed(&mut self, seed: u64, attempt: u32, worker: u32) {
        let fresh = Mind::new(self.mind.rule, seed, attempt, worker);
        (self.mind.env_stream, self.mind.action_stream) = (fresh.env_stream, fresh.action_stream);
    }

    /// Finds all rows again after the table has grown, or was another's.
    pub fn settle<V: View>(&mut self, view: V) {
        for lane in &mut self.lanes {
            if self.begun {
                lane.row = view.find(lane.state);
            }
            for waiting in lane.waiting.iter_mut().filter(|waiting| waiting.on) {
                waiting.row = view.find(waiting.state);
            }
        }
    }

    /// Makes so many steps from the step `first` of all workers on.
    #[inline(always)]
    pub fn run<V: View, C: Cpu>(&mut self, view: V, cpu: C, first: u64, steps: usize) {
        let mut now = self.mind.now(first);
        if !self.begun {
            self.begin_all(view, cpu, &now);
        }
        let mut lane = self.next_lane;
        for _ in 0..steps {
            if self.mind.made.is_multiple_of(FOLD) {
                let anew = self.mind.now(first);
                (now.env, now.act) = (anew.env, anew.act);
            }
            self.step(view, cpu, &now, lane);
            self.mind.made += 1;
            now.rate.next();
            now.epsilon.next();
            lane = (lane + 1) % LANES;
        }
        self.next_lane = lane;
    }

    fn begin_all<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let draws = now.env.fold(index as u32);
            lane.env.begin(draws);
            let offer = look(view, cpu, view.find(lane.env.state()), lane.env.legal());
            (lane.state, lane.row, lane.seat) = (lane.env.state(), offer.row, lane.env.seat());
            lane.action = Mind::decide(view, cpu, now, &offer, draws.fold(0)).0;
        }
        self.begun = true;
    }

    /// One decision of one env.
    #[inline(always)]
    fn step<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now, lane: usize) {
        let (draws, act) = self.mind.draws(now);
        let lane = &mut self.lanes[lane];
        let mind = &mut self.mind;
        let seat = if E::SEATS == 1 { 0 } else { lane.seat };
        lane.waiting[seat] = Waiting { state: lane.state, row: lane.row, action: lane.action, reward: 0.0, on: true };
        let turn = lane.env.play(lane.action, draws);
        for seat in 0..E::SEATS {
            lane.waiting[seat].reward += turn.rewards[seat];
            lane.totals[seat] += turn.rewards[seat];
        }
        lane.lengths[seat] += 1;
        lane.elapsed += 1;
        let cut = lane.elapsed >= self.max_steps && !turn.over;
        if turn.over || cut {
            if cut {
                // Cut short: what would have followed still counts for the seat in turn.
                let next = lane.env.seat();
                let waiting = lane.waiting[next];
                if waiting.on {
                    let offer = look(view, cpu, view.find(lane.env.state()), lane.env.legal());
                    let (action, epsilon) = Mind::decide(view, cpu, now, &offer, act.fold(3));
                    mind.take(
                        view,
                        cpu,
                        now,
                        &waiting,
                        &Next { state: lane.env.state(), action, epsilon, alive: 1.0, offer },
                        act,
                    );
                }
                lane.waiting = [Waiting::default(); MOST_SEATS];
            }
            for seat in 0..E::SEATS {
                mind.tally.episode(lane.totals[seat], lane.lengths[seat], turn.success[seat]);
            }
            lane.env.begin(draws.skip(4));
            (lane.totals, lane.lengths, lane.elapsed) = ([0.0; MOST_SEATS], [0; MOST_SEATS], 0);
        }
        let state = lane.env.state();
        let offer = look(view, cpu, view.find(state), lane.env.legal());
        let (action, epsilon) = Mind::decide(view, cpu, now, &offer, act);
        let alive = if turn.over { 0.0 } else { 1.0 };
        if E::SEATS > 1 && turn.over {
            for seat in 0..E::SEATS {
                let waiting = std::mem::take(&mut lane.waiting[seat]);
                if waiting.on {
                    mind.take(
                        view,
                        cpu,
                        now,
                        &waiting,
                        &Next { state, action, epsilon, alive: 0.0, offer },
                        act.fold(4 + seat as u32),
                    );
                }
            }
        }
        let seat = if E::SEATS == 1 { 0 } else { lane.env.seat() };
        let waiting = lane.waiting[seat];
        if waiting.on {
            mind.take(view, cpu, now, &waiting, &Next { state, action, epsilon, alive, offer }, act);
        }
        (lane.state, lane.row, lane.action, lane.seat) = (state, offer.row, action, seat);
    }

    /// For a checkpoint.
    pub fn save(&mut self, out: &mut Writer) {
        self.mind.save(out);
        out.u8(u8::from(self.begun));
        out.u32(self.next_lane as u32);
        for lane in &mut self.lanes {
            lane.env.fields(&mut Save(out));
            out.u64(lane.state);
            out.u32(lane.action as u32);
            out.u32(lane.seat as u32);
            out.u32(lane.elapsed);
            for seat in 0..MOST_SEATS {
                let waiting = &lane.waiting[seat];
                out.u64(waiting.state);
                out.u32(waiting.action as u32);
                out.f32(waiting.reward);
                out.u8(u8::from(waiting.on));
                out.f32(lane.totals[seat]);
                out.u32(lane.lengths[seat]);
            }
        }
    }

    /// From a checkpoint; `settle` must follow.
    pub fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.mind.load(from)?;
        self.begun = from.u8()? != 0;
        self.next_lane = from.u32()? as usize % LANES;
        for lane in &mut self.lanes {
            let mut fields = Load::new(from);
            lane.env.fields(&mut fields);
            fields.finish()?;
            if let Err(why) = lane.env.check() {
                return input(format!("the state of an env is not a possible one: {why}"));
            }
            lane.state = from.u64()?;
            lane.action = from.u32()? as usize;
            lane.seat = from.u32()? as usize % MOST_SEATS;
            lane.elapsed = from.u32()?;
            for seat in 0..MOST_SEATS {
                let (state, action) = (from.u64()?, from.u32()? as usize);
                let (reward, on) = (from.f32()?, from.u8()? != 0);
                lane.waiting[seat] = Waiting { state, row: 0, action, reward, on };
                lane.totals[seat] = from.f32()?;
                lane.lengths[seat] = from.u32()?;
            }
        }
        Ok(())
    }
}

/// Runs a worker with what the CPU has, or less of it; the result is the same.
pub fn run<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize, isa: Isa) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the CPU has what each function needs.
        match isa {
            Isa::Avx512 => return unsafe { run_sixteens(worker, view, first, steps) },
            Isa::Avx2 => return unsafe { run_eights(worker, view, first, steps) },
            Isa::Scalar => {}
        }
    }
    let _ = isa;
    worker.run(view, Portable, first, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn run_sixteens<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize) {
    // SAFETY: this function is called only where the CPU has them.
    worker.run(view, unsafe { x86::Sixteens::new() }, first, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_eights<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize) {
    // SAFETY: this function is called only where the CPU has them.
    worker.run(view, unsafe { x86::Eights::new() }, first, steps);
}
