//! The table of a foreign env as declared in `hotloop.h`, and its validated form.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, offset_of};

use crate::env::{Rng, Spec};
use crate::fields::FieldKind;
use crate::options::{Allowed, OptionSpec, Value};
use crate::space::{Action, Observation};

/// The version of `hotloop.h`.
pub const ABI: u32 = 2;
/// The oldest supported version: each has the entries of the one before, and more at the end of the table.
const OLDEST_ABI: u32 = 1;

const MAX_STATE_BYTES: u64 = 1 << 28;
const MAX_ELEMENTS: u64 = 1 << 26;
const MAX_SEATS: u32 = 4096;
const MAX_ENTRIES: u32 = 1024;
/// The strictest alignment that a state may have; see `env::Chunk`.
pub(super) const MAX_ALIGNMENT: u64 = 64;

/// Eight bytes whose meaning depends on the option's kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawValue {
    pub number: f64,
    pub whole: i64,
}

#[repr(C)]
struct RawOption {
    name: *const c_char,
    about: *const c_char,
    kind: u32,
    word_count: u32,
    words: *const *const c_char,
    value: RawValue,
    low: f64,
    high: f64,
}

#[repr(C)]
struct RawField {
    name: *const c_char,
    kind: u32,
    count: u32,
    offset: u64,
}

type Reset = unsafe extern "C" fn(*mut c_void, *const RawValue, *const Rng) -> i32;
type Step =
    unsafe extern "C" fn(*mut c_void, *const RawValue, *const Rng, *const c_void, *mut f32, *mut u8, *mut f32) -> i32;
type Observe = unsafe extern "C" fn(*const c_void, *const RawValue, *mut c_void, *mut u8, *mut u8) -> i32;
pub type Play = unsafe extern "C" fn(
    u64,
    *mut c_void,
    *const RawValue,
    *const Rng,
    *const c_void,
    *mut f32,
    *mut u8,
    *mut f32,
    *mut c_void,
    *mut u8,
    *mut u8,
    *const u32,
    *mut [i32; 2],
);
type Check = unsafe extern "C" fn(*const c_void, *const RawValue) -> i32;
type Render = unsafe extern "C" fn(*const c_void, *const RawValue, *mut c_char, u64) -> i32;

type Explain = unsafe extern "C" fn(i32, *mut c_char, u64) -> i32;

/// `hotloop_env` of `hotloop.h`.
#[repr(C)]
pub struct Table {
    abi: u32,
    /// `table_bytes`.
    bytes: u32,
    name: *const c_char,
    about: *const c_char,
    state_bytes: u64,
    state_alignment: u64,
    state_version: u32,
    seats: u32,
    observation_kind: u32,
    observation_dims: u32,
    observation_shape: *const u64,
    observation_low: *const f32,
    observation_high: *const f32,
    action_kind: u32,
    action_width: u32,
    action_choices: *const u32,
    action_low: *const f32,
    action_high: *const f32,
    masked: u32,
    max_steps: u32,
    term_count: u32,
    metric_count: u32,
    terms: *const *const c_char,
    metrics: *const *const c_char,
    option_count: u32,
    field_count: u32,
    options: *const RawOption,
    fields: *const RawField,
    step_nanoseconds: u32,
    reserved: u32,
    reset: Option<Reset>,
    step: Option<Step>,
    observe: Option<Observe>,
    check: Option<Check>,
    render: Option<Render>,
    /// Since version 2, and what follows.
    play: Option<Play>,
    explain: Option<Explain>,
}

/// A part of the state.
pub struct FieldPlace {
    pub name: &'static str,
    pub kind: FieldKind,
    pub count: usize,
    pub offset: usize,
}

/// A table that was validated. Its texts are leaked, as the library is never unloaded.
pub struct Checked {
    pub name: &'static str,
    pub about: &'static str,
    pub spec: Spec,
    /// Number of choices of each component of an action.
    pub choices: Vec<usize>,
    pub options: Vec<OptionSpec>,
    pub max_steps: u32,
    /// Distance between states in an array.
    pub state_stride: usize,
    /// Named fields in the order of their offsets, and the bytes between them.
    pub fields: Vec<FieldPlace>,
    pub reset: Reset,
    pub step: Step,
    pub observe: Observe,
    pub check: Option<Check>,
    pub play: Option<Play>,
    explain: Option<Explain>,
}

impl Checked {
    /// # Safety
    /// See [`super::kind`].
    pub unsafe fn read(table: *const Table) -> Result<Self, String> {
        if table.is_null() {
            return Err("its table is null".into());
        }
        // SAFETY: whatever the version, the table begins with it.
        let abi = unsafe { (*table).abi };
        if !(OLDEST_ABI..=ABI).contains(&abi) {
            return Err(format!("it was built for version {abi} of hotloop.h, and this is version {ABI}: rebuild it"));
        }
        // SAFETY: every version has it in the same place.
        let bytes = unsafe { (*table).bytes } as usize;
        let expected = if abi == 1 { offset_of!(Table, play) } else { size_of::<Table>() };
        if bytes != expected {
            return Err(format!("table_bytes is {bytes}, and the table has {expected}: set it to sizeof(hotloop_env)"));
        }
        // SAFETY: the caller's promise, now that the version is known: there are `table_bytes` bytes, and the rest stays null.
        let table = unsafe {
            let mut whole = MaybeUninit::<Table>::zeroed();
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), whole.as_mut_ptr().cast(), bytes);
            whole.assume_init()
        };
        // SAFETY: the caller's promise holds for all that the table points to.
        unsafe { table.checked() }
    }

    /// The env's own explanation of a status.
    pub fn explanation(&self, status: i32) -> Option<String> {
        let mut text = [0; 1024];
        // SAFETY: there is so much room.
        let written =
            unsafe { self.explain.filter(|_| status < 0)?(status, text.as_mut_ptr().cast(), text.len() as u64) };
        let text = text.get(..usize::try_from(written).ok()?)?;
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

impl Table {
    unsafe fn checked(&self) -> Result<Checked, String> {
        // SAFETY: the caller's promise, here and below.
        unsafe {
            let name = text("name", self.name)?;
            is_name("name", name, "_-")?;
            within("state_bytes", self.state_bytes, 1, MAX_STATE_BYTES)?;
            within("state_alignment", self.state_alignment, 1, MAX_ALIGNMENT)?;
            if !self.state_alignment.is_power_of_two() {
                return Err(format!("state_alignment is {}: expected a power of two", self.state_alignment));
            }
            within("seats", u64::from(self.seats), 1, u64::from(MAX_SEATS))?;
            let action = self.action()?;
            if self.masked > 1 || (self.masked == 1 && matches!(action, Action::Continuous { .. })) {
                return Err(format!("masked is {}: expected 0, or 1 where there are choices", self.masked));
            }
            within("max_steps", u64::from(self.max_steps), 0, 1 << 30)?;
            let mut terms = names("terms", self.terms, self.term_count)?;
            if terms.is_empty() {
                terms.push("reward");
            }
            let spec = Spec {
                seats: self.seats as usize,
                observation: self.observation()?,
                action,
                masked: self.masked == 1,
                masks_bind: true,
                terms,
                metrics: names("metrics", self.metrics, self.metric_count)?,
                infos: vec![],
                step_nanoseconds: if self.step_nanoseconds == 0 { 100 } else { self.step_nanoseconds },
                state_version: self.state_version,
            };
            Ok(Checked {
                name,
                about: if self.about.is_null() { "" } else { text("about", self.about)? },
                choices: spec.action.choices(),
                spec,
                options: self.options()?,
                max_steps: self.max_steps,
                state_stride: (self.state_bytes as usize).next_multiple_of(self.state_alignment as usize),
                fields: self.fields()?,
                reset: self.reset.ok_or("reset is null")?,
                step: self.step.ok_or("step is null")?,
                observe: self.observe.ok_or("observe is null")?,
                check: self.check,
                play: self.play,
                explain: self.explain,
            })
        }
    }

    unsafe fn observation(&self) -> Result<Observation, String> {
        within("observation_dims", u64::from(self.observation_dims), 1, 8)?;
        // SAFETY: the caller's promise.
        let shape = unsafe { entries("observation_shape", self.observation_shape, self.observation_dims) }?;
        let len = shape.iter().fold(1_u64, |len, n| len.saturating_mul(*n));
        if len == 0 || len > MAX_ELEMENTS {
            return Err(format!("observation_shape is {shape:?}: expected 1 to {MAX_ELEMENTS} elements"));
        }
        let dims = shape.iter().map(|n| *n as usize).collect();
        match self.observation_kind {
            1 => {
                let bound = |what: &str, given: *const f32, usual: f32| {
                    if given.is_null() {
                        return Ok(vec![usual; len as usize]);
                    }
                    // SAFETY: the caller's promise.
                    unsafe { entries(what, given, len as u32) }.map(<[f32]>::to_vec)
                };
                let low = bound("observation_low", self.observation_low, f32::NEG_INFINITY)?;
                let high = bound("observation_high", self.observation_high, f32::INFINITY)?;
                ordered("observation", &low, &high)?;
                Ok(Observation::Box { shape: dims, low, high })
            }
            2 => Ok(Observation::Bytes { shape: dims, high: u8::MAX }),
            3 if shape.len() == 1 => Ok(Observation::Discrete { n: len as usize }),
            3 => Err(format!("observation_shape is {shape:?}: expected how many states there are")),
            kind => Err(format!("observation_kind is {kind}: expected 1, 2 or 3")),
        }
    }

    unsafe fn action(&self) -> Result<Action, String> {
        within("action_width", u64::from(self.action_width), 1, u64::from(MAX_ENTRIES))?;
        let width = self.action_width;
        match self.action_kind {
            1 | 2 => {
                // SAFETY: the caller's promise.
                let choices = unsafe { entries("action_choices", self.action_choices, width) }?;
                if let Some(n) = choices.iter().find(|n| !(1..=1 << 20).contains(*n)) {
                    return Err(format!("action_choices has {n}: expected 1 to {}", 1 << 20));
                }
                let n: Vec<usize> = choices.iter().map(|n| *n as usize).collect();
                match (self.action_kind, n.as_slice()) {
                    (1, &[n]) => Ok(Action::Discrete { n }),
                    (1, _) => Err(format!("action_width is {width}: expected 1 for one choice")),
                    _ => Ok(Action::MultiDiscrete { n }),
                }
            }
            3 => {
                // SAFETY: the caller's promise.
                let (low, high) = unsafe {
                    (entries("action_low", self.action_low, width)?, entries("action_high", self.action_high, width)?)
                };
                ordered("action", low, high)?;
                Ok(Action::Continuous { low: low.to_vec(), high: high.to_vec() })
            }
            kind => Err(format!("action_kind is {kind}: expected 1, 2 or 3")),
        }
    }

    unsafe fn options(&self) -> Result<Vec<OptionSpec>, String> {
        within("option_count", u64::from(self.option_count), 0, u64::from(MAX_ENTRIES))?;
        let mut found: Vec<OptionSpec> = Vec::new();
        // SAFETY: the caller's promise, here and below.
        for raw in unsafe { entries("options", self.options, self.option_count) }? {
            let name = unsafe { text("an option's name", raw.name) }?;
            is_name("an option's name", name, "_")?;
            if name == "name" || found.iter().any(|other| other.name == name) {
                return Err(format!("there cannot be an option {name:?}, or not twice"));
            }
            let about = if raw.about.is_null() { "" } else { unsafe { text("an option's about", raw.about) }? };
            let (number, whole) = unsafe { (raw.value.number, raw.value.whole) };
            let within = |x: f64| if raw.low <= x && x <= raw.high { Ok(()) } else { Err(x) };
            let range = Allowed::Range(raw.low, raw.high);
            let (default, allowed, fits) = match raw.kind {
                1 => (Value::Float(number), range, within(number)),
                2 => (Value::Int(whole), range, within(whole as f64)),
                3 => (Value::Bool(whole != 0), Allowed::Any, Ok(())),
                4 => {
                    let words = unsafe { names("an option's words", raw.words, raw.word_count) }?;
                    let word = usize::try_from(whole).ok().and_then(|index| words.get(index).copied());
                    let fits = word.map(|_| ()).ok_or(whole as f64);
                    (Value::Text(word.unwrap_or_default().into()), Allowed::Choice(Vec::leak(words)), fits)
                }
                kind => return Err(format!("the option {name} has the kind {kind}: expected 1 to 4")),
            };
            fits.map_err(|x| format!("the default of the option {name} is {x}, which it does not take"))?;
            found.push(OptionSpec { name, about, default, allowed, fixed: false });
        }
        Ok(found)
    }

    unsafe fn fields(&self) -> Result<Vec<FieldPlace>, String> {
        within("field_count", u64::from(self.field_count), 0, u64::from(MAX_ENTRIES))?;
        let mut named: Vec<FieldPlace> = Vec::new();
        // SAFETY: the caller's promise, here and below.
        for raw in unsafe { entries("fields", self.fields, self.field_count) }? {
            let name = unsafe { text("a field's name", raw.name) }?;
            is_name("a field's name", name, "_")?;
            if name == crate::snapshot::ELAPSED || named.iter().any(|other| other.name == name) {
                return Err(format!("there cannot be a field {name:?}, or not twice"));
            }
            let kind = match raw.kind {
                1 => FieldKind::F32,
                2 => FieldKind::F64,
                3 => FieldKind::I32,
                4 => FieldKind::I64,
                5 => FieldKind::U8,
                kind => return Err(format!("the field {name} has the kind {kind}: expected 1 to 5")),
            };
            let bytes = u64::from(raw.count) * kind.bytes() as u64;
            let end = raw.offset.checked_add(bytes).filter(|end| *end <= self.state_bytes);
            if bytes == 0 || end.is_none() || raw.offset % kind.bytes() as u64 != 0 {
                let (offset, state) = (raw.offset, self.state_bytes);
                return Err(format!(
                    "the field {name} has {bytes} bytes at {offset}: not aligned, or not within {state}"
                ));
            }
            named.push(FieldPlace { name, kind, count: raw.count as usize, offset: raw.offset as usize });
        }
        named.sort_by_key(|field| field.offset);
        let mut all = Vec::new();
        let mut at = 0;
        let gap = |from: usize, to: usize| FieldPlace {
            name: String::leak(format!("bytes_{from}")),
            kind: FieldKind::U8,
            count: to - from,
            offset: from,
        };
        for field in named {
            if field.offset < at {
                return Err(format!("the field {} overlaps the one before it", field.name));
            }
            if field.offset > at {
                all.push(gap(at, field.offset));
            }
            at = field.offset + field.count * field.kind.bytes();
            all.push(field);
        }
        if at < self.state_bytes as usize {
            all.push(gap(at, self.state_bytes as usize));
        }
        Ok(all)
    }
}

fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{what} is {value}: expected {least} to {most}"))
}

fn ordered(what: &str, low: &[f32], high: &[f32]) -> Result<(), String> {
    match low.iter().zip(high).position(|(low, high)| low.is_nan() || high.is_nan() || low > high) {
        Some(i) => Err(format!("{what}_low[{i}] is {}, and {what}_high[{i}] {}", low[i], high[i])),
        None => Ok(()),
    }
}

fn is_name(what: &str, name: &str, besides: &str) -> Result<(), String> {
    let fits = name.chars().all(|x| x.is_ascii_alphanumeric() || besides.contains(x));
    if fits && !name.is_empty() {
        return Ok(());
    }
    Err(format!("{what} is {name:?}: expected letters, digits and {}", besides.replace('-', " and -")))
}

unsafe fn entries<'a, T>(what: &str, first: *const T, count: u32) -> Result<&'a [T], String> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(format!("{what} is null, and there should be {count}"));
    }
    if !first.is_aligned() {
        return Err(format!("{what} is not aligned"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(first, count as usize) })
}

/// A leaked copy: a library's text must not change with its memory.
unsafe fn text(what: &str, from: *const c_char) -> Result<&'static str, String> {
    if from.is_null() {
        return Err(format!("{what} is null"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| format!("{what} is not UTF-8"))?;
    Ok(String::leak(text.to_string()))
}

unsafe fn names(what: &str, first: *const *const c_char, count: u32) -> Result<Vec<&'static str>, String> {
    within(what, u64::from(count), 0, u64::from(MAX_ENTRIES))?;
    let mut found = Vec::new();
    // SAFETY: the caller's promise.
    for from in unsafe { entries(what, first, count) }? {
        let name = unsafe { text(what, *from) }?;
        is_name(what, name, "_-")?;
        if found.contains(&name) {
            return Err(format!("{what} has {name:?} twice"));
        }
        found.push(name);
    }
    Ok(found)
}
