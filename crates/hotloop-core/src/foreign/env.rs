//! One instance of a foreign env: a state of plain bytes, and calls of the table's functions.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use super::table::{Checked, FieldPlace, RawRng, RawValue};
use crate::env::{Actions, Env, Frame, Outcome, Rng, Status};
use crate::fields::{FieldKind, FieldMut, Fields};
use crate::options::{Allowed, Options, Value};
use crate::space::Observation;

/// Memory as strictly aligned as any state may ask for.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk([u8; 64]);

/// What kept an env from going on.
#[derive(Clone, Copy)]
enum Failure {
    Reset(i32),
    Step(i32),
    Observe(i32),
    NothingAllowed(usize),
    NoSuchState(i64),
}

/// One instance.
pub struct Foreign {
    kind: Arc<Checked>,
    state: Box<[Chunk]>,
    /// Shared with the envs that have the same ones.
    options: Arc<[RawValue]>,
    over: bool,
    /// Cleared by the next reset.
    failed: Cell<Option<Failure>>,
}

impl Foreign {
    /// A new instance, its state all zeros.
    pub fn new(kind: &Arc<Checked>, options: &Arc<[RawValue]>) -> Self {
        let state = vec![Chunk([0; 64]); kind.state_bytes.div_ceil(64)].into();
        Self { kind: kind.clone(), state, options: options.clone(), over: false, failed: Cell::new(None) }
    }

    fn pointer(&self) -> *const c_void {
        self.state.as_ptr().cast()
    }

    fn pointer_mut(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    /// Every set of choices of every seat that decides allows something; of an episode that is over nothing is asked.
    fn check_masks(&self, frame: &mut Frame<'_>) {
        for seat in 0..frame.valid.len() {
            let mut rest = frame.mask(seat);
            for n in &self.kind.choices {
                let (mine, others) = rest.split_at_mut(*n);
                if !mine.contains(&true) {
                    mine.fill(true);
                    if !self.over {
                        self.failed.set(self.failed.get().or(Some(Failure::NothingAllowed(seat))));
                    }
                }
                rest = others;
            }
        }
    }

    fn check_states(&self, frame: &mut Frame<'_>, n: usize) {
        for seat in 0..frame.valid.len() {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(frame.bytes(seat));
            let state = i64::from_ne_bytes(bytes);
            if !usize::try_from(state).is_ok_and(|state| state < n) {
                frame.set_state(seat, 0);
                self.failed.set(self.failed.get().or(Some(Failure::NoSuchState(state))));
            }
        }
    }
}

impl Env for Foreign {
    fn new(_: &Options) -> Self {
        unreachable!("a foreign env is made from its table")
    }

    fn adopt(&mut self, options: &Options) {
        self.options = raw_values(&self.kind, options);
    }

    fn reset(&mut self, rng: &Rng) {
        let reset = self.kind.reset;
        self.over = false;
        // SAFETY: state and options are as large and as aligned as the table says, and this env's alone.
        let told = unsafe { reset(self.pointer_mut(), self.options.as_ptr(), &RawRng::from(rng)) };
        self.failed.set((told != 0).then_some(Failure::Reset(told)));
    }

    fn step(&mut self, actions: &Actions<'_>, rng: &Rng, outcome: &mut Outcome<'_>) -> Status {
        if self.failed.get().is_some() {
            return Status::Running;
        }
        let step = self.kind.step;
        let numbers =
            if actions.floats.is_empty() { actions.ints.as_ptr().cast() } else { actions.floats.as_ptr().cast() };
        let terminated = outcome.terminated.as_mut_ptr().cast::<u8>();
        // SAFETY: as above; actions and outcome have the table's numbers of entries for every seat.
        let told = unsafe {
            let (terms, metrics) = (outcome.terms.as_mut_ptr(), outcome.metrics.as_mut_ptr());
            let options = self.options.as_ptr();
            step(self.pointer_mut(), options, &RawRng::from(rng), numbers, terms, terminated, metrics)
        };
        // SAFETY: there is a byte for every seat.
        unsafe { make_bools(terminated, outcome.terminated.len()) };
        let status = match told {
            0 => Status::Running,
            1 => Status::Over,
            2 => Status::TimeUp,
            _ => {
                self.failed.set(Some(Failure::Step(told)));
                Status::Running
            }
        };
        self.over = status != Status::Running;
        status
    }

    fn observe(&self, frame: &mut Frame<'_>) {
        let observe = self.kind.observe;
        let (mask_len, valid_len) = (frame.mask.len(), frame.valid.len());
        let valid = frame.valid.as_mut_ptr().cast::<u8>();
        let mask = if mask_len == 0 { std::ptr::null_mut() } else { frame.mask.as_mut_ptr().cast::<u8>() };
        // SAFETY: as above; the frame has the table's numbers of entries for every seat.
        let told = unsafe {
            let told = observe(self.pointer(), self.options.as_ptr(), frame.obs.as_mut_ptr().cast(), mask, valid);
            make_bools(valid, valid_len);
            make_bools(mask, mask_len);
            told
        };
        if told != 0 {
            self.failed.set(self.failed.get().or(Some(Failure::Observe(told))));
        }
        if mask_len > 0 {
            self.check_masks(frame);
        }
        if let Observation::Discrete { n } = self.kind.spec.observation {
            self.check_states(frame, n);
        }
    }

    fn fields(&mut self, fields: &mut dyn Fields) {
        let base = self.state.as_mut_ptr().cast::<u8>();
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

    fn check(&mut self) -> Result<(), String> {
        self.failed.set(None);
        self.over = false;
        let Some(check) = self.kind.check else { return Ok(()) };
        // SAFETY: as above.
        match unsafe { check(self.pointer(), self.options.as_ptr()) } {
            0 => Ok(()),
            told => Err(format!("its check returned {told}")),
        }
    }

    fn failure(&self) -> Option<String> {
        Some(match self.failed.get()? {
            Failure::Reset(told) => format!("the env's reset returned {told}: expected 0"),
            Failure::Step(told) => format!("the env's step returned {told}: expected 0, 1 or 2"),
            Failure::Observe(told) => format!("the env's observe returned {told}: expected 0"),
            Failure::NothingAllowed(seat) => format!("the env's mask forbids agent {seat} everything"),
            Failure::NoSuchState(state) => format!("the env showed the state {state}, which there is not"),
        })
    }
}

/// Makes of bytes that foreign code wrote what Rust takes for truth values.
///
/// # Safety
/// There must be so many bytes.
unsafe fn make_bools(first: *mut u8, count: usize) {
    for i in 0..count {
        // SAFETY: the caller's promise.
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
