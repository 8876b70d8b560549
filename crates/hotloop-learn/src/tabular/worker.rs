//! The inner loop: a worker plays a few envs in turns and learns from every step, env, policy and table in one piece.
//!
//! The next action is drawn before the last one is learned from, for every algorithm as for SARSA, so that one loop
//! serves them all. A round first plays all envs and asks for the rows they lead to, then decides and learns, so that
//! no env waits for memory, or for what another thread has just changed; as an env's play depends on its own last
//! decision alone, that gives the same bits as one env after the other.

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::discrete::{Discrete, MOST_SEATS};
use hotloop_core::error::{Result, input};
use hotloop_core::fields::{Load, Save};
use hotloop_core::options::Options;
use hotloop_core::rng::Stream;
use hotloop_core::simd::Isa;

use super::choice::{Cpu, Portable, look};
use super::counters::Tally;
use super::td_learner::{Chance, Chances, FOLD, Next, Now, TdLearner, Waiting};
use super::view::View;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// Envs of a worker.
pub const LANES: usize = 4;

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
    /// Where its last episode was cut short.
    cut: Stand,
}

/// A state in which a seat is to decide.
#[derive(Clone, Copy, Default)]
struct Stand {
    state: u64,
    row: usize,
    legal: u64,
    seat: usize,
}

/// What a decision led to, before anything is learned from it.
#[derive(Clone, Copy, Default)]
struct Led {
    to: Stand,
    /// What the first seat earned.
    reward: f32,
    over: bool,
    cut: bool,
}

/// Some envs, and what learning needs besides the table. Workers share no line of the cache, nor a pair that the CPU
/// fetches together.
#[repr(align(128))]
pub struct Worker<E> {
    lanes: [Lane<E>; LANES],
    mind: TdLearner,
    max_steps: u32,
    begun: bool,
    next_lane: usize,
}

impl<E: Discrete> Worker<E> {
    /// Envs that have not begun.
    pub fn new(options: &Options, mind: TdLearner, max_steps: u32) -> Self {
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
            cut: Stand::default(),
        };
        Self { lanes: std::array::from_fn(lane), mind, max_steps, begun: false, next_lane: 0 }
    }

    /// What was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.mind.tally)
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
        let now = self.mind.now(first);
        if !self.begun {
            self.begin_all(view, cpu, &now);
        }
        if now.rule.is_plain() {
            self.rounds(view.with_one_plane(), cpu, now.plain(), steps);
        } else {
            self.rounds(view, cpu, now, steps);
        }
    }

    #[inline(always)]
    fn rounds<V: View, C: Cpu>(&mut self, view: V, cpu: C, mut now: Now, steps: usize) {
        let mut left = steps;
        while left > 0 {
            if self.mind.made.is_multiple_of(FOLD) {
                (now.env, now.act) = self.mind.streams();
            }
            let count = left.min(LANES - self.next_lane);
            self.round(view, cpu, &mut now, count);
            self.next_lane = (self.next_lane + count) % LANES;
            left -= count;
        }
    }

    fn begin_all<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &Now) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let draws = now.env.fold(index as u32);
            lane.env.begin(draws);
            let offer = look(view, cpu, view.find(lane.env.state()), lane.env.legal());
            (lane.state, lane.row, lane.seat) = (lane.env.state(), offer.row, lane.env.seat());
            lane.action = TdLearner::decide_by(view, cpu, now, &offer, draws.fold(0));
        }
        self.begun = true;
    }

    /// One decision of each of so many envs.
    #[inline(always)]
    fn round<V: View, C: Cpu>(&mut self, view: V, cpu: C, now: &mut Now, count: usize) {
        let Self { lanes, mind, max_steps, next_lane, .. } = self;
        let lanes = &mut lanes[*next_lane..*next_lane + count];
        let mut led = [Led::default(); LANES];
        for ((i, led), lane) in (0..).zip(&mut led).zip(&mut *lanes) {
            let draws = mind.env_draws(now, i);
            *led = lane.play(view, &mut mind.tally, *max_steps, draws);
        }
        let chances: Chances<LANES> = mind.chances(now);
        for ((i, led), lane) in (0..).zip(&led).zip(lanes) {
            lane.learn(view, cpu, mind, now, led, &chances.at(i));
            now.rate.next();
            now.epsilon.next();
        }
        mind.made += count as u64;
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

impl<E: Discrete> Lane<E> {
    /// Does what the seat in turn has decided.
    #[inline(always)]
    fn play<V: View>(&mut self, view: V, tally: &mut Tally, max_steps: u32, draws: Stream) -> Led {
        let turn = self.env.play(self.action, draws);
        if E::SEATS > 1 {
            self.waiting[self.seat] = self.decision();
            for (waiting, reward) in self.waiting.iter_mut().zip(turn.rewards) {
                waiting.reward += reward;
            }
        }
        for seat in 0..E::SEATS {
            self.totals[seat] += turn.rewards[seat];
        }
        self.lengths[self.seat()] += 1;
        self.elapsed += 1;
        let cut = self.elapsed >= max_steps && !turn.over;
        if turn.over || cut {
            if cut {
                self.cut = stand(view, &self.env);
            }
            for seat in 0..E::SEATS {
                tally.episode(self.totals[seat], self.lengths[seat], turn.success[seat]);
            }
            self.env.begin(draws.skip(4));
            (self.totals, self.lengths, self.elapsed) = ([0.0; MOST_SEATS], [0; MOST_SEATS], 0);
        }
        let to = stand(view, &self.env);
        view.expect(to.row);
        Led { to, reward: turn.rewards[0], over: turn.over, cut }
    }

    /// Decides anew, and learns from the decision that led there.
    #[inline(always)]
    fn learn<V: View, C: Cpu>(&mut self, view: V, cpu: C, mind: &mut TdLearner, now: &Now, led: &Led, chance: &Chance) {
        if led.cut {
            // What would have followed still counts for the seat in turn.
            let Stand { state, row, legal, seat } = self.cut;
            let waiting = self.awaits(seat, led);
            if waiting.on {
                let offer = look(view, cpu, row, legal);
                let (action, epsilon) = TdLearner::decide(view, cpu, now, &offer, &chance.fold(3));
                mind.take(view, cpu, now, &waiting, &Next { state, action, epsilon, alive: 1.0, offer }, chance);
            }
            self.waiting = [Waiting::default(); MOST_SEATS];
        }
        let Stand { state, row, legal, seat } = led.to;
        let offer = look(view, cpu, row, legal);
        let (action, epsilon) = TdLearner::decide(view, cpu, now, &offer, chance);
        let alive = if led.over { 0.0 } else { 1.0 };
        let next = Next { state, action, epsilon, alive, offer };
        if E::SEATS > 1 && led.over {
            for seat in 0..E::SEATS {
                let waiting = std::mem::take(&mut self.waiting[seat]);
                if waiting.on {
                    mind.take(view, cpu, now, &waiting, &next, &chance.fold(4 + seat as u32));
                }
            }
        }
        let waiting = self.awaits(seat, led);
        if waiting.on && !led.cut {
            mind.take(view, cpu, now, &waiting, &next, chance);
        }
        (self.state, self.row, self.action, self.seat) = (state, row, action, seat);
    }

    /// The decision of a seat that waits for what it leads to; where there is one seat, always the last one.
    #[inline(always)]
    fn awaits(&self, seat: usize, led: &Led) -> Waiting {
        if E::SEATS == 1 { Waiting { reward: led.reward, ..self.decision() } } else { self.waiting[seat] }
    }

    /// What the seat in turn does, with nothing earned yet.
    #[inline(always)]
    fn decision(&self) -> Waiting {
        Waiting { state: self.state, row: self.row, action: self.action, reward: 0.0, on: true }
    }

    /// The seat in turn.
    #[inline(always)]
    fn seat(&self) -> usize {
        if E::SEATS == 1 { 0 } else { self.seat }
    }
}

#[inline(always)]
fn stand<E: Discrete, V: View>(view: V, env: &E) -> Stand {
    let state = env.state();
    let seat = if E::SEATS == 1 { 0 } else { env.seat() };
    Stand { state, row: view.find(state), legal: env.legal(), seat }
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
