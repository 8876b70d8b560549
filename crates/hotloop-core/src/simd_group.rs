//! A group of envs stepped many at a time: state in columns, one env per vector lane, the same source for every width.
//!
//! For one-seat envs whose state, parameters and observations are a few f32 each. Everything around the physics
//! (time limits, autoreset, statistics, faults) is here, once; an env brings only [`SimdEnv`].

use crate::env::{Actions, Spec};
use crate::fields::Fields;
use crate::group::{Autoreset, Frames, Group, KeepFinals, Rules};
use crate::group_state::GroupState;
use crate::options::Options;
use crate::rng::SimdStream;
use crate::simd::{BLOCK, Floats, Ints, Kernel, Mask, Simd};
use crate::space::{Action, Observation};

/// Definition of success of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// The task does not say.
    Undefined,
    /// When the env terminated it.
    Terminated,
    /// When it reached the time limit.
    TimeLimit,
}

/// The result of a step in every lane.
pub struct SimdStep<S: Simd, const STATE: usize> {
    /// The next state.
    pub state: [S::F; STATE],
    /// The one reward term.
    pub reward: S::F,
    /// Whether the task has ended the episode.
    pub terminated: S::M,
}

/// The physics of one-seat envs with `STATE` state fields, `PARAMS` parameters and `OBS` observed numbers.
/// All methods must be `#[inline(always)]`.
pub trait SimdEnv<const STATE: usize, const PARAMS: usize, const OBS: usize>: Send + 'static {
    /// The state's names.
    const FIELDS: [&'static str; STATE];
    /// Definition of success; if there is one, `success` is the only metric.
    const SUCCESS: Success;
    /// The parameters that the options give.
    fn params(options: &Options) -> [f32; PARAMS];
    /// A first state, from the episode's random numbers.
    fn reset<S: Simd>(simd: S, params: &[S::F; PARAMS], draws: SimdStream<S>) -> [S::F; STATE];
    /// A step; the action is a number, or the index of a choice.
    fn step<S: Simd>(simd: S, params: &[S::F; PARAMS], state: [S::F; STATE], action: S::F) -> SimdStep<S, STATE>;
    /// The observation.
    fn observe<S: Simd>(simd: S, state: &[S::F; STATE]) -> [S::F; OBS];
}

/// Spec of such envs: one seat, one reward term, and `success` for a metric where it is defined.
pub fn spec(observation: Observation, action: Action, success: Success, step_nanoseconds: u32) -> Spec {
    Spec {
        seats: 1,
        observation,
        action,
        masked: false,
        masks_bind: true,
        terms: vec!["reward"],
        metrics: if success == Success::Undefined { vec![] } else { vec!["success"] },
        infos: vec![],
        step_nanoseconds,
        state_version: 1,
    }
}

/// Instances of one vectorised env.
pub struct SimdGroup<E, const STATE: usize, const PARAMS: usize, const OBS: usize> {
    state: [Vec<f32>; STATE],
    params: [Vec<f32>; PARAMS],
    /// The same for all envs, if they are equal: saves cache space.
    common: Option<[f32; PARAMS]>,
    /// Rows that ended in each vector of the current step.
    ended: Vec<Ended>,
    env: std::marker::PhantomData<fn() -> E>,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> SimdGroup<E, STATE, PARAMS, OBS>
where
    E: SimdEnv<STATE, PARAMS, OBS>,
{
    /// `count` instances with the same options.
    pub fn new(options: &Options, count: usize) -> Self {
        let padded = count.next_multiple_of(BLOCK);
        let params = E::params(options);
        Self {
            state: std::array::from_fn(|_| vec![0.0; padded]),
            params: std::array::from_fn(|i| vec![params[i]; padded]),
            common: Some(params),
            ended: vec![Ended::default(); padded],
            env: std::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn load_params<S: Simd>(&self, simd: S, at: usize) -> [S::F; PARAMS] {
        let mut loaded = [simd.f(0.0); PARAMS];
        if let Some(common) = &self.common {
            for (x, value) in loaded.iter_mut().zip(common) {
                *x = simd.f(*value);
            }
            return loaded;
        }
        for (x, column) in loaded.iter_mut().zip(&self.params) {
            // SAFETY: columns are padded to whole blocks and `at` is the start of a vector within one.
            *x = unsafe { simd.load(column.as_ptr().add(at)) };
        }
        loaded
    }

    #[inline(always)]
    fn load_state<S: Simd>(&self, simd: S, at: usize) -> [S::F; STATE] {
        let mut loaded = [simd.f(0.0); STATE];
        for (x, column) in loaded.iter_mut().zip(&self.state) {
            // SAFETY: as above.
            *x = unsafe { simd.load(column.as_ptr().add(at)) };
        }
        loaded
    }

    /// Starts an episode in the lanes of `which`: returns the state with theirs replaced, and updates the group state.
    #[inline(always)]
    fn begin<S: Simd>(
        &mut self,
        simd: S,
        group_state: &mut GroupState,
        at: usize,
        which: S::M,
        mut state: [S::F; STATE],
    ) -> [S::F; STATE] {
        if group_state.has_pending() {
            let bits = which.bits();
            for env in (0..S::LANES).filter(|lane| bits >> lane & 1 != 0).map(|lane| at + lane) {
                if env < group_state.envs
                    && let Some(options) = group_state.latch(env)
                {
                    self.adopt(env, &options);
                }
            }
        }
        let params = self.load_params(simd, at);
        // SAFETY: the group_state's columns are padded to whole blocks.
        let fresh = unsafe {
            let one = simd.u(1).select(which, simd.u(0));
            let episode = simd.load_u32(group_state.episode.as_ptr().add(at)) + one;
            episode.store(group_state.episode.as_mut_ptr().add(at));
            let stream = SimdStream {
                lo: simd.load_u32(group_state.stream_lo.as_ptr().add(at)),
                hi: simd.load_u32(group_state.stream_hi.as_ptr().add(at)),
            };
            // These envs draw nothing at their steps, so the episode's stream is the reset's.
            E::reset(simd, &params, stream.fold(simd, episode))
        };
        for (x, fresh) in state.iter_mut().zip(fresh) {
            *x = fresh.select(which, *x);
        }
        state
    }

    /// Starts an episode in the lanes of `which` and updates the group state for them; returns the whole vector's state.
    #[inline(always)]
    fn renew<S: Simd>(&mut self, simd: S, group_state: &mut GroupState, at: usize, which: S::M) -> [S::F; STATE] {
        let state = self.load_state(simd, at);
        let state = self.begin(simd, group_state, at, which, state);
        let zero = simd.f(0.0);
        // SAFETY: state and group_state columns are padded to whole blocks.
        unsafe {
            for (column, x) in self.state.iter_mut().zip(state) {
                x.store(column.as_mut_ptr().add(at));
            }
            let elapsed = group_state.elapsed.as_mut_ptr().add(at);
            simd.u(0).select(which, simd.load_u32(elapsed)).store(elapsed);
            for sums in [&mut group_state.returns, &mut group_state.term_sums] {
                let sums = sums.as_mut_ptr().add(at);
                zero.select(which, simd.load(sums)).store(sums);
            }
        }
        state
    }

    /// One vector of envs, one step; no branch depends on what happens in it, so that vectors overlap in the CPU.
    #[inline(always)]
    fn step_vector<S: Simd>(
        &mut self,
        simd: S,
        group_state: &mut GroupState,
        rules: &Rules,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
        at: usize,
    ) -> Ended {
        let live_lanes = (group_state.envs - at).min(S::LANES);
        let zero = simd.f(0.0);
        // SAFETY: group_state, state and action columns are padded to whole blocks.
        let (action, waiting, mut elapsed, limit, old_return) = unsafe {
            let action = if actions.floats.is_empty() {
                simd.load_u32(actions.ints.as_ptr().add(at).cast()).i32_to_f32()
            } else {
                simd.load(actions.floats.as_ptr().add(at))
            };
            (
                action,
                simd.load_u32(group_state.over.as_ptr().add(at)).eq(simd.u(1)),
                simd.load_u32(group_state.elapsed.as_ptr().add(at)),
                match group_state.common_max_steps {
                    Some(steps) => simd.u(steps),
                    None => simd.load_u32(group_state.max_steps.as_ptr().add(at)),
                },
                simd.load(group_state.returns.as_ptr().add(at)),
            )
        };
        let params = self.load_params(simd, at);
        let mut state = self.load_state(simd, at);
        let stepped = simd.mask(((1_u64 << live_lanes) - 1) as u32) & !waiting;
        let (mut terminated, mut truncated, mut sound) = (simd.m(false), simd.m(false), simd.m(true));
        let mut term = zero;
        for _ in 0..rules.action_repeat {
            let going = stepped & !(terminated | truncated);
            let next = E::step(simd, &params, state, action);
            // x * 0 is 0 for every finite number, and NaN for the rest.
            let mut sum = next.reward * zero;
            for x in next.state {
                sum = x.fma(zero, sum);
            }
            let fine = sum.eq(zero);
            for (x, next) in state.iter_mut().zip(next.state) {
                *x = next.select(going, *x);
            }
            elapsed = elapsed + simd.u(1).select(going, simd.u(0));
            sound = sound & (fine | !going);
            term = term + next.reward.select(fine & going, zero);
            terminated = terminated | (next.terminated & fine & going);
            truncated = truncated | ((!elapsed.lt_i32(limit) | !fine) & going);
        }
        let term = term.select(sound, zero);
        let ended = terminated | truncated;
        let over = if rules.autoreset == Autoreset::SameStep { simd.m(false) } else { ended };
        let reward = simd.f(rules.weights[0]) * term;
        let mut shown = E::observe(simd, &state);
        for x in &mut shown {
            *x = x.select(sound, zero);
        }
        // SAFETY: state and group_state as above.
        unsafe {
            for (column, x) in self.state.iter_mut().zip(state) {
                x.store(column.as_mut_ptr().add(at));
            }
            elapsed.store(group_state.elapsed.as_mut_ptr().add(at));
            (old_return + reward).store(group_state.returns.as_mut_ptr().add(at));
            if !group_state.one_sum {
                let sums = group_state.term_sums.as_mut_ptr().add(at);
                (simd.load(sums) + term).store(sums);
            }
            simd.u(1).select(over, simd.u(0)).store(group_state.over.as_mut_ptr().add(at));
        }
        show::<S, OBS>(simd, frames.obs, at, live_lanes, &shown);
        let mut rewards = [0.0; BLOCK];
        if live_lanes == S::LANES {
            // SAFETY: the frames have a row for every lane of the vector.
            unsafe { reward.store(frames.reward.as_mut_ptr().add(at)) };
        } else {
            // SAFETY: a vector has at most BLOCK lanes.
            unsafe { reward.store(rewards.as_mut_ptr()) };
            frames.reward[at..].copy_from_slice(&rewards[..live_lanes]);
        }
        let cut = !sound & stepped;
        store_flags(terminated, frames.terminated, at, S::LANES);
        store_flags(truncated, frames.truncated, at, S::LANES);
        store_flags(cut, frames.cut, at, S::LANES);
        store_flags(!over, frames.valid, at, S::LANES);
        Ended { any: ended.bits(), terminated: terminated.bits(), truncated: truncated.bits(), faulty: cut.bits() }
    }

    /// Counts the episodes that ended in a vector, and starts new ones where that happens in the same step.
    #[inline(always)]
    fn finish<S: Simd>(
        &mut self,
        simd: S,
        group_state: &mut GroupState,
        rules: &Rules,
        frames: &mut Frames<'_>,
        at: usize,
        ended: Ended,
    ) {
        let same_step = rules.autoreset == Autoreset::SameStep;
        let mut left = ended.any;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            let (env, has) = (at + lane, |bits: u32| bits >> lane & 1 != 0);
            if has(ended.faulty) {
                group_state.fault(env, || "the env's state is not finite".into());
            } else {
                let success = match E::SUCCESS {
                    Success::Undefined => None,
                    Success::Terminated => Some(has(ended.terminated)),
                    Success::TimeLimit => Some(!has(ended.terminated)),
                };
                let metrics = success.map(|yes| f32::from(u8::from(yes)));
                group_state.log(env, 0, group_state.elapsed[env].div_ceil(rules.action_repeat), metrics.as_slice());
            }
            if same_step && (frames.keep == KeepFinals::Ended || has(ended.truncated)) {
                frames.finals.slots.push(frames.slot);
                frames.finals.rows.push(env as u32);
                frames.finals.obs.extend_from_slice(&frames.obs[env * OBS * 4..(env + 1) * OBS * 4]);
            }
        }
        if same_step {
            let state = self.renew(simd, group_state, at, simd.mask(ended.any));
            let shown = E::observe(simd, &state);
            show::<S, OBS>(simd, frames.obs, at, (group_state.envs - at).min(S::LANES), &shown);
        }
    }
}

/// Rows that ended in a vector of envs, a bit per lane.
#[derive(Clone, Copy, Default)]
struct Ended {
    any: u32,
    terminated: u32,
    truncated: u32,
    faulty: u32,
}

/// Writes the observations of a vector of envs, without those of padding lanes.
#[inline(always)]
fn show<S: Simd, const OBS: usize>(simd: S, obs: &mut [u8], at: usize, live_lanes: usize, shown: &[S::F; OBS]) {
    assert!(obs.len() >= (at + live_lanes) * OBS * 4);
    // SAFETY: there is room for the rows that are there, and the rows of a whole block for a vector.
    unsafe {
        let to = obs.as_mut_ptr().cast::<f32>().add(at * OBS);
        if live_lanes == S::LANES {
            simd.store_rows(shown, to);
        } else {
            let mut rows = [[0.0_f32; OBS]; BLOCK];
            simd.store_rows(shown, rows.as_mut_ptr().cast());
            std::ptr::copy_nonoverlapping(rows.as_ptr().cast(), to, live_lanes * OBS);
        }
    }
}

/// Writes a flag per env, if the caller requested them.
#[inline(always)]
fn store_flags<M: Mask>(mask: M, out: &mut [bool], at: usize, lanes: usize) {
    if out.len() >= at + lanes {
        // SAFETY: there is room for the whole vector.
        unsafe { mask.store_bools(out.as_mut_ptr().add(at)) };
    } else if !out.is_empty() {
        let bits = mask.bits();
        out[at..].iter_mut().enumerate().for_each(|(lane, x)| *x = bits >> lane & 1 != 0);
    }
}

struct Step<'a, 'b, 'c, G> {
    group: &'a mut G,
    group_state: &'a mut GroupState,
    rules: &'a Rules,
    actions: &'a Actions<'b>,
    frames: &'a mut Frames<'c>,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel
    for Step<'_, '_, '_, SimdGroup<E, STATE, PARAMS, OBS>>
where
    E: SimdEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    /// Resets, steps and ends of episodes each have a pass of their own: which lanes reset is unpredictable, and a
    /// mispredicted branch in the middle of the physics would stall it.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { group, group_state, rules, actions, frames } = self;
        if rules.autoreset == Autoreset::NextStep {
            for at in (0..group_state.envs).step_by(S::LANES) {
                // SAFETY: the group_state's columns are padded to whole blocks.
                let waiting = unsafe { simd.load_u32(group_state.over.as_ptr().add(at)) }.eq(simd.u(1));
                if waiting.any() {
                    group.renew(simd, group_state, at, waiting);
                }
            }
        }
        let mut some = std::mem::take(&mut group.ended);
        for (at, ended) in (0..group_state.envs).step_by(S::LANES).zip(&mut some) {
            *ended = group.step_vector(simd, group_state, rules, actions, frames, at);
        }
        for (at, ended) in (0..group_state.envs).step_by(S::LANES).zip(&some) {
            if ended.any != 0 {
                group.finish(simd, group_state, rules, frames, at, *ended);
            }
        }
        group.ended = some;
    }
}

struct Reset<'a, G> {
    group: &'a mut G,
    group_state: &'a mut GroupState,
    which: &'a [bool],
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel
    for Reset<'_, SimdGroup<E, STATE, PARAMS, OBS>>
where
    E: SimdEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for at in (0..self.group_state.envs).step_by(S::LANES) {
            let lanes = self.which[at..].iter().take(S::LANES).enumerate();
            let bits = lanes.fold(0, |bits, (lane, yes)| bits | u32::from(*yes) << lane);
            self.group.renew(simd, self.group_state, at, simd.mask(bits));
        }
        for (env, _) in self.which.iter().enumerate().filter(|(_, yes)| **yes) {
            self.group_state.over[env] = 0;
            self.group_state.valid[env] = true;
        }
    }
}

struct Observe<'a, 'b, G> {
    group: &'a G,
    frames: &'a mut Frames<'b>,
    envs: usize,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel
    for Observe<'_, '_, SimdGroup<E, STATE, PARAMS, OBS>>
where
    E: SimdEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for at in (0..self.envs).step_by(S::LANES) {
            let shown = E::observe(simd, &self.group.load_state(simd, at));
            show::<S, OBS>(simd, self.frames.obs, at, (self.envs - at).min(S::LANES), &shown);
        }
    }
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Group for SimdGroup<E, STATE, PARAMS, OBS>
where
    E: SimdEnv<STATE, PARAMS, OBS>,
{
    fn step(&mut self, group_state: &mut GroupState, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        assert!(frames.obs.len() == group_state.envs * OBS * 4 && frames.reward.len() == group_state.envs);
        assert!(frames.terminated.len() == group_state.envs && frames.truncated.len() == group_state.envs);
        assert!(frames.cut.is_empty() || frames.cut.len() == group_state.envs);
        assert!(frames.valid.is_empty() || frames.valid.len() == group_state.envs);
        assert!(actions.ints.len().max(actions.floats.len()) >= group_state.envs.next_multiple_of(BLOCK));
        rules.isa.run(Step { group: self, group_state, rules, actions, frames });
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&group_state.policy[..group_state.envs]);
        }
    }

    fn reset(&mut self, group_state: &mut GroupState, rules: &Rules, which: &[bool]) {
        assert_eq!(which.len(), group_state.envs);
        // Nothing is summed yet where all start a new episode.
        group_state.one_sum |= rules.weights == [1.0] && which.iter().all(|begins| *begins);
        rules.isa.run(Reset { group: self, group_state, which });
    }

    fn observe(&mut self, group_state: &mut GroupState, rules: &Rules, frames: &mut Frames<'_>) {
        assert_eq!(frames.obs.len(), group_state.envs * OBS * 4);
        rules.isa.run(Observe { group: self, frames, envs: group_state.envs });
        if !frames.valid.is_empty() {
            frames.valid.iter_mut().zip(&group_state.over).for_each(|(valid, over)| *valid = *over == 0);
        }
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&group_state.policy[..group_state.envs]);
        }
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        for (name, column) in E::FIELDS.into_iter().zip(&mut self.state) {
            fields.f32(name, &mut column[env]);
        }
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        for (name, column) in E::FIELDS.into_iter().zip(&self.state) {
            if !column[env].is_finite() {
                return Err(format!("{name} is {}", column[env]));
            }
        }
        Ok(())
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        let params = E::params(options);
        self.common = self.common.filter(|common| *common == params);
        for (column, value) in self.params.iter_mut().zip(params) {
            column[env] = value;
        }
    }
}
