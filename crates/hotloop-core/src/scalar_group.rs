//! A group of envs that are stepped one by one, as most envs are.

use std::ops::Range;

use crate::env::{Actions, Env, Frame, Outcome, Rng, Spec, Status};
use crate::envs::{BatchStep, Envs};
use crate::fields::Fields;
use crate::group::{Autoreset, Frames, Group, KeepFinals, Rules};
use crate::group_state::GroupState;
use crate::options::Options;
use crate::rng::Stream;
use crate::space::Observation;

/// A number whose exponent is all ones is infinite or NaN.
const EXPONENT: u32 = 0x7f80_0000;

/// Without an early exit, so that the compiler can vectorise it.
#[inline(always)]
fn all_finite(numbers: impl Iterator<Item = u32>) -> bool {
    numbers.fold(0, |bad, bits| bad | u32::from(bits & EXPONENT == EXPONENT)) == 0
}

/// Rows that are stepped before rewards are summed: few enough for their data to stay in the L1 cache.
const ROWS_AT_ONCE: usize = 256;

fn rows(group_state: &GroupState, env: usize) -> Range<usize> {
    env * group_state.seats..(env + 1) * group_state.seats
}

/// Several envs of one kind, with buffers for the results of the envs that are stepped together.
pub struct ScalarGroup<C> {
    envs: C,
    row_bytes: usize,
    mask_len: usize,
    real: bool,
    at_once: usize,
    /// Not 0 for those of them that wait for a reset.
    waiting: Vec<u32>,
    rngs: Vec<Rng>,
    terms: Vec<f32>,
    metrics: Vec<f32>,
    status: Vec<Status>,
    /// Those of them that failed.
    faulty: Vec<usize>,
    /// Sums over the ticks of a step, if it has several.
    sums: Vec<f32>,
    tick_terminated: Vec<bool>,
}

impl<E: Env> ScalarGroup<Vec<E>> {
    /// `count` instances with the same options.
    pub fn new(spec: &Spec, options: &Options, count: usize) -> Self {
        Self::of(spec, (0..count).map(|_| E::new(options)).collect())
    }
}

impl<C: Envs> ScalarGroup<C> {
    /// These envs.
    pub fn of(spec: &Spec, envs: C) -> Self {
        let at_once = (ROWS_AT_ONCE / spec.seats).max(1);
        let (terms, metrics) = (spec.seats * spec.terms.len(), spec.seats * spec.metrics.len());
        Self {
            envs,
            row_bytes: spec.observation.row_bytes(),
            mask_len: if spec.masked { spec.action.mask_len() } else { 0 },
            real: matches!(spec.observation, Observation::Box { .. }),
            at_once,
            waiting: Vec::with_capacity(at_once),
            rngs: vec![Rng { env: Stream { lo: 0, hi: 0 }, episode: 0, step: 0 }; at_once],
            terms: vec![0.0; at_once * terms],
            metrics: vec![0.0; at_once * metrics],
            status: vec![Status::Running; at_once],
            faulty: Vec::new(),
            sums: vec![0.0; terms],
            tick_terminated: vec![false; spec.seats],
        }
    }

    fn begin(&mut self, group_state: &mut GroupState, env: usize) {
        if group_state.has_pending()
            && let Some(options) = group_state.latch(env)
        {
            self.envs.adopt(env, &options);
        }
        group_state.episode[env] = group_state.episode[env].wrapping_add(1);
        group_state.elapsed[env] = 0;
        group_state.over[env] = 0;
        let rows = rows(group_state, env);
        group_state.term_sums[rows.start * group_state.terms..rows.end * group_state.terms].fill(0.0);
        group_state.returns[rows.clone()].fill(0.0);
        group_state.decisions[rows.clone()].fill(0);
        group_state.played[rows.clone()].fill(false);
        group_state.ended[rows].fill(false);
        self.envs.reset(env, &group_state.rng(env, 0));
    }

    /// Writes observation, mask and `valid` of one env; a finished one has no seat that decides.
    fn look(&mut self, group_state: &mut GroupState, env: usize, obs: &mut [u8]) {
        let rows = rows(group_state, env);
        let mask = &mut group_state.mask[rows.start * self.mask_len..rows.end * self.mask_len];
        let valid = &mut group_state.valid[rows.clone()];
        mask.fill(true);
        valid.fill(true);
        let obs = &mut obs[rows.start * self.row_bytes..rows.end * self.row_bytes];
        let mut frame = Frame { obs, row_bytes: self.row_bytes, valid, mask, mask_len: self.mask_len };
        self.envs.observe(env, &mut frame);
        for row in rows {
            group_state.played[row] |= group_state.valid[row];
            // A row that decides in a running env has not ended, whatever was true before its state was set from outside.
            group_state.ended[row] &= !group_state.valid[row] || group_state.over[env] != 0;
        }
    }

    fn step_all<const SIMPLE: bool>(
        &mut self,
        group_state: &mut GroupState,
        rules: &Rules,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        frames.terminated.fill(false);
        frames.cut.fill(false);
        for first in (0..group_state.envs).step_by(self.at_once) {
            let envs = first..group_state.envs.min(first + self.at_once);
            self.waiting.clear();
            self.waiting.extend_from_slice(&group_state.over[envs.clone()]);
            self.play(group_state, rules, envs.clone(), actions, frames);
            self.settle::<SIMPLE>(group_state, rules, envs.clone(), frames);
            for (i, env) in envs.enumerate() {
                if self.waiting[i] != 0 {
                    self.begin(group_state, env);
                    self.look(group_state, env, frames.obs);
                }
            }
        }
        self.publish(group_state, rules, frames);
    }

    /// Steps and observes some envs, except for those that wait for a reset.
    fn play(
        &mut self,
        group_state: &mut GroupState,
        rules: &Rules,
        envs: Range<usize>,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        let (seats, width) = (group_state.seats, actions.width);
        let rows = envs.start * seats..envs.end * seats;
        let numbers = rows.start * width..rows.end * width;
        let actions = Actions {
            ints: actions.ints.get(numbers.clone()).unwrap_or_default(),
            floats: actions.floats.get(numbers).unwrap_or_default(),
            width,
        };
        for (decisions, valid) in group_state.decisions[rows.clone()].iter_mut().zip(&group_state.valid[rows.clone()]) {
            *decisions += u32::from(*valid);
        }
        self.metrics[..rows.len() * group_state.metrics].fill(0.0);
        self.terms[..rows.len() * group_state.terms].fill(0.0);
        if rules.action_repeat != 1 {
            for (i, env) in envs.enumerate() {
                self.status[i] = Status::Running;
                if self.waiting[i] == 0 {
                    self.ticks(group_state, rules, i, env, &actions, frames);
                    self.look(group_state, env, frames.obs);
                }
            }
            return;
        }
        for (elapsed, waiting) in group_state.elapsed[envs.clone()].iter_mut().zip(&self.waiting) {
            *elapsed += u32::from(*waiting == 0);
        }
        let streams = group_state.stream_lo[envs.clone()].iter().zip(&group_state.stream_hi[envs.clone()]);
        let times = group_state.episode[envs.clone()].iter().zip(&group_state.elapsed[envs.clone()]);
        for (rng, ((lo, hi), (episode, step))) in self.rngs.iter_mut().zip(streams.zip(times)) {
            *rng = Rng { env: Stream { lo: *lo, hi: *hi }, episode: *episode, step: *step };
        }
        let mask = &mut group_state.mask[rows.start * self.mask_len..rows.end * self.mask_len];
        let valid = &mut group_state.valid[rows.clone()];
        mask.fill(true);
        valid.fill(true);
        let mut batch = BatchStep {
            seats,
            terms: group_state.terms,
            metrics: group_state.metrics,
            actions,
            waiting: &self.waiting,
            rngs: &self.rngs,
            outcome: Outcome {
                terms: &mut self.terms,
                terminated: &mut frames.terminated[rows.clone()],
                metrics: &mut self.metrics,
            },
            frame: Frame {
                obs: &mut frames.obs[rows.start * self.row_bytes..rows.end * self.row_bytes],
                row_bytes: self.row_bytes,
                valid,
                mask,
                mask_len: self.mask_len,
            },
            status: &mut self.status,
        };
        self.envs.play(envs, &mut batch);
        let valid = &group_state.valid[rows.clone()];
        group_state.played[rows.clone()].iter_mut().zip(valid).for_each(|(played, valid)| *played |= valid);
        group_state.ended[rows].iter_mut().zip(valid).for_each(|(ended, valid)| *ended &= !valid);
    }

    /// Counts the step of the envs that were stepped last.
    fn settle<const SIMPLE: bool>(
        &mut self,
        group_state: &mut GroupState,
        rules: &Rules,
        envs: Range<usize>,
        frames: &mut Frames<'_>,
    ) {
        self.faulty.clear();
        if self.envs.any_failed() || !self.finite(group_state, envs.clone(), 0, frames.obs) {
            for (i, env) in envs.clone().enumerate() {
                if self.waiting[i] == 0 {
                    self.cut_if_faulty(group_state, i, env, frames);
                }
            }
        }
        let (elapsed, limits) = (&group_state.elapsed[envs.clone()], &group_state.max_steps[envs.clone()]);
        for ((status, waiting), (elapsed, limit)) in
            self.status.iter_mut().zip(&self.waiting).zip(elapsed.iter().zip(limits))
        {
            *status = if elapsed >= limit && *waiting == 0 { Status::TimeUp } else { *status };
        }
        self.count_rewards::<SIMPLE>(group_state, rules, envs.clone(), frames);
        for (i, env) in envs.enumerate() {
            if self.status[i] != Status::Running {
                self.finish(group_state, rules, i, env, frames);
            }
        }
    }

    /// Rewards, returns and truncations. Without branches: the end of an episode is unpredictable.
    #[allow(clippy::needless_bitwise_bool)] // which makes none
    fn count_rewards<const SIMPLE: bool>(
        &mut self,
        group_state: &mut GroupState,
        rules: &Rules,
        envs: Range<usize>,
        frames: &mut Frames<'_>,
    ) {
        let (seats, width) = if SIMPLE { (1, 1) } else { (group_state.seats, group_state.terms) };
        let rows = envs.start * seats..envs.end * seats;
        let count = rows.len();
        let (reward, returns) = (&mut frames.reward[rows.clone()], &mut group_state.returns[rows.clone()]);
        let (terminated, truncated) = (&frames.terminated[rows.clone()], &mut frames.truncated[rows.clone()]);
        let (played, ended) = (&group_state.played[rows.clone()], &mut group_state.ended[rows.clone()]);
        let (terms, weights) = (&self.terms[..count * width], &rules.weights[..width]);
        let (sums, status) =
            (&mut group_state.term_sums[rows.start * width..rows.end * width], &self.status[..envs.len()]);
        for row in 0..count {
            let in_play = played[row] & !ended[row];
            // Not fused: without the CPU's own instruction at hand here, a fused one is a call of a library function.
            let mut total = 0.0;
            for (term, weight) in weights.iter().enumerate() {
                let at = row * width + term;
                total += weight * terms[at];
                sums[at] = if in_play { sums[at] + terms[at] } else { sums[at] };
            }
            reward[row] = total;
            returns[row] = if in_play { returns[row] + total } else { returns[row] };
            truncated[row] = (status[row / seats] == Status::TimeUp) & in_play;
            ended[row] |= in_play & (terminated[row] | truncated[row]);
        }
    }

    /// Whether the outputs of some envs are finite; the first is the `i`-th of those stepped last.
    fn finite(&self, group_state: &GroupState, envs: Range<usize>, i: usize, obs: &[u8]) -> bool {
        let bytes = group_state.seats * self.row_bytes;
        let terms = group_state.seats * group_state.terms;
        let seen = obs[envs.start * bytes..envs.end * bytes].as_chunks::<4>().0;
        let terms = &self.terms[i * terms..(i + envs.len()) * terms];
        all_finite(terms.iter().map(|x| x.to_bits()))
            && (!self.real || all_finite(seen.iter().map(|word| u32::from_ne_bytes(*word))))
    }

    /// If the `i`-th of the envs stepped last failed, discards its outputs and ends its episode.
    fn cut_if_faulty(&mut self, group_state: &mut GroupState, i: usize, env: usize, frames: &mut Frames<'_>) {
        if !self.envs.has_failed(env) && self.finite(group_state, env..env + 1, i, frames.obs) {
            return;
        }
        group_state
            .fault(env, || self.envs.failure(env).unwrap_or_else(|| "the env gave a number that is not finite".into()));
        self.faulty.push(env);
        self.status[i] = Status::TimeUp;
        let rows = rows(group_state, env);
        let terms = group_state.seats * group_state.terms;
        self.terms[i * terms..(i + 1) * terms].fill(0.0);
        frames.terminated[rows.clone()].fill(false);
        frames.obs[rows.start * self.row_bytes..rows.end * self.row_bytes].fill(0);
        group_state.mask[rows.start * self.mask_len..rows.end * self.mask_len].fill(true);
        if !frames.cut.is_empty() {
            frames.cut[rows].fill(true);
        }
    }

    /// Repeats the actions of one env, the `i`-th of those played together; rewards add up.
    fn ticks(
        &mut self,
        group_state: &mut GroupState,
        rules: &Rules,
        i: usize,
        env: usize,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        let part = |width: usize| i * group_state.seats * width..(i + 1) * group_state.seats * width;
        let actions = Actions {
            ints: actions.ints.get(part(actions.width)).unwrap_or_default(),
            floats: actions.floats.get(part(actions.width)).unwrap_or_default(),
            width: actions.width,
        };
        let (terms, metrics) = (&mut self.terms[part(group_state.terms)], &mut self.metrics[part(group_state.metrics)]);
        let terminated = &mut frames.terminated[rows(group_state, env)];
        self.sums.fill(0.0);
        for _ in 0..rules.action_repeat {
            group_state.elapsed[env] += 1;
            let rng = group_state.rng(env, group_state.elapsed[env]);
            terms.fill(0.0);
            self.tick_terminated.fill(false);
            let mut outcome = Outcome { terms, terminated: &mut self.tick_terminated, metrics };
            self.status[i] = self.envs.step(env, &actions, &rng, &mut outcome);
            self.sums.iter_mut().zip(&*terms).for_each(|(sum, term)| *sum += term);
            terminated.iter_mut().zip(&self.tick_terminated).for_each(|(ended, now)| *ended |= now);
            if self.status[i] != Status::Running || group_state.elapsed[env] >= group_state.max_steps[env] {
                break;
            }
        }
        terms.copy_from_slice(&self.sums);
    }

    /// Counts the episode of the `i`-th of the envs stepped last, and starts the next one if it is due.
    fn finish(&mut self, group_state: &mut GroupState, rules: &Rules, i: usize, env: usize, frames: &mut Frames<'_>) {
        let rows = rows(group_state, env);
        let fault = self.faulty.contains(&env);
        for (seat, row) in rows.clone().enumerate() {
            if group_state.played[row] && !fault {
                let first = (i * group_state.seats + seat) * group_state.metrics;
                group_state.log(
                    env,
                    seat,
                    group_state.decisions[row],
                    &self.metrics[first..first + group_state.metrics],
                );
            }
        }
        if rules.autoreset == Autoreset::SameStep {
            for (seat, row) in rows.clone().enumerate() {
                let ended = frames.terminated[row] || frames.truncated[row];
                if frames.truncated[row] || (ended && frames.keep == KeepFinals::Ended) {
                    let finals = &mut *frames.finals;
                    finals.slots.push(frames.slot);
                    finals.rows.push(row as u32);
                    finals.obs.extend_from_slice(&frames.obs[row * self.row_bytes..(row + 1) * self.row_bytes]);
                    finals.mask.extend_from_slice(&group_state.mask[row * self.mask_len..(row + 1) * self.mask_len]);
                    for (index, len) in &rules.infos {
                        let start = finals.infos.len();
                        finals.infos.resize(start + len, 0.0);
                        self.envs.info(env, *index, seat, &mut finals.infos[start..]);
                    }
                }
            }
            self.begin(group_state, env);
            self.look(group_state, env, frames.obs);
        } else {
            group_state.over[env] = 1;
            group_state.valid[rows].fill(false);
        }
    }

    fn publish(&self, group_state: &GroupState, rules: &Rules, frames: &mut Frames<'_>) {
        let rows = group_state.envs * group_state.seats;
        if !frames.valid.is_empty() {
            frames.valid.copy_from_slice(&group_state.valid[..rows]);
        }
        if !frames.mask.is_empty() {
            frames.mask.copy_from_slice(&group_state.mask[..rows * self.mask_len]);
        }
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&group_state.policy[..rows]);
        }
        if !frames.infos.is_empty() {
            let total = frames.infos.len() / rows;
            for row in 0..rows {
                let mut out = &mut frames.infos[row * total..(row + 1) * total];
                for (index, len) in &rules.infos {
                    let (now, rest) = out.split_at_mut(*len);
                    self.envs.info(row / group_state.seats, *index, row % group_state.seats, now);
                    out = rest;
                }
            }
        }
    }
}

impl<C: Envs> Group for ScalarGroup<C> {
    fn step(&mut self, group_state: &mut GroupState, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        // The common case, without loops over a single element.
        if group_state.seats == 1 && group_state.terms == 1 {
            self.step_all::<true>(group_state, rules, actions, frames);
        } else {
            self.step_all::<false>(group_state, rules, actions, frames);
        }
    }

    fn reset(&mut self, group_state: &mut GroupState, _rules: &Rules, which: &[bool]) {
        for env in (0..group_state.envs).filter(|env| which[*env]) {
            self.begin(group_state, env);
        }
    }

    fn observe(&mut self, group_state: &mut GroupState, rules: &Rules, frames: &mut Frames<'_>) {
        for env in 0..group_state.envs {
            self.look(group_state, env, frames.obs);
            if group_state.over[env] != 0 {
                group_state.valid[env * group_state.seats..(env + 1) * group_state.seats].fill(false);
            }
        }
        self.publish(group_state, rules, frames);
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        self.envs.fields(env, fields);
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self.envs.check(env)
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        self.envs.adopt(env, options);
    }
}
