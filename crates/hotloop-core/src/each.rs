//! A group of envs that are stepped one by one: what most envs are.

use crate::env::{Actions, Env, Frame, Outcome, Spec, Status};
use crate::fields::Fields;
use crate::group::{Autoreset, Frames, Group, Keep, Rules};
use crate::ledger::Ledger;
use crate::options::Options;
use crate::space::Observation;

/// A number whose exponent is all ones is infinite or NaN.
const EXPONENT: u32 = 0x7f80_0000;

/// Sets a few numbers to 0: one of them, as most envs have it, without the call that a fill makes.
#[inline(always)]
fn clear(numbers: &mut [f32]) {
    match numbers {
        [] => {}
        [one] => *one = 0.0,
        several => several.fill(0.0),
    }
}

/// The rows of an env. That there is one, where it is known, spares the loops over it.
#[inline(always)]
fn rows<const ALONE: bool>(ledger: &Ledger, env: usize) -> std::ops::Range<usize> {
    if ALONE { env..env + 1 } else { env * ledger.seats..(env + 1) * ledger.seats }
}

/// Instances of one env.
pub struct Each<E> {
    envs: Vec<E>,
    row_bytes: usize,
    mask_len: usize,
    real: bool,
    terms: Vec<f32>,
    /// Of all ticks of a step, where it has several.
    sums: Vec<f32>,
    tick_terminated: Vec<bool>,
    metrics: Vec<f32>,
}

impl<E: Env> Each<E> {
    /// `count` instances with the same options.
    pub fn new(spec: &Spec, options: &Options, count: usize) -> Self {
        Self::of(spec, (0..count).map(|_| E::new(options)).collect())
    }

    /// These instances.
    pub fn of(spec: &Spec, envs: Vec<E>) -> Self {
        Self {
            envs,
            row_bytes: spec.observation.row_bytes(),
            mask_len: if spec.masked { spec.action.mask_len() } else { 0 },
            real: matches!(spec.observation, Observation::Box { .. }),
            terms: vec![0.0; spec.seats * spec.terms.len()],
            sums: vec![0.0; spec.seats * spec.terms.len()],
            tick_terminated: vec![false; spec.seats],
            metrics: vec![0.0; spec.seats * spec.metrics.len()],
        }
    }

    fn begin(&mut self, ledger: &mut Ledger, env: usize) {
        if ledger.has_pending()
            && let Some(options) = ledger.latch(env)
        {
            self.envs[env].adopt(&options);
        }
        ledger.episode[env] = ledger.episode[env].wrapping_add(1);
        ledger.elapsed[env] = 0;
        ledger.over[env] = 0;
        let rows = env * ledger.seats..(env + 1) * ledger.seats;
        ledger.term_sums[rows.start * ledger.terms..rows.end * ledger.terms].fill(0.0);
        ledger.returns[rows.clone()].fill(0.0);
        ledger.decisions[rows.clone()].fill(0);
        ledger.played[rows.clone()].fill(false);
        ledger.ended[rows].fill(false);
        self.envs[env].reset(&ledger.rng(env, 0));
    }

    /// Writes observation, mask and `valid` of one env; a finished one has no seat that decides.
    #[inline(always)]
    fn look<const ALONE: bool>(&mut self, ledger: &mut Ledger, env: usize, obs: &mut [u8]) {
        let rows = rows::<ALONE>(ledger, env);
        let mask = &mut ledger.mask[rows.start * self.mask_len..rows.end * self.mask_len];
        let valid = &mut ledger.valid[rows.clone()];
        if self.mask_len > 0 {
            mask.fill(true);
        }
        match &mut *valid {
            [one] => *one = true,
            several => several.fill(true),
        }
        let obs = &mut obs[rows.start * self.row_bytes..rows.end * self.row_bytes];
        let mut frame = Frame { obs, row_bytes: self.row_bytes, valid, mask, mask_len: self.mask_len };
        self.envs[env].observe(&mut frame);
        for row in rows {
            ledger.played[row] |= ledger.valid[row];
            // Who decides in an env that goes on has not ended, whatever was true before its state was set from outside.
            ledger.ended[row] &= !ledger.valid[row] || ledger.over[env] != 0;
        }
    }

    #[inline(always)]
    fn finite<const ALONE: bool>(&self, ledger: &Ledger, env: usize, obs: &[u8]) -> bool {
        let rows = rows::<ALONE>(ledger, env);
        let rows = rows.start * self.row_bytes..rows.end * self.row_bytes;
        // Without an early exit the compiler makes vectors of this.
        let real = |bytes: &[u8]| {
            let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
            words.fold(0, |bad, word| bad | u32::from(word & EXPONENT == EXPONENT)) == 0
        };
        self.terms.iter().all(|x| x.is_finite()) && (!self.real || real(&obs[rows]))
    }

    fn step_all<const ALONE: bool>(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        frames.terminated.fill(false);
        frames.cut.fill(false);
        for env in 0..ledger.envs {
            if ledger.over[env] != 0 {
                let rows = env * ledger.seats..(env + 1) * ledger.seats;
                self.begin(ledger, env);
                self.look::<false>(ledger, env, frames.obs);
                frames.reward[rows.clone()].fill(0.0);
                frames.truncated[rows].fill(false);
            } else {
                self.step_one::<ALONE>(ledger, rules, env, actions, frames);
            }
        }
        self.publish(ledger, rules, frames);
    }

    fn step_one<const ALONE: bool>(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        env: usize,
        actions: &Actions<'_>,
        frames: &mut Frames<'_>,
    ) {
        let rows = rows::<ALONE>(ledger, env);
        clear(&mut self.metrics);
        let width = actions.width;
        let numbers = rows.start * width..rows.end * width;
        let mine = Actions {
            ints: actions.ints.get(numbers.clone()).unwrap_or_default(),
            floats: actions.floats.get(numbers).unwrap_or_default(),
            width,
        };
        for row in rows.clone() {
            ledger.decisions[row] += u32::from(ledger.valid[row]);
        }
        let terminated = &mut frames.terminated[rows.clone()];
        let status = if rules.action_repeat == 1 {
            self.tick(ledger, env, &mine, terminated)
        } else {
            self.ticks(ledger, rules, env, &mine, terminated)
        };
        self.look::<ALONE>(ledger, env, frames.obs);

        let mut failure = self.envs[env].failure();
        if failure.is_none() && !self.finite::<ALONE>(ledger, env, frames.obs) {
            failure = Some("the env gave a number that is not finite".into());
        }
        let fault = failure.is_some();
        if let Some(why) = failure {
            ledger.fault(env, || why);
            self.terms.fill(0.0);
            frames.terminated[rows.clone()].fill(false);
            frames.obs[rows.start * self.row_bytes..rows.end * self.row_bytes].fill(0);
            if !frames.cut.is_empty() {
                frames.cut[rows.clone()].fill(true);
            }
        }
        let cut_short = fault || status == Status::TimeUp || ledger.elapsed[env] >= ledger.max_steps[env];
        let over = cut_short || status == Status::Over;
        for (seat, row) in rows.clone().enumerate() {
            let in_play = ledger.played[row] && !ledger.ended[row];
            let terms = &self.terms[seat * ledger.terms..(seat + 1) * ledger.terms];
            // Not fused: without the CPU's own instruction at hand here, a fused one is a call of a library function.
            let reward = terms.iter().zip(&rules.weights).fold(0.0, |sum, (term, weight)| sum + weight * term);
            frames.reward[row] = reward;
            frames.truncated[row] = cut_short && in_play;
            if in_play {
                ledger.returns[row] += reward;
                let sums = &mut ledger.term_sums[row * ledger.terms..(row + 1) * ledger.terms];
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
                ledger.ended[row] = frames.terminated[row] || frames.truncated[row];
            }
        }
        if over {
            self.finish(ledger, rules, env, fault, frames);
        }
    }

    /// Plays the actions once; whether the episode goes on. `terminated` is all false when it is called.
    #[inline(always)]
    fn tick(&mut self, ledger: &mut Ledger, env: usize, actions: &Actions<'_>, terminated: &mut [bool]) -> Status {
        ledger.elapsed[env] += 1;
        let rng = ledger.rng(env, ledger.elapsed[env]);
        clear(&mut self.terms);
        let mut outcome = Outcome { terms: &mut self.terms, terminated, metrics: &mut self.metrics };
        self.envs[env].step(actions, &rng, &mut outcome)
    }

    /// Repeats the actions; rewards add up.
    fn ticks(
        &mut self,
        ledger: &mut Ledger,
        rules: &Rules,
        env: usize,
        actions: &Actions<'_>,
        terminated: &mut [bool],
    ) -> Status {
        let (mut sums, mut ended) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.tick_terminated));
        sums.fill(0.0);
        let mut status = Status::Running;
        for _ in 0..rules.action_repeat {
            ended.fill(false);
            status = self.tick(ledger, env, actions, &mut ended);
            sums.iter_mut().zip(&self.terms).for_each(|(sum, term)| *sum += term);
            terminated.iter_mut().zip(&ended).for_each(|(ended, now)| *ended |= now);
            if status != Status::Running || ledger.elapsed[env] >= ledger.max_steps[env] {
                break;
            }
        }
        self.terms.copy_from_slice(&sums);
        (self.sums, self.tick_terminated) = (sums, ended);
        status
    }

    fn finish(&mut self, ledger: &mut Ledger, rules: &Rules, env: usize, fault: bool, frames: &mut Frames<'_>) {
        let rows = env * ledger.seats..(env + 1) * ledger.seats;
        for (seat, row) in rows.clone().enumerate() {
            if ledger.played[row] && !fault {
                let metrics = &self.metrics[seat * ledger.metrics..(seat + 1) * ledger.metrics];
                ledger.log(env, seat, ledger.decisions[row], metrics);
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
                        self.envs[env].info(*index, seat, &mut finals.infos[start..]);
                    }
                }
            }
            self.begin(ledger, env);
            self.look::<false>(ledger, env, frames.obs);
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
                    self.envs[row / ledger.seats].info(*index, row % ledger.seats, now);
                    out = rest;
                }
            }
        }
    }
}

impl<E: Env> Group for Each<E> {
    fn step(&mut self, ledger: &mut Ledger, rules: &Rules, actions: &Actions<'_>, frames: &mut Frames<'_>) {
        if ledger.seats == 1 {
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
            self.look::<false>(ledger, env, frames.obs);
            if ledger.over[env] != 0 {
                ledger.valid[env * ledger.seats..(env + 1) * ledger.seats].fill(false);
            }
        }
        self.publish(ledger, rules, frames);
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        self.envs[env].fields(fields);
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self.envs[env].check()
    }

    fn adopt(&mut self, env: usize, options: &Options) {
        self.envs[env].adopt(options);
    }
}
