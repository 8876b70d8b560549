//! A group of envs that are stepped one by one: what most envs are.

use std::ops::Range;

use crate::env::{Actions, Env, Frame, Outcome, Rng, Spec, Status};
use crate::envs::{Envs, Turn};
use crate::fields::Fields;
use crate::group::{Autoreset, Frames, Group, Keep, Rules};
use crate::ledger::Ledger;
use crate::options::Options;
use crate::rng::Stream;
use crate::space::Observation;

/// A number whose exponent is all ones is infinite or NaN.
const EXPONENT: u32 = 0x7f80_0000;

/// Without an early exit, so that the compiler makes vectors of it.
#[inline(always)]
fn all_finite(numbers: impl Iterator<Item = u32>) -> bool {
    numbers.fold(0, |bad, bits| bad | u32::from(bits & EXPONENT == EXPONENT)) == 0
}

/// How many rows are played before they are counted: few enough that all about them stays in the nearest cache.
const ROWS_AT_ONCE: usize = 256;

fn rows(ledger: &Ledger, env: usize) -> Range<usize> {
    env * ledger.seats..(env + 1) * ledger.seats
}

/// Several envs of one kind. What a step brings is kept for the envs that are stepped together.
pub struct Each<C> {
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
    /// Of all ticks of a step, where it has several.
    sums: Vec<f32>,
    tick_terminated: Vec<bool>,
}

impl<E: Env> Each<Vec<E>> {
    /// `count` instances with the same options.
    pub fn new(spec: &Spec, options: &Options, count: usize) -> Self {
        Self::of(spec, (0..count).map(|_| E::new(options)).collect())
    }
}

impl<C: Envs> Each<C> {
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

    fn begin(&mut self, ledger: &mut Ledger, env: usize) {
        if ledger.has_pending()
            && let Some(options) = ledger.latch(env)
        {
            self.envs.adopt(env, &options);
        }
        ledger.episode[env] = ledger.episode[env].wrapping_add(1);
        ledger.elapsed[env] = 0;
        ledger.over[env] = 0;
        let rows = rows(ledger, env);
        ledger.term_sums[rows.start * ledger.terms..rows.end * ledger.terms].fill(0.0);
        ledger.returns[rows.clone()].fill(0.0);
        ledger.decisions[rows.clone()].fill(0);
        ledger.played[rows.clone()].fill(false);
        ledger.ended[rows].fill(false);
        self.envs.reset(env, &ledger.rng(env, 0));
    }

    /// Writes observation, mask and `valid` of one env; a finished one has no seat that decides.
    fn look(&mut self, ledger: &mut Ledger, env: usize, obs: &mut [u8]) {
        let rows = rows(ledger, env);
        let mask = &mut ledger.mask[rows.start * self.mask_len..rows.end * self.mask_len];
        let valid = &mut ledger.valid[rows.clone()];
        mask.fill(true);
        valid.fill(true);
        let obs = &mut obs[rows.start * self.row_bytes..rows.end * self.row_bytes];
        let mut frame = Frame { obs, row_bytes: self.row_bytes, valid, mask, mask_len: self.mask_len };
        self.envs.observe(env, &mut frame);
        for row in rows {
            ledger.played[row] |= ledger.valid[row];
            // Who decides in an env that goes on has not ended, whatever was true before its state was set from outside.
            ledger.ended[row] &= !ledger.valid[row] || ledger.over[env] != 0;
        }
    }

    fn step_all<const SIMPLE: bool>(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        frames.terminated.fill(false);
        frames.cut.fill(false);
        for first in (0..ledger.envs).step_by(self.at_once) {
            let envs = first..ledger.envs.min(first + self.at_once);
            self.waiting.clear();
            self.waiting.extend_from_slice(&ledger.over[envs.clone()]);
            self.play(ledger, rules, envs.clone(), actions, frames);
            self.settle::<SIMPLE>(ledger, rules, envs.clone(), frames);
            for (i, env) in envs.enumerate() {
                if self.waiting[i] != 0 {
                    self.begin(ledger, env);
                    self.look(ledger, env, frames.obs);
                }
            }
        }
        self.publish(ledger, rules, frames);
    }

    /// Plays a step of some envs and shows them, except for those that wait for a reset.
    fn play(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        envs: Range<usize>,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        let (seats, width) = (ledger.seats, actions.width);
        let rows = envs.start * seats..envs.end * seats;
        let numbers = rows.start * width..rows.end * width;
        let actions = Actions {
            ints: actions.ints.get(numbers.clone()).unwrap_or_default(),
            floats: actions.floats.get(numbers).unwrap_or_default(),
            width,
        };
        for (decisions, valid) in ledger.decisions[rows.clone()].iter_mut().zip(&ledger.valid[rows.clone()]) {
            *decisions += u32::from(*valid);
        }
        self.metrics[..rows.len() * ledger.metrics].fill(0.0);
        self.terms[..rows.len() * ledger.terms].fill(0.0);
        if rules.action_repeat != 1 {
            for (i, env) in envs.enumerate() {
                self.status[i] = Status::Running;
                if self.waiting[i] == 0 {
                    self.ticks(ledger, rules, i, env, &actions, frames);
                    self.look(ledger, env, frames.obs);
                }
            }
            return;
        }
        for (elapsed, waiting) in ledger.elapsed[envs.clone()].iter_mut().zip(&self.waiting) {
            *elapsed += u32::from(*waiting == 0);
        }
        let streams = ledger.stream_lo[envs.clone()].iter().zip(&ledger.stream_hi[envs.clone()]);
        let times = ledger.episode[envs.clone()].iter().zip(&ledger.elapsed[envs.clone()]);
        for (rng, ((lo, hi), (episode, step))) in self.rngs.iter_mut().zip(streams.zip(times)) {
            *rng = Rng { env: Stream { lo: *lo, hi: *hi }, episode: *episode, step: *step };
        }
        let mask = &mut ledger.mask[rows.start * self.mask_len..rows.end * self.mask_len];
        let valid = &mut ledger.valid[rows.clone()];
        mask.fill(true);
        valid.fill(true);
        let mut turn = Turn {
            seats,
            terms: ledger.terms,
            metrics: ledger.metrics,
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
        self.envs.play(envs, &mut turn);
        let valid = &ledger.valid[rows.clone()];
        ledger.played[rows.clone()].iter_mut().zip(valid).for_each(|(played, valid)| *played |= valid);
        ledger.ended[rows].iter_mut().zip(valid).for_each(|(ended, valid)| *ended &= !valid);
    }

    /// Counts the step of the envs that were played last.
    fn settle<const SIMPLE: bool>(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        envs: Range<usize>,
        frames: &mut Frames<'_>,
    ) {
        self.faulty.clear();
        if self.envs.any_failed() || !self.finite(ledger, envs.clone(), 0, frames.obs) {
            for (i, env) in envs.clone().enumerate() {
                if self.waiting[i] == 0 {
                    self.cut_if_faulty(ledger, i, env, frames);
                }
            }
        }
        let (elapsed, limits) = (&ledger.elapsed[envs.clone()], &ledger.max_steps[envs.clone()]);
        for ((status, waiting), (elapsed, limit)) in
            self.status.iter_mut().zip(&self.waiting).zip(elapsed.iter().zip(limits))
        {
            *status = if elapsed >= limit && *waiting == 0 { Status::TimeUp } else { *status };
        }
        self.count_rewards::<SIMPLE>(ledger, rules, envs.clone(), frames);
        for (i, env) in envs.enumerate() {
            if self.status[i] != Status::Running {
                self.finish(ledger, rules, i, env, frames);
            }
        }
    }

    /// Rewards, returns and truncations. Branches would be in the way: who ends when is a toss-up.
    #[allow(clippy::needless_bitwise_bool)] // which makes none
    fn count_rewards<const SIMPLE: bool>(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        envs: Range<usize>,
        frames: &mut Frames<'_>,
    ) {
        let (seats, width) = if SIMPLE { (1, 1) } else { (ledger.seats, ledger.terms) };
        let rows = envs.start * seats..envs.end * seats;
        let count = rows.len();
        let (reward, returns) = (&mut frames.reward[rows.clone()], &mut ledger.returns[rows.clone()]);
        let (terminated, truncated) = (&frames.terminated[rows.clone()], &mut frames.truncated[rows.clone()]);
        let (played, ended) = (&ledger.played[rows.clone()], &mut ledger.ended[rows.clone()]);
        let (terms, weights) = (&self.terms[..count * width], &rules.weights[..width]);
        let (sums, status) = (&mut ledger.term_sums[rows.start * width..rows.end * width], &self.status[..envs.len()]);
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

    /// Whether what some envs gave, the first of them the `i`-th of those played last, is all finite.
    fn finite(&self, ledger: &Ledger, envs: Range<usize>, i: usize, obs: &[u8]) -> bool {
        let bytes = ledger.seats * self.row_bytes;
        let terms = ledger.seats * ledger.terms;
        let seen = obs[envs.start * bytes..envs.end * bytes].as_chunks::<4>().0;
        let terms = &self.terms[i * terms..(i + envs.len()) * terms];
        all_finite(terms.iter().map(|x| x.to_bits()))
            && (!self.real || all_finite(seen.iter().map(|word| u32::from_ne_bytes(*word))))
    }

    /// If the `i`-th of the envs played last failed, takes back what it gave and ends its episode.
    fn cut_if_faulty(&mut self, ledger: &mut Ledger, i: usize, env: usize, frames: &mut Frames<'_>) {
        if !self.envs.has_failed(env) && self.finite(ledger, env..env + 1, i, frames.obs) {
            return;
        }
        ledger
            .fault(env, || self.envs.failure(env).unwrap_or_else(|| "the env gave a number that is not finite".into()));
        self.faulty.push(env);
        self.status[i] = Status::TimeUp;
        let rows = rows(ledger, env);
        let terms = ledger.seats * ledger.terms;
        self.terms[i * terms..(i + 1) * terms].fill(0.0);
        frames.terminated[rows.clone()].fill(false);
        frames.obs[rows.start * self.row_bytes..rows.end * self.row_bytes].fill(0);
        ledger.mask[rows.start * self.mask_len..rows.end * self.mask_len].fill(true);
        if !frames.cut.is_empty() {
            frames.cut[rows].fill(true);
        }
    }

    /// Repeats the actions of one env, the `i`-th of those played together; rewards add up.
    fn ticks(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        i: usize,
        env: usize,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        let part = |width: usize| i * ledger.seats * width..(i + 1) * ledger.seats * width;
        let actions = Actions {
            ints: actions.ints.get(part(actions.width)).unwrap_or_default(),
            floats: actions.floats.get(part(actions.width)).unwrap_or_default(),
            width: actions.width,
        };
        let (terms, metrics) = (&mut self.terms[part(ledger.terms)], &mut self.metrics[part(ledger.metrics)]);
        let terminated = &mut frames.terminated[rows(ledger, env)];
        self.sums.fill(0.0);
        for _ in 0..rules.action_repeat {
            ledger.elapsed[env] += 1;
            let rng = ledger.rng(env, ledger.elapsed[env]);
            terms.fill(0.0);
            self.tick_terminated.fill(false);
            let mut outcome = Outcome { terms, terminated: &mut self.tick_terminated, metrics };
            self.status[i] = self.envs.step(env, &actions, &rng, &mut outcome);
            self.sums.iter_mut().zip(&*terms).for_each(|(sum, term)| *sum += term);
            terminated.iter_mut().zip(&self.tick_terminated).for_each(|(ended, now)| *ended |= now);
            if self.status[i] != Status::Running || ledger.elapsed[env] >= ledger.max_steps[env] {
                break;
            }
        }
        terms.copy_from_slice(&self.sums);
    }

    /// Counts the episode of the `i`-th of the envs played last, and begins the next if that is due.
    fn finish(&mut self, ledger: &mut Ledger, rules: &Rules, i: usize, env: usize, frames: &mut Frames<'_>) {
        let rows = rows(ledger, env);
        let fault = self.faulty.contains(&env);
        for (seat, row) in rows.clone().enumerate() {
            if ledger.played[row] && !fault {
                let first = (i * ledger.seats + seat) * ledger.metrics;
                ledger.log(env, seat, ledger.decisions[row], &self.metrics[first..first + ledger.metrics]);
            }
        }
        if rules.autoreset == Autoreset::SameStep {
            for (seat, row) in rows.clone().enumerate() {
                let ended = frames.terminated[row] || frames.truncated[row];
                if frames.truncated[row] || (ended && frames.keep == Keep::Ended) {
                    let finals = &mut *frames.finals;
                    finals.slots.push(frames.slot);
                    finals.rows.push(row as u32);
                    finals.obs.extend_from_slice(&frames.obs[row * self.row_bytes..(row + 1) * self.row_bytes]);
                    finals.mask.extend_from_slice(&ledger.mask[row * self.mask_len..(row + 1) * self.mask_len]);
                    for (index, len) in &rules.infos {
                        let start = finals.infos.len();
                        finals.infos.resize(start + len, 0.0);
                        self.envs.info(env, *index, seat, &mut finals.infos[start..]);
                    }
                }
            }
            self.begin(ledger, env);
            self.look(ledger, env, frames.obs);
        } else {
            ledger.over[env] = 1;
            ledger.valid[rows].fill(false);
        }
    }

    fn publish(&self, ledger: &Ledger, rules: &Rules, frames: &mut Frames<'_>) {
        let rows = ledger.envs * ledger.seats;
        if !frames.valid.is_empty() {
            frames.valid.copy_from_slice(&ledger.valid[..rows]);
        }
        if !frames.mask.is_empty() {
            frames.mask.copy_from_slice(&ledger.mask[..rows * self.mask_len]);
        }
        if !frames.policy.is_empty() {
            frames.policy.copy_from_slice(&ledger.policy[..rows]);
        }
        if !frames.infos.is_empty() {
            let total = frames.infos.len() / rows;
            for row in 0..rows {
                let mut out = &mut frames.infos[row * total..(row + 1) * total];
                for (index, len) in &rules.infos {
                    let (now, rest) = out.split_at_mut(*len);
                    self.envs.info(row / ledger.seats, *index, row % ledger.seats, now);
                    out = rest;
                }
            }
        }
    }
}

impl<C: Envs> Group for Each<C> {
    fn step(&mut self, ledger: &mut Ledger, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        // Most envs are like that; knowing it spares the loops over one thing.
        if ledger.seats == 1 && ledger.terms == 1 {
            self.step_all::<true>(ledger, rules, actions, frames);
        } else {
            self.step_all::<false>(ledger, rules, actions, frames);
        }
    }

    fn reset(&mut self, ledger: &mut Ledger, _rules: &Rules, which: &[bool]) {
        for env in (0..ledger.envs).filter(|env| which[*env]) {
            self.begin(ledger, env);
        }
    }

    fn observe(&mut self, ledger: &mut Ledger, rules: &Rules, frames: &mut Frames<'_>) {
        for env in 0..ledger.envs {
            self.look(ledger, env, frames.obs);
            if ledger.over[env] != 0 {
                ledger.valid[env * ledger.seats..(env + 1) * ledger.seats].fill(false);
            }
        }
        self.publish(ledger, rules, frames);
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
