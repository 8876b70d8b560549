//! The inner loop: a worker steps a few envs in turns and learns from every step; env, policy and table are compiled
//! into one loop.
//!
//! The next action is chosen before the last one is learned from, for every algorithm as for SARSA, so one loop serves
//! them all. A round first steps all envs and prefetches the rows they lead to, then chooses actions and learns, so no
//! env waits for memory or for another thread's last write. An env's step depends on its own last action only, so the
//! bits are those of stepping one env after the other.

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::discrete::{Discrete, MAX_SEATS};
use hotloop_core::error::{Result, input};
use hotloop_core::fields::{Load, Save};
use hotloop_core::options::Options;
use hotloop_core::rng::Stream;
use hotloop_core::simd::Isa;

use super::counters::Counters;
use super::epsilon_greedy::{Cpu, Portable, action_values};
use super::td_learner::{BatchNoise, FOLD, NextDecision, PendingDecision, StepContext, StepNoise, TdLearner};
use super::view::View;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// Envs of a worker.
pub const ENVS: usize = 4;

/// An env and its current episode.
struct Episode<E> {
    env: E,
    /// State of the seat in turn, and its chosen action.
    state: u64,
    row: usize,
    action: usize,
    seat: usize,
    pending: [PendingDecision; MAX_SEATS],
    elapsed: u32,
    returns: [f32; MAX_SEATS],
    lengths: [u32; MAX_SEATS],
    /// Last position of the episode before, if it was truncated.
    truncated_at: Position,
}

/// A state in which a seat has to choose an action.
#[derive(Clone, Copy, Default)]
struct Position {
    state: u64,
    row: usize,
    legal: u64,
    seat: usize,
}

/// Result of an env's step, before anything is learned from it.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Next position; of the next episode if this one ended.
    next: Position,
    /// Reward of the first seat.
    reward: f32,
    terminated: bool,
    truncated: bool,
}

/// Some envs and their learner. The alignment keeps workers from sharing a cache line, or a pair of lines that the CPU
/// prefetches together.
#[repr(align(128))]
pub struct Worker<E> {
    episodes: [Episode<E>; ENVS],
    learner: TdLearner,
    max_steps: u32,
    started: bool,
    next_env: usize,
}

impl<E: Discrete> Worker<E> {
    /// Create a worker whose episodes have not started.
    pub fn new(options: &Options, learner: TdLearner, max_steps: u32) -> Self {
        let episode = |_| Episode {
            env: E::new(options),
            state: 0,
            row: 0,
            action: 0,
            seat: 0,
            pending: [PendingDecision::default(); MAX_SEATS],
            elapsed: 0,
            returns: [0.0; MAX_SEATS],
            lengths: [0; MAX_SEATS],
            truncated_at: Position::default(),
        };
        Self { episodes: std::array::from_fn(episode), learner, max_steps, started: false, next_env: 0 }
    }

    /// Take the statistics since the last call.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.learner.counters)
    }

    /// Look up all rows again, after the table has grown or was replaced.
    pub fn refresh_rows<V: View>(&mut self, view: V) {
        for episode in &mut self.episodes {
            if self.started {
                episode.row = view.find(episode.state);
            }
            for pending in episode.pending.iter_mut().filter(|pending| pending.active) {
                pending.row = view.find(pending.state);
            }
        }
    }

    /// Make `steps` steps; `first` is the number of steps that all workers had made before.
    #[inline(always)]
    pub fn run<V: View, C: Cpu>(&mut self, view: V, cpu: C, first: u64, steps: usize) {
        let context = self.learner.context(first);
        if !self.started {
            self.start(view, cpu, &context);
        }
        if context.settings.is_online_q_learning() {
            self.rounds(view.with_one_plane(), cpu, context.online_q_learning(), steps);
        } else {
            self.rounds(view, cpu, context, steps);
        }
    }

    #[inline(always)]
    fn rounds<V: View, C: Cpu>(&mut self, view: V, cpu: C, mut context: StepContext, steps: usize) {
        let mut left = steps;
        while left > 0 {
            if self.learner.steps.is_multiple_of(FOLD) {
                (context.env, context.action) = self.learner.streams();
            }
            let count = left.min(ENVS - self.next_env);
            self.round(view, cpu, &mut context, count);
            self.next_env = (self.next_env + count) % ENVS;
            left -= count;
        }
    }

    fn start<V: View, C: Cpu>(&mut self, view: V, cpu: C, context: &StepContext) {
        for (index, episode) in self.episodes.iter_mut().enumerate() {
            let stream = context.env.fold(index as u32);
            episode.env.begin(stream);
            let values = action_values(view, cpu, view.find(episode.env.state()), episode.env.legal());
            (episode.state, episode.row, episode.seat) = (episode.env.state(), values.row, episode.env.seat());
            episode.action = TdLearner::choose_from(view, cpu, context, &values, stream.fold(0));
        }
        self.started = true;
    }

    /// Make one step in each of `count` envs.
    #[inline(always)]
    fn round<V: View, C: Cpu>(&mut self, view: V, cpu: C, context: &mut StepContext, count: usize) {
        let Self { episodes, learner, max_steps, next_env, .. } = self;
        let episodes = &mut episodes[*next_env..*next_env + count];
        let mut outcomes = [Outcome::default(); ENVS];
        for ((i, outcome), episode) in (0..).zip(&mut outcomes).zip(&mut *episodes) {
            let stream = learner.env_stream_at(context, i);
            *outcome = episode.step(view, &mut learner.counters, *max_steps, stream);
        }
        let noise: BatchNoise<ENVS> = learner.noise(context);
        for ((i, outcome), episode) in (0..).zip(&outcomes).zip(episodes) {
            episode.learn(view, cpu, learner, context, outcome, &noise.at(i));
            context.rate.advance();
            context.epsilon.advance();
        }
        learner.steps += count as u64;
    }

    /// Write the checkpointed state.
    pub fn save(&mut self, out: &mut Writer) {
        self.learner.save(out);
        out.u8(u8::from(self.started));
        out.u32(self.next_env as u32);
        for episode in &mut self.episodes {
            episode.env.fields(&mut Save(out));
            out.u64(episode.state);
            out.u32(episode.action as u32);
            out.u32(episode.seat as u32);
            out.u32(episode.elapsed);
            for seat in 0..MAX_SEATS {
                let pending = &episode.pending[seat];
                out.u64(pending.state);
                out.u32(pending.action as u32);
                out.f32(pending.reward);
                out.u8(u8::from(pending.active));
                out.f32(episode.returns[seat]);
                out.u32(episode.lengths[seat]);
            }
        }
    }

    /// Read the checkpointed state; `refresh_rows` must follow.
    pub fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.learner.load(from)?;
        self.started = from.u8()? != 0;
        self.next_env = from.u32()? as usize % ENVS;
        for episode in &mut self.episodes {
            let mut fields = Load::new(from);
            episode.env.fields(&mut fields);
            fields.finish()?;
            if let Err(why) = episode.env.check() {
                return input(format!("the state of an env is not a possible one: {why}"));
            }
            episode.state = from.u64()?;
            episode.action = from.u32()? as usize;
            episode.seat = from.u32()? as usize % MAX_SEATS;
            episode.elapsed = from.u32()?;
            for seat in 0..MAX_SEATS {
                let (state, action) = (from.u64()?, from.u32()? as usize);
                let (reward, active) = (from.f32()?, from.u8()? != 0);
                episode.pending[seat] = PendingDecision { state, row: 0, action, reward, active };
                episode.returns[seat] = from.f32()?;
                episode.lengths[seat] = from.u32()?;
            }
        }
        Ok(())
    }
}

impl<E: Discrete> Episode<E> {
    /// Step the env with the chosen action, and reset it if the episode ended.
    #[inline(always)]
    fn step<V: View>(&mut self, view: V, counters: &mut Counters, max_steps: u32, stream: Stream) -> Outcome {
        let step = self.env.play(self.action, stream);
        if E::SEATS > 1 {
            self.pending[self.seat] = self.decision();
            for (pending, reward) in self.pending.iter_mut().zip(step.rewards) {
                pending.reward += reward;
            }
        }
        for seat in 0..E::SEATS {
            self.returns[seat] += step.rewards[seat];
        }
        self.lengths[self.seat()] += 1;
        self.elapsed += 1;
        let truncated = self.elapsed >= max_steps && !step.over;
        if step.over || truncated {
            if truncated {
                self.truncated_at = position(view, &self.env);
            }
            for seat in 0..E::SEATS {
                counters.count_episode(self.returns[seat], self.lengths[seat], step.success[seat]);
            }
            self.env.begin(stream.skip(4));
            (self.returns, self.lengths, self.elapsed) = ([0.0; MAX_SEATS], [0; MAX_SEATS], 0);
        }
        let next = position(view, &self.env);
        view.prefetch(next.row);
        Outcome { next, reward: step.rewards[0], terminated: step.over, truncated }
    }

    /// Choose the next action, and learn from the decision that led there.
    #[inline(always)]
    fn learn<V: View, C: Cpu>(
        &mut self,
        view: V,
        cpu: C,
        learner: &mut TdLearner,
        context: &StepContext,
        outcome: &Outcome,
        noise: &StepNoise,
    ) {
        if outcome.truncated {
            // The seat in turn bootstraps from the state in which the episode was truncated.
            let Position { state, row, legal, seat } = self.truncated_at;
            let decision = self.pending(seat, outcome);
            if decision.active {
                let values = action_values(view, cpu, row, legal);
                let (action, epsilon) = TdLearner::choose(view, cpu, context, &values, &noise.fold(3));
                let next = NextDecision { state, action, epsilon, nonterminal: 1.0, values };
                learner.learn(view, cpu, context, &decision, &next, noise);
            }
            self.pending = [PendingDecision::default(); MAX_SEATS];
        }
        let Position { state, row, legal, seat } = outcome.next;
        let values = action_values(view, cpu, row, legal);
        let (action, epsilon) = TdLearner::choose(view, cpu, context, &values, noise);
        let nonterminal = if outcome.terminated { 0.0 } else { 1.0 };
        let next = NextDecision { state, action, epsilon, nonterminal, values };
        if E::SEATS > 1 && outcome.terminated {
            for seat in 0..E::SEATS {
                let decision = std::mem::take(&mut self.pending[seat]);
                if decision.active {
                    learner.learn(view, cpu, context, &decision, &next, &noise.fold(4 + seat as u32));
                }
            }
        }
        let decision = self.pending(seat, outcome);
        if decision.active && !outcome.truncated {
            learner.learn(view, cpu, context, &decision, &next, noise);
        }
        (self.state, self.row, self.action, self.seat) = (state, row, action, seat);
    }

    /// The pending decision of a seat; with one seat, always the last one.
    #[inline(always)]
    fn pending(&self, seat: usize, outcome: &Outcome) -> PendingDecision {
        if E::SEATS == 1 { PendingDecision { reward: outcome.reward, ..self.decision() } } else { self.pending[seat] }
    }

    /// The decision of the seat in turn, without a reward yet.
    #[inline(always)]
    fn decision(&self) -> PendingDecision {
        PendingDecision { state: self.state, row: self.row, action: self.action, reward: 0.0, active: true }
    }

    /// The seat in turn.
    #[inline(always)]
    fn seat(&self) -> usize {
        if E::SEATS == 1 { 0 } else { self.seat }
    }
}

#[inline(always)]
fn position<E: Discrete, V: View>(view: V, env: &E) -> Position {
    let state = env.state();
    let seat = if E::SEATS == 1 { 0 } else { env.seat() };
    Position { state, row: view.find(state), legal: env.legal(), seat }
}

/// Run a worker with the instructions of `isa`, as far as the CPU has them; the result does not depend on them.
pub fn run<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize, isa: Isa) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the CPU has what each function needs.
        match isa {
            Isa::Avx512 => return unsafe { run_avx512(worker, view, first, steps) },
            Isa::Avx2 => return unsafe { run_avx2(worker, view, first, steps) },
            Isa::Scalar => {}
        }
    }
    let _ = isa;
    worker.run(view, Portable, first, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn run_avx512<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize) {
    // SAFETY: this function is called only where the CPU has them.
    worker.run(view, unsafe { x86::Avx512::new() }, first, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_avx2<E: Discrete, V: View>(worker: &mut Worker<E>, view: V, first: u64, steps: usize) {
    // SAFETY: this function is called only where the CPU has them.
    worker.run(view, unsafe { x86::Avx2::new() }, first, steps);
}
