//! A group of envs stepped many at a time: state in columns, one env per vector lane, the same source for every width.
//!
//! For one-seat envs whose state, parameters and observations are a few f32 each. Everything around the physics
//! (time limits, autoreset, statistics, faults) is here, once; an env brings only [`LaneEnv`].

use crate::env::Actions;
use crate::fields::Fields;
use crate::group::{Autoreset, Frames, Group, Keep, Rules};
use crate::ledger::Ledger;
use crate::options::Options;
use crate::rng::LaneStream;
use crate::simd::{BLOCK, Floats, Ints, Kernel, Mask, Simd};

/// How an episode counts as a success.
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
pub struct LaneStep<S: Simd, const STATE: usize> {
    /// The next state.
    pub state: [S::F; STATE],
    /// The one reward term.
    pub reward: S::F,
    /// Whether the task has ended the episode.
    pub terminated: S::M,
}

/// The physics of one-seat envs with `STATE` state fields, `PARAMS` parameters and `OBS` observed numbers.
/// All methods must be `#[inline(always)]`.
pub trait LaneEnv<const STATE: usize, const PARAMS: usize, const OBS: usize>: Send + 'static {
    /// The state's names.
    const FIELDS: [&'static str; STATE];
    /// How an episode counts as a success; if defined, `success` is the only metric.
    const SUCCESS: Success;
    /// The parameters that the options give.
    fn params(options: &Options) -> [f32; PARAMS];
    /// A first state, from the episode's random numbers.
    fn reset<S: Simd>(simd: S, params: &[S::F; PARAMS], draws: LaneStream<S>) -> [S::F; STATE];
    /// A step; the action is the amount, or the number of the choice.
    fn step<S: Simd>(simd: S, params: &[S::F; PARAMS], state: [S::F; STATE], action: S::F) -> LaneStep<S, STATE>;
    /// What the env shows.
    fn observe<S: Simd>(simd: S, state: &[S::F; STATE]) -> [S::F; OBS];
}

/// Instances of one vectorised env.
pub struct Lanes<E, const STATE: usize, const PARAMS: usize, const OBS: usize> {
    state: [Vec<f32>; STATE],
    params: [Vec<f32>; PARAMS],
    env: std::marker::PhantomData<fn() -> E>,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Lanes<E, STATE, PARAMS, OBS>
where
    E: LaneEnv<STATE, PARAMS, OBS>,
{
    /// `count` instances with the same options.
    pub fn new(options: &Options, count: usize) -> Self {
        let padded = count.next_multiple_of(BLOCK);
        let params = E::params(options);
        Self {
            state: std::array::from_fn(|_| vec![0.0; padded]),
            params: std::array::from_fn(|i| vec![params[i]; padded]),
            env: std::marker::PhantomData,
        }
    }

    #[inline(always)]
    fn load_params<S: Simd>(&self, simd: S, at: usize) -> [S::F; PARAMS] {
        let mut loaded = [simd.f(0.0); PARAMS];
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

    /// Starts an episode in the lanes of `which`: gives the state with theirs replaced, and renews the ledger.
    #[inline(always)]
    fn begin<S: Simd>(
        &mut self,
        simd: S,
        ledger: &mut Ledger,
        at: usize,
        which: S::M,
        mut state: [S::F; STATE],
    ) -> [S::F; STATE] {
        if ledger.has_pending() {
            let bits = which.bits();
            for env in (0..S::LANES).filter(|lane| bits >> lane & 1 != 0).map(|lane| at + lane) {
                if env < ledger.envs
                    && let Some(options) = ledger.latch(env)
                {
                    self.adopt(env, &options);
                }
            }
        }
        let params = self.load_params(simd, at);
        // SAFETY: the ledger's columns are padded to whole blocks.
        let fresh = unsafe {
            let one = simd.u(1).select(which, simd.u(0));
            let episode = simd.load_u32(ledger.episode.as_ptr().add(at)) + one;
            episode.store(ledger.episode.as_mut_ptr().add(at));
            let stream = LaneStream {
                lo: simd.load_u32(ledger.stream_lo.as_ptr().add(at)),
                hi: simd.load_u32(ledger.stream_hi.as_ptr().add(at)),
            };
            // These envs draw nothing at their steps, so the episode's stream is the reset's.
            E::reset(simd, &params, stream.fold(simd, episode))
        };
        for (x, fresh) in state.iter_mut().zip(fresh) {
            *x = fresh.select(which, *x);
        }
        state
    }

    /// Counts the episodes that ended in the lanes of `ended`.
    #[cold]
    #[inline(never)]
    fn log(ledger: &mut Ledger, at: usize, ended: u32, terminated: u32, faulty: u32, repeat: u32) {
        let mut left = ended;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            let env = at + lane;
            if faulty >> lane & 1 != 0 {
                ledger.fault(env, || "the env's state is not finite".into());
                continue;
            }
            let success = match E::SUCCESS {
                Success::Undefined => None,
                Success::Terminated => Some(terminated >> lane & 1 != 0),
                Success::TimeLimit => Some(terminated >> lane & 1 == 0),
            };
            let metrics = success.map(|yes| f32::from(u8::from(yes)));
            ledger.log(env, 0, ledger.elapsed[env].div_ceil(repeat), metrics.as_slice());
        }
    }

    /// One vector of envs, one step.
    #[inline(always)]
    #[allow(clippy::too_many_lines)] // one pass over the registers; cutting it up would spill them
    fn step_vector<S: Simd>(
        &mut self,
        simd: S,
        ledger: &mut Ledger,
        rules: &Rules,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
        at: usize,
    ) {
        let live_lanes = (ledger.envs - at).min(S::LANES);
        let whole = live_lanes == S::LANES;
        let live = simd.mask(((1u64 << live_lanes) - 1) as u32);
        let zero = simd.f(0.0);
        // SAFETY: ledger, state and action columns are padded to whole blocks.
        let (action, waiting, elapsed, limit, old_return, old_sum) = unsafe {
            let action = if actions.floats.is_empty() {
                simd.load_u32(actions.ints.as_ptr().add(at).cast()).i32_to_f32()
            } else {
                simd.load(actions.floats.as_ptr().add(at))
            };
            (
                action,
                simd.load_u32(ledger.over.as_ptr().add(at)).eq(simd.u(1)),
                simd.load_u32(ledger.elapsed.as_ptr().add(at)),
                simd.load_u32(ledger.max_steps.as_ptr().add(at)),
                simd.load(ledger.returns.as_ptr().add(at)),
                simd.load(ledger.term_sums.as_ptr().add(at)),
            )
        };
        let params = self.load_params(simd, at);
        let state = self.load_state(simd, at);
        let stepped = live & !waiting;
        let mut state = state;
        let mut term = zero;
        let mut terminated = simd.m(false);
        let mut truncated = simd.m(false);
        let mut sound = simd.m(true);
        let mut elapsed = elapsed;
        for tick in 0..rules.action_repeat {
            let next = E::step(simd, &params, state, action);
            // x * 0 is 0 for every finite number, and NaN for the rest.
            let mut sum = next.reward * zero;
            for x in next.state {
                sum = x.fma(zero, sum);
            }
            let going = stepped & !(terminated | truncated);
            let fine = sum.eq(zero);
            if tick == 0 {
                state = next.state;
                elapsed = elapsed + simd.u(1);
            } else {
                for (x, next) in state.iter_mut().zip(next.state) {
                    *x = next.select(going, *x);
                }
                elapsed = elapsed + simd.u(1).select(going, simd.u(0));
            }
            sound = sound & (fine | !going);
            term = term + next.reward.select(fine & going, zero);
            terminated = terminated | (next.terminated & fine & going);
            truncated = truncated | ((!elapsed.lt_i32(limit) | !fine) & going);
            if rules.action_repeat > 1 && !(stepped & !(terminated | truncated)).any() {
                break;
            }
        }
        let term = term.select(sound, zero);
        let ended = terminated | truncated;
        let reward = simd.f(rules.weights[0]) * term;
        let total = old_return + reward;
        let term_sum = old_sum + term;
        let mut shown = E::observe(simd, &state);
        // SAFETY: as above.
        unsafe {
            elapsed.store(ledger.elapsed.as_mut_ptr().add(at));
            total.store(ledger.returns.as_mut_ptr().add(at));
            term_sum.store(ledger.term_sums.as_mut_ptr().add(at));
        }
        if ended.any() {
            let faulty = (!sound & stepped).bits();
            Self::log(ledger, at, ended.bits(), terminated.bits(), faulty, rules.action_repeat);
            if faulty != 0 {
                for x in &mut shown {
                    *x = x.select(sound, zero);
                }
            }
        }
        let begins = match rules.autoreset {
            Autoreset::NextStep => waiting & live,
            Autoreset::SameStep => ended,
            Autoreset::Disabled => simd.m(false),
        };
        if begins.any() {
            if rules.autoreset == Autoreset::SameStep {
                let kept = if frames.keep == Keep::Ended { ended } else { truncated };
                if kept.any() {
                    keep_finals::<S, OBS>(frames, at, kept.bits(), &shown);
                }
            }
            state = self.begin(simd, ledger, at, begins, state);
            shown = E::observe(simd, &state);
            // SAFETY: as above.
            unsafe {
                simd.u(0).select(begins, elapsed).store(ledger.elapsed.as_mut_ptr().add(at));
                zero.select(begins, total).store(ledger.returns.as_mut_ptr().add(at));
                zero.select(begins, term_sum).store(ledger.term_sums.as_mut_ptr().add(at));
            }
        }
        let over = if rules.autoreset == Autoreset::SameStep { simd.m(false) } else { ended };
        // SAFETY: state and ledger as above; the frames have room for `envs` rows, and whole vectors are written only
        // where all their lanes are rows.
        unsafe {
            for (column, x) in self.state.iter_mut().zip(state) {
                x.store(column.as_mut_ptr().add(at));
            }
            simd.u(1).select(over, simd.u(0)).store(ledger.over.as_mut_ptr().add(at));
            let obs = frames.obs.as_mut_ptr().cast::<f32>().add(at * OBS);
            if whole {
                simd.store_rows(&shown, obs);
                reward.store(frames.reward.as_mut_ptr().add(at));
                terminated.store_bools(frames.terminated.as_mut_ptr().add(at));
                truncated.store_bools(frames.truncated.as_mut_ptr().add(at));
                if !frames.cut.is_empty() {
                    (!sound & stepped).store_bools(frames.cut.as_mut_ptr().add(at));
                }
                if !frames.valid.is_empty() {
                    (!over).store_bools(frames.valid.as_mut_ptr().add(at));
                }
            } else {
                let mut rows = [[0.0_f32; OBS]; BLOCK];
                simd.store_rows(&shown, rows.as_mut_ptr().cast());
                std::ptr::copy_nonoverlapping(rows.as_ptr().cast(), obs, live_lanes * OBS);
                let mut rewards = [0.0_f32; BLOCK];
                reward.store(rewards.as_mut_ptr());
                frames.reward[at..].copy_from_slice(&rewards[..live_lanes]);
                spread(terminated.bits(), &mut frames.terminated[at..]);
                spread(truncated.bits(), &mut frames.truncated[at..]);
                if !frames.cut.is_empty() {
                    spread((!sound & stepped).bits(), &mut frames.cut[at..]);
                }
                if !frames.valid.is_empty() {
                    spread((!over).bits(), &mut frames.valid[at..]);
                }
            }
        }
    }
}

fn spread(bits: u32, out: &mut [bool]) {
    out.iter_mut().enumerate().for_each(|(lane, x)| *x = bits >> lane & 1 != 0);
}

#[cold]
#[inline(never)]
fn keep_finals<S: Simd, const OBS: usize>(frames: &mut Frames<'_>, at: usize, kept: u32, shown: &[S::F; OBS]) {
    let mut columns = [[0.0_f32; BLOCK]; OBS];
    for (column, x) in columns.iter_mut().zip(shown) {
        // SAFETY: a vector has at most BLOCK lanes.
        unsafe { x.store(column.as_mut_ptr()) };
    }
    for lane in (0..S::LANES).filter(|lane| kept >> lane & 1 != 0) {
        frames.finals.slots.push(frames.slot);
        frames.finals.rows.push((at + lane) as u32);
        for column in &columns {
            frames.finals.obs.extend_from_slice(&column[lane].to_ne_bytes());
        }
    }
}

struct Step<'a, 'b, 'c, G> {
    group: &'a mut G,
    ledger: &'a mut Ledger,
    rules: &'a Rules,
    actions: &'a Actions<'b>,
    frames: &'a mut Frames<'c>,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel
    for Step<'_, '_, '_, Lanes<E, STATE, PARAMS, OBS>>
where
    E: LaneEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for at in (0..self.ledger.envs).step_by(S::LANES) {
            self.group.step_vector(simd, self.ledger, self.rules, self.actions, self.frames, at);
        }
    }
}

struct Reset<'a, G> {
    group: &'a mut G,
    ledger: &'a mut Ledger,
    which: &'a [bool],
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel for Reset<'_, Lanes<E, STATE, PARAMS, OBS>>
where
    E: LaneEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for at in (0..self.ledger.envs).step_by(S::LANES) {
            let lanes = self.which[at..].iter().take(S::LANES).enumerate();
            let bits = lanes.fold(0, |bits, (lane, yes)| bits | u32::from(*yes) << lane);
            let state = self.group.load_state(simd, at);
            let state = self.group.begin(simd, self.ledger, at, simd.mask(bits), state);
            for (column, x) in self.group.state.iter_mut().zip(state) {
                // SAFETY: columns are padded to whole blocks.
                unsafe { x.store(column.as_mut_ptr().add(at)) };
            }
        }
        for (env, _) in self.which.iter().enumerate().filter(|(_, yes)| **yes) {
            self.ledger.elapsed[env] = 0;
            self.ledger.over[env] = 0;
            self.ledger.valid[env] = true;
            self.ledger.returns[env] = 0.0;
            self.ledger.term_sums[env] = 0.0;
        }
    }
}

struct Observe<'a, 'b, G> {
    group: &'a G,
    frames: &'a mut Frames<'b>,
    envs: usize,
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Kernel
    for Observe<'_, '_, Lanes<E, STATE, PARAMS, OBS>>
where
    E: LaneEnv<STATE, PARAMS, OBS>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for at in (0..self.envs).step_by(S::LANES) {
            let shown = E::observe(simd, &self.group.load_state(simd, at));
            let mut rows = [[0.0_f32; OBS]; BLOCK];
            let live = (self.envs - at).min(S::LANES);
            // SAFETY: a vector has at most BLOCK lanes, and the frame has room for `live` rows at `at`.
            unsafe {
                simd.store_rows(&shown, rows.as_mut_ptr().cast());
                let obs = self.frames.obs.as_mut_ptr().cast::<f32>().add(at * OBS);
                std::ptr::copy_nonoverlapping(rows.as_ptr().cast(), obs, live * OBS);
            }
        }
    }
}

impl<E, const STATE: usize, const PARAMS: usize, const OBS: usize> Group for Lanes<E, STATE, PARAMS, OBS>
where
    E: LaneEnv<STATE, PARAMS, OBS>,
{
    fn step(&mut self, ledger: &mut Ledger, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        assert!(frames.obs.len() == ledger.envs * OBS * 4 && frames.reward.len() == ledger.envs);
        assert!(frames.terminated.len() == ledger.envs && frames.truncated.len() == ledger.envs);
        assert!(frames.cut.is_empty() || frames.cut.len() == ledger.envs);
        assert!(frames.valid.is_empty() || frames.valid.len() == ledger.envs);
        assert!(actions.ints.len().max(actions.floats.len()) >= ledger.envs.next_multiple_of(BLOCK));
        rules.isa.run(Step { group: self, ledger, rules, actions, frames });
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&ledger.policy[..ledger.envs]);
        }
    }

    fn reset(&mut self, ledger: &mut Ledger, rules: &Rules, which: &[bool]) {
        assert_eq!(which.len(), ledger.envs);
        rules.isa.run(Reset { group: self, ledger, which });
    }

    fn observe(&mut self, ledger: &mut Ledger, rules: &Rules, frames: &mut Frames<'_>) {
        assert_eq!(frames.obs.len(), ledger.envs * OBS * 4);
        rules.isa.run(Observe { group: self, frames, envs: ledger.envs });
        if !frames.valid.is_empty() {
            frames.valid.iter_mut().zip(&ledger.over).for_each(|(valid, over)| *valid = *over == 0);
        }
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&ledger.policy[..ledger.envs]);
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
        for (column, value) in self.params.iter_mut().zip(E::params(options)) {
            column[env] = value;
        }
    }
}
