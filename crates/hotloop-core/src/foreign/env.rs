//! Foreign envs: their states one after the other in plain memory, and calls of the table's functions.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use super::table::{Checked, FieldPlace, Play, RawValue};
use crate::env::{Actions, Frame, Outcome, Rng, Status};
use crate::envs::{BatchStep, Envs, play_each};
use crate::fields::{FieldKind, FieldMut, Fields};
use crate::options::{Allowed, Options, Value};
use crate::space::Observation;

/// Memory with the strictest alignment that a state may have.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk([u8; 64]);

/// Cause of an env's failure.
#[derive(Clone, Copy)]
enum Failure {
    Reset(i32),
    Step(i32),
    Observe(i32),
    NothingAllowed(usize),
    NoSuchState(i64),
}

/// The envs of a group.
pub struct Foreign {
    kind: Arc<Checked>,
    states: Box<[Chunk]>,
    /// Options, shared by the envs that have the same ones.
    options: Vec<Arc<[RawValue]>>,
    /// Whether options differ between envs.
    mixed: bool,
    /// Whether the env that was stepped or reset last is over.
    over: bool,
    /// Options that an env adopted last.
    latest: Arc<[RawValue]>,
    /// Until the next reset.
    failed: BTreeMap<usize, Failure>,
    /// Statuses that `play` returns.
    codes: Vec<[i32; 2]>,
}

impl Foreign {
    /// `count` new envs, their states all zeros.
    pub fn new(kind: &Arc<Checked>, options: &Arc<[RawValue]>, count: usize) -> Self {
        let states = vec![Chunk([0; 64]); (kind.state_stride * count).div_ceil(64)].into();
        Self {
            kind: kind.clone(),
            states,
            options: vec![options.clone(); count],
            mixed: false,
            over: false,
            latest: options.clone(),
            failed: BTreeMap::new(),
            codes: Vec::new(),
        }
    }

    fn state(&mut self, env: usize) -> *mut c_void {
        assert!(env < self.options.len());
        // SAFETY: there is a state for every env.
        unsafe { self.states.as_mut_ptr().cast::<u8>().add(env * self.kind.state_stride).cast() }
    }

    /// Records the first failure of an env.
    fn fail(&mut self, env: usize, failure: Failure) {
        self.failed.entry(env).or_insert(failure);
    }

    /// Checks the output of a running env: masks that allow nothing, states out of range.
    fn check_frame(&mut self, env: usize, frame: &mut Frame<'_>) {
        if frame.mask_len > 0 {
            self.check_masks(env, frame);
        }
        if let Observation::Discrete { n } = self.kind.spec.observation {
            self.check_states(env, frame, n);
        }
    }

    /// Whether every set of choices of every deciding seat allows something; not checked once the episode is over.
    fn check_masks(&mut self, env: usize, frame: &mut Frame<'_>) {
        for seat in 0..frame.valid.len() {
            let mut rest = frame.mask(seat);
            for n in &self.kind.choices {
                let (mine, others) = rest.split_at_mut(*n);
                if !mine.contains(&true) {
                    mine.fill(true);
                    if !self.over {
                        self.failed.entry(env).or_insert(Failure::NothingAllowed(seat));
                    }
                }
                rest = others;
            }
        }
    }

    fn check_states(&mut self, env: usize, frame: &mut Frame<'_>, n: usize) {
        for seat in 0..frame.valid.len() {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(frame.bytes(seat));
            let state = i64::from_ne_bytes(bytes);
            if !usize::try_from(state).is_ok_and(|state| state < n) {
                frame.set_state(seat, 0);
                self.fail(env, Failure::NoSuchState(state));
            }
        }
    }

    /// Status that a step returned.
    fn status_of(&mut self, env: usize, code: i32) -> Status {
        match code {
            0 => Status::Running,
            1 => Status::Over,
            2 => Status::TimeUp,
            _ => {
                self.fail(env, Failure::Step(code));
                Status::Running
            }
        }
    }
    /// Plays envs with the same options, the first of them the `first`-th of the batch.
    fn play_alike(&mut self, play: Play, envs: Range<usize>, first: usize, batch: &mut BatchStep<'_>) {
        let count = envs.len();
        let rows = first * batch.seats..(first + count) * batch.seats;
        let part = |width: usize| rows.start * width..rows.end * width;
        let BatchStep { terms, metrics, .. } = *batch;
        let (width, row_bytes, mask_len) = (batch.actions.width, batch.frame.row_bytes, batch.frame.mask_len);
        let numbers = match batch.actions.floats {
            [] => batch.actions.ints[part(width)].as_ptr().cast(),
            floats => floats[part(width)].as_ptr().cast(),
        };
        let terminated = &mut batch.outcome.terminated[rows.clone()];
        let mut frame = Frame {
            obs: &mut batch.frame.obs[part(row_bytes)],
            row_bytes,
            valid: &mut batch.frame.valid[rows.clone()],
            mask: &mut batch.frame.mask[part(mask_len)],
            mask_len,
        };
        self.codes.clear();
        self.codes.resize(count, [0, 0]);
        let states = self.state(envs.start);
        // SAFETY: all that is given is there for each of the envs, as large as the table says, and theirs alone.
        unsafe {
            play(
                count as u64,
                states,
                self.options[envs.start].as_ptr(),
                batch.rngs[first..first + count].as_ptr(),
                numbers,
                batch.outcome.terms[part(terms)].as_mut_ptr(),
                terminated.as_mut_ptr().cast(),
                batch.outcome.metrics[part(metrics)].as_mut_ptr(),
                frame.obs.as_mut_ptr().cast(),
                bytes_of(frame.mask),
                frame.valid.as_mut_ptr().cast(),
                batch.waiting[first..first + count].as_ptr(),
                self.codes.as_mut_ptr(),
            );
            make_bools(terminated);
            make_bools(frame.valid);
            make_bools(frame.mask);
        }
        let status = &mut batch.status[first..first + count];
        let mut bad = 0;
        for (status, [step, observe]) in status.iter_mut().zip(&self.codes) {
            bad |= u32::from(*step as u32 > 2) | *observe as u32;
            *status = if *step == 1 {
                Status::Over
            } else if *step == 2 {
                Status::TimeUp
            } else {
                Status::Running
            };
        }
        if bad != 0 {
            for (i, env) in envs.clone().enumerate() {
                let [step, observe] = self.codes[i];
                status[i] = self.status_of(env, step);
                if observe != 0 {
                    self.fail(env, Failure::Observe(observe));
                }
            }
        }
        if mask_len > 0 || matches!(self.kind.spec.observation, Observation::Discrete { .. }) {
            for (i, env) in envs.enumerate().filter(|(i, _)| batch.waiting[first + i] == 0) {
                self.over = status[i] != Status::Running;
                self.check_frame(env, &mut frame.part(i, batch.seats));
            }
        }
    }
}

impl Envs for Foreign {
    fn adopt(&mut self, env: usize, options: &Options) {
        let values = raw_values(&self.kind, options);
        if !alike(&values, &self.latest) {
            self.latest = values;
        }
        self.options[env] = self.latest.clone();
        self.mixed = !self.options.iter().all(|others| alike(&self.latest, others));
    }

    fn reset(&mut self, env: usize, rng: &Rng) {
        self.over = false;
        self.failed.remove(&env);
        // SAFETY: state and options are as large and as aligned as the table says, and this env's alone.
        let code = unsafe { (self.kind.reset)(self.state(env), self.options[env].as_ptr(), rng) };
        if code != 0 {
            self.fail(env, Failure::Reset(code));
        }
    }

    fn step(&mut self, env: usize, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        if self.failed.contains_key(&env) {
            return Status::Running;
        }
        let numbers =
            if actions.floats.is_empty() { actions.ints.as_ptr().cast() } else { actions.floats.as_ptr().cast() };
        let terminated = outcome.terminated.as_mut_ptr().cast::<u8>();
        // SAFETY: as above; actions and outcome have the table's numbers of entries for every seat.
        let code = unsafe {
            let (terms, metrics) = (outcome.terms.as_mut_ptr(), outcome.metrics.as_mut_ptr());
            let options = self.options[env].as_ptr();
            let code = (self.kind.step)(self.state(env), options, rng, numbers, terms, terminated, metrics);
            make_bools(outcome.terminated);
            code
        };
        let status = self.status_of(env, code);
        self.over = status != Status::Running;
        status
    }

    fn observe(&mut self, env: usize, frame: &mut Frame<'_>) {
        // SAFETY: as above; the frame has the table's numbers of entries for every seat.
        let code = unsafe {
            let (state, options) = (self.state(env), self.options[env].as_ptr());
            let (mask, valid) = (bytes_of(frame.mask), frame.valid.as_mut_ptr().cast());
            let code = (self.kind.observe)(state, options, frame.obs.as_mut_ptr().cast(), mask, valid);
            make_bools(frame.valid);
            make_bools(frame.mask);
            code
        };
        if code != 0 {
            self.fail(env, Failure::Observe(code));
        }
        self.check_frame(env, frame);
    }

    fn play(&mut self, envs: Range<usize>, batch: &mut BatchStep<'_>) {
        let Some(play) = self.kind.play.filter(|_| self.failed.is_empty()) else {
            return play_each(self, envs, batch);
        };
        if !self.mixed {
            return self.play_alike(play, envs, 0, batch);
        }
        let mut env = envs.start;
        while env < envs.end {
            let mine = &self.options[env];
            let others = &self.options[env..envs.end];
            let count = others.iter().position(|other| !alike(mine, other)).unwrap_or(others.len());
            self.play_alike(play, env..env + count, env - envs.start, batch);
            env += count;
        }
    }

    fn fields(&mut self, env: usize, fields: &mut dyn Fields) {
        let base = self.state(env).cast::<u8>();
        for FieldPlace { name, kind, count, offset } in &self.kind.fields {
            // SAFETY: fields lie within the state, apart from each other and aligned; any bytes are a number.
            unsafe {
                let at = base.add(*offset);
                let data = match kind {
                    FieldKind::F32 => FieldMut::F32(std::slice::from_raw_parts_mut(at.cast(), *count)),
                    FieldKind::I32 => FieldMut::I32(std::slice::from_raw_parts_mut(at.cast(), *count)),
                    FieldKind::U8 => FieldMut::U8(std::slice::from_raw_parts_mut(at, *count)),
                    FieldKind::F64 => FieldMut::F64(std::slice::from_raw_parts_mut(at.cast(), *count)),
                    FieldKind::I64 => FieldMut::I64(std::slice::from_raw_parts_mut(at.cast(), *count)),
                };
                fields.field(name, data);
            }
        }
    }

    fn check(&mut self, env: usize) -> Result<(), String> {
        self.failed.remove(&env);
        self.over = false;
        let Some(check) = self.kind.check else { return Ok(()) };
        // SAFETY: as above.
        match unsafe { check(self.state(env), self.options[env].as_ptr()) } {
            0 => Ok(()),
            code => Err(format!("its check returned {code}")),
        }
    }

    fn info(&self, _: usize, index: usize, _: usize, _: &mut [f32]) {
        unreachable!("info {index} was not declared")
    }

    fn any_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    fn has_failed(&self, env: usize) -> bool {
        self.failed.contains_key(&env)
    }

    fn failure(&self, env: usize) -> Option<String> {
        let returned = |function: &str, code: i32, expected: &str| match self.kind.explanation(code) {
            Some(words) => format!("the env's {function} failed: {words}"),
            None => format!("the env's {function} returned {code}: expected {expected}"),
        };
        Some(match *self.failed.get(&env)? {
            Failure::Reset(code) => returned("reset", code, "0"),
            Failure::Step(code) => returned("step", code, "0, 1 or 2"),
            Failure::Observe(code) => returned("observe", code, "0"),
            Failure::NothingAllowed(seat) => format!("the env's mask forbids agent {seat} everything"),
            Failure::NoSuchState(state) => format!("the env showed the state {state}, which there is not"),
        })
    }
}

/// The mask as a pointer for foreign code; null if there is none.
fn bytes_of(mask: &mut [bool]) -> *mut u8 {
    if mask.is_empty() { std::ptr::null_mut() } else { mask.as_mut_ptr().cast() }
}

/// Whether these are the same values, bit for bit.
fn alike(mine: &Arc<[RawValue]>, others: &Arc<[RawValue]>) -> bool {
    // SAFETY: any eight bytes are a whole number.
    Arc::ptr_eq(mine, others) || mine.iter().zip(&**others).all(|(a, b)| unsafe { a.whole == b.whole })
}

/// Normalises flags that foreign code wrote as bytes.
///
/// # Safety
/// They must not have been read in between.
unsafe fn make_bools(written: &mut [bool]) {
    let first = written.as_mut_ptr().cast::<u8>();
    for i in 0..written.len() {
        // SAFETY: there is a byte for each.
        unsafe {
            let byte = first.add(i);
            *byte = u8::from(*byte != 0);
        }
    }
}

/// The options' values as the table's functions take them.
pub fn raw_values(kind: &Checked, options: &Options) -> Arc<[RawValue]> {
    let declared = options.iter().take(kind.options.len());
    declared
        .map(|(spec, value)| match (value, &spec.allowed) {
            (Value::Float(number), _) => RawValue { number: *number },
            (Value::Int(whole), _) => RawValue { whole: *whole },
            (Value::Bool(yes), _) => RawValue { whole: i64::from(*yes) },
            (Value::Text(word), Allowed::Choice(words)) => {
                RawValue { whole: words.iter().position(|known| known == word).unwrap_or(0) as i64 }
            }
            other => unreachable!("{other:?} is no option of a foreign env"),
        })
        .collect()
}
