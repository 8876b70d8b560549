//! Temporal-difference learning from decisions, whoever steps the env: chooses actions, updates values, stores
//! transitions for batches and replay.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::codec::{Reader, Writer};
use hotloop_core::error::Result;
use hotloop_core::rng::{Purpose, Stream};

use super::algorithm::{Algorithm, TdSettings, next_value};
use super::counters::Counters;
use super::epsilon_greedy::{ActionValues, Cpu, action_values, choose};
use super::external::StepResult;
use super::replay::{ReplayBuffer, Transition};
use super::schedule::ScheduleCursor;
use super::table::BLOCK;
use super::view::View;

/// Steps under one fold of the streams; each uses eight draws.
pub const FOLD: u64 = 1 << 28;
/// Draws per step.
const DRAWS: u32 = 8;

/// A decision whose outcome is not known yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingDecision {
    /// State in which it was made.
    pub state: u64,
    /// Row of that state.
    pub row: usize,
    /// Action chosen.
    pub action: usize,
    /// Reward so far.
    pub reward: f32,
    /// Whether there is one.
    pub active: bool,
}

/// A learner's settings, random streams, counters and stored transitions; the table is separate.
pub struct TdLearner {
    settings: TdSettings,
    env_stream: Stream,
    action_stream: Stream,
    /// Steps made.
    pub steps: u64,
    /// Statistics since they were last taken.
    pub counters: Counters,
    batch: Vec<Transition>,
    replay: ReplayBuffer,
}

/// One update of a value.
#[derive(Clone, Copy)]
struct TdUpdate {
    row: usize,
    action: usize,
    reward: f32,
    /// Undiscounted value of the next state; 0 after the end of an episode.
    next_value: f32,
    plane: usize,
    /// Random bits for stochastic rounding.
    bits: u32,
}

/// The state that a decision led to, and the action chosen there.
#[derive(Clone, Copy)]
pub struct NextDecision {
    /// State.
    pub state: u64,
    /// Action chosen.
    pub action: usize,
    /// Exploration rate with which it was chosen.
    pub epsilon: f32,
    /// 1, or 0 if the episode ended.
    pub nonterminal: f32,
    /// Values of the state's actions.
    pub values: ActionValues,
}

/// Settings, schedules and random streams of the steps of one call.
#[derive(Clone, Copy)]
pub struct StepContext {
    /// Settings of the learner.
    pub settings: TdSettings,
    /// Learning rate.
    pub rate: ScheduleCursor,
    /// Exploration rate.
    pub epsilon: ScheduleCursor,
    /// Random stream of the envs.
    pub env: Stream,
    /// Random stream of decisions.
    pub action: Stream,
}

impl StepContext {
    /// Specialise to online Q-learning with settings that the compiler can see.
    #[inline(always)]
    #[must_use]
    pub fn online_q_learning(mut self) -> Self {
        debug_assert!(self.settings.is_online_q_learning());
        (self.settings.algorithm, self.settings.batch, self.settings.replay) = (Algorithm::QLearning, 1, 0);
        self
    }
}

/// Random bits of one step.
#[derive(Clone, Copy)]
pub struct StepNoise {
    stream: Stream,
    /// First draws of the stream: whether to explore, which action to pick, and which plane to update or way to round.
    explore: u32,
    pick: u32,
    side: u32,
}

/// Random bits of `N` consecutive steps.
pub struct BatchNoise<const N: usize> {
    first: Stream,
    explore: [u32; N],
    pick: [u32; N],
    side: [u32; N],
}

impl<const N: usize> BatchNoise<N> {
    /// Random bits of step `i`.
    #[inline(always)]
    pub fn at(&self, i: usize) -> StepNoise {
        let stream = self.first.skip(i as u32 * DRAWS);
        StepNoise { stream, explore: self.explore[i], pick: self.pick[i], side: self.side[i] }
    }
}

impl StepNoise {
    fn new(stream: Stream) -> Self {
        Self { stream, explore: stream.bits(0), pick: stream.bits(1), side: stream.bits(2) }
    }

    /// Independent random bits of the same step.
    #[must_use]
    pub fn fold(&self, index: u32) -> Self {
        Self::new(self.stream.fold(index))
    }
}

impl TdLearner {
    /// Create the learner of one of several workers.
    pub fn new(settings: TdSettings, seed: u64, attempt: u32, worker: u32) -> Self {
        Self {
            settings,
            env_stream: Stream::new(seed, attempt, Purpose::Env).fold(worker),
            action_stream: Stream::new(seed, attempt, Purpose::Action).fold(worker),
            steps: 0,
            counters: Counters::default(),
            batch: Vec::new(),
            replay: ReplayBuffer::default(),
        }
    }

    /// Context of steps that begin with step `step` of all workers.
    pub fn context(&self, step: u64) -> StepContext {
        let (env, action) = self.streams();
        let settings = self.settings;
        let (rate, epsilon) = (settings.learning_rate.at(step), settings.exploration.at(step));
        StepContext { settings, rate, epsilon, env, action }
    }

    /// Streams of envs and actions for the steps of the current fold.
    pub fn streams(&self) -> (Stream, Stream) {
        let fold = (self.steps / FOLD) as u32;
        (self.env_stream.fold(fold), self.action_stream.fold(fold))
    }

    /// The env's stream of the step that comes `ahead` of the current one.
    #[inline(always)]
    pub fn env_stream_at(&self, context: &StepContext, ahead: u32) -> Stream {
        context.env.skip(self.draw_offset().wrapping_add(ahead * DRAWS))
    }

    /// Random bits of the current step and those after it, generated together so that the compiler can vectorise.
    #[inline(always)]
    pub fn noise<const N: usize>(&self, context: &StepContext) -> BatchNoise<N> {
        let first = context.action.skip(self.draw_offset());
        let draws = |draw: u32| std::array::from_fn(|ahead| first.bits(ahead as u32 * DRAWS + draw));
        BatchNoise { first, explore: draws(0), pick: draws(1), side: draws(2) }
    }

    fn draw_offset(&self) -> u32 {
        (self.steps % FOLD) as u32 * DRAWS
    }

    /// Choose an action by the epsilon-greedy policy; returns it with the exploration rate.
    #[inline(always)]
    pub fn choose<V: View, C: Cpu>(
        view: V,
        cpu: C,
        context: &StepContext,
        values: &ActionValues,
        noise: &StepNoise,
    ) -> (usize, f32) {
        let epsilon = context.epsilon.value(|| row_visits(view, values.row));
        (choose(cpu, values, epsilon, noise.explore, noise.pick), epsilon)
    }

    /// Choose an action with the first draws of a stream.
    pub fn choose_from<V: View, C: Cpu>(
        view: V,
        cpu: C,
        context: &StepContext,
        values: &ActionValues,
        stream: Stream,
    ) -> usize {
        Self::choose(view, cpu, context, values, &StepNoise::new(stream)).0
    }

    #[inline(always)]
    fn update<V: View>(&mut self, view: V, context: &StepContext, update: TdUpdate) {
        let TdUpdate { row, action, reward, next_value, plane, bits } = update;
        let table = view.table();
        let line = row * view.blocks() + if view.blocks() == 1 { 0 } else { action / BLOCK };
        let rate = context.rate.value(|| table.count(&table.visits, row, action));
        if table.shape.visits {
            let count = &table.visits[line].0[action % BLOCK];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
        if table.shape.exchange {
            let count = &table.recent_visits[line].0[action % BLOCK];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
            let word = &table.changed_rows[row / 64];
            word.store(word.load(Relaxed) | 1 << (row % 64), Relaxed);
        }
        let value = view.get(row, plane, action);
        let error = reward + context.settings.gamma * next_value - value;
        view.set(row, plane, action, value + rate * error, bits);
        self.counters.error += f64::from(error.abs());
        self.counters.updates += 1;
    }

    /// Value of a stored transition's next state to the plane that is updated.
    fn stored_next_value<V: View, C: Cpu>(
        view: V,
        cpu: C,
        context: &StepContext,
        stored: &Transition,
        plane: usize,
    ) -> f32 {
        let values = action_values(view, cpu, view.find(stored.next), stored.legal);
        let epsilon = context.epsilon.value(|| row_visits(view, values.row));
        stored.nonterminal * next_value(view, cpu, &context.settings, &values, stored.next_action, epsilon, plane)
    }

    /// Learn from a transition now or with its batch, and from replayed ones.
    #[inline(always)]
    pub fn learn<V: View, C: Cpu>(
        &mut self,
        view: V,
        cpu: C,
        context: &StepContext,
        decision: &PendingDecision,
        next: &NextDecision,
        noise: &StepNoise,
    ) {
        let NextDecision { state, action, epsilon, nonterminal, ref values } = *next;
        let bits = noise.side;
        if context.settings.batch == 1 {
            let plane = plane(context, bits);
            let next_value = nonterminal * next_value(view, cpu, &context.settings, values, action, epsilon, plane);
            let PendingDecision { row, action, reward, .. } = *decision;
            self.update(view, context, TdUpdate { row, action, reward, next_value, plane, bits });
            if context.settings.replay == 0 {
                return;
            }
        }
        let transition = Transition {
            state: decision.state,
            action: decision.action,
            reward: decision.reward,
            next: state,
            legal: values.legal,
            next_action: action,
            nonterminal,
        };
        self.store(view, cpu, context, transition, noise.stream);
    }

    #[cold]
    #[inline(never)]
    fn store<V: View, C: Cpu>(
        &mut self,
        view: V,
        cpu: C,
        context: &StepContext,
        transition: Transition,
        stream: Stream,
    ) {
        if context.settings.batch > 1 {
            self.batch.push(transition);
            if self.batch.len() >= context.settings.batch {
                self.learn_batch(view, cpu, context, stream);
            }
        }
        if context.settings.replay > 0 {
            self.replay.push(transition, context.settings.replay);
            let draws = stream.fold(1);
            for replayed in 0..context.settings.replays as u32 {
                let stored = self.replay.sample(draws.bits(2 * replayed));
                let bits = draws.bits(2 * replayed + 1);
                let row = view.find(stored.state);
                let plane = plane(context, bits);
                let next_value = Self::stored_next_value(view, cpu, context, &stored, plane);
                let Transition { action, reward, .. } = stored;
                self.update(view, context, TdUpdate { row, action, reward, next_value, plane, bits });
            }
        }
    }

    /// Learn from the batch; all targets are computed before any value changes.
    fn learn_batch<V: View, C: Cpu>(&mut self, view: V, cpu: C, context: &StepContext, stream: Stream) {
        let batch = std::mem::take(&mut self.batch);
        let draws = stream.fold(2);
        let mut updates = Vec::with_capacity(batch.len());
        for (i, stored) in batch.iter().enumerate() {
            let bits = draws.bits(i as u32);
            let plane = plane(context, bits);
            let next_value = Self::stored_next_value(view, cpu, context, stored, plane);
            let Transition { state, action, reward, .. } = *stored;
            updates.push(TdUpdate { row: view.find(state), action, reward, next_value, plane, bits });
        }
        updates.into_iter().for_each(|update| self.update(view, context, update));
        self.batch = batch;
        self.batch.clear();
    }

    /// Begin an episode of an external env in `state`; returns the first action.
    pub fn begin<V: View, C: Cpu>(&mut self, view: V, cpu: C, state: u64, legal: u64) -> usize {
        let context = self.context(self.steps);
        let values = action_values(view, cpu, view.find(state), legal);
        Self::choose_from(view, cpu, &context, &values, self.env_stream_at(&context, 0).fold(5))
    }

    /// Learn from a step of an external env; returns the next action.
    pub fn step<V: View, C: Cpu>(
        &mut self,
        view: V,
        cpu: C,
        (state, action): (u64, usize),
        result: &StepResult,
    ) -> usize {
        let context = self.context(self.steps);
        let noise = self.noise::<1>(&context).at(0);
        let decision = PendingDecision { state, row: view.find(state), action, reward: result.reward, active: true };
        let values = action_values(view, cpu, view.find(result.state), result.legal);
        let (action, epsilon) = Self::choose(view, cpu, &context, &values, &noise);
        let nonterminal = if result.terminated { 0.0 } else { 1.0 };
        let next = NextDecision { state: result.state, action, epsilon, nonterminal, values };
        self.learn(view, cpu, &context, &decision, &next, &noise);
        self.steps += 1;
        action
    }

    /// Write the checkpointed state.
    pub fn save(&self, out: &mut Writer) {
        out.u64(self.steps);
        self.replay.save(out);
        let mut batch = ReplayBuffer::default();
        self.batch.iter().for_each(|transition| batch.push(*transition, usize::MAX));
        batch.save(out);
    }

    /// Read the checkpointed state.
    pub fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.steps = from.u64()?;
        self.replay = ReplayBuffer::load(from)?;
        self.batch = ReplayBuffer::load(from)?.into_transitions();
        self.counters = Counters::default();
        Ok(())
    }
}

/// The plane to update: a random one where there are two.
#[inline(always)]
fn plane(context: &StepContext, bits: u32) -> usize {
    (context.settings.algorithm.planes() - 1) & (bits >> 31) as usize
}

#[inline(always)]
fn row_visits<V: View>(view: V, row: usize) -> u32 {
    let table = view.table();
    (0..table.shape.actions).map(|action| table.count(&table.visits, row, action)).fold(0, u32::saturating_add)
}
