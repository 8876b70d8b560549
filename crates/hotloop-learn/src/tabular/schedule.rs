//! How a learning rate or a chance to explore changes from transition to transition.

use hotloop_core::math;
use hotloop_core::simd::{Scalar, Simd};

/// How a number changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// It stays.
    Constant,
    /// In a line, from the first to the last transition.
    Linear,
    /// It halves every so many transitions.
    Exponential,
    /// It falls with the visits to the very state, or state and action: `scale / (scale + visits)` of the start.
    Visits,
}

/// A number that changes with the transitions made, never falling below its floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// How it changes.
    pub kind: Kind,
    /// What it begins with.
    pub start: f32,
    /// What it ends with, or never falls below.
    pub floor: f32,
    /// Transitions to the end of the line or to a half, or visits to a half.
    pub scale: f64,
}

/// Range of a schedule's scale: what single precision can divide by and multiply with.
const SCALES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

impl Schedule {
    /// Check the ranges; the message names the setting.
    pub fn check(&self, name: &str) -> Result<(), String> {
        for (suffix, value) in [("", self.start), ("_floor", self.floor)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!("{name}{suffix} is {value}: expected a number from 0 to 1"));
            }
        }
        if !SCALES.contains(&self.scale) {
            let (least, most) = (SCALES.start(), SCALES.end());
            return Err(format!("{name}_scale is {:e}: expected a number from {least:e} to {most:e}", self.scale));
        }
        Ok(())
    }

    /// The number for the transitions from `step` on.
    pub fn at(&self, step: u64) -> Running {
        let value = match self.kind {
            Kind::Constant | Kind::Visits => f64::from(self.start),
            Kind::Linear => f64::from(self.start) + self.slope() * step as f64,
            Kind::Exponential => f64::from(self.start) * halvings(step as f64 / self.scale),
        };
        let (factor, add) = match self.kind {
            Kind::Constant | Kind::Visits => (1.0, 0.0),
            Kind::Linear => (1.0, self.slope()),
            Kind::Exponential => (halvings(1.0 / self.scale), 0.0),
        };
        let Self { kind, start, floor, .. } = *self;
        let now = if kind == Kind::Constant { start } else { (value as f32).max(floor) };
        Running { now, value, factor, add, floor, start, scale: self.scale as f32, kind }
    }

    /// Whether it needs visits counted.
    pub fn by_visits(&self) -> bool {
        self.kind == Kind::Visits
    }

    fn slope(&self) -> f64 {
        (f64::from(self.floor) - f64::from(self.start)) / self.scale
    }
}

/// Two to the power of minus `x`, with the same bits everywhere.
fn halvings(x: f64) -> f64 {
    // The whole part is exact; the rest is small enough for the core's exponential, whose error of 1e-7 does not grow.
    let whole = x.floor();
    if whole > 1000.0 {
        return 0.0;
    }
    let rest = -(x - whole) * std::f64::consts::LN_2;
    // Near zero single precision would lose the very difference that matters.
    let power = if rest > -1e-2 {
        1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest / 120.0))))
    } else {
        f64::from(math::exp(Scalar, Scalar.f(rest as f32)).0)
    };
    power * f64::from_bits((1023 - whole as u64) << 52)
}

/// A schedule on its way.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    now: f32,
    value: f64,
    factor: f64,
    add: f64,
    floor: f32,
    start: f32,
    scale: f32,
    kind: Kind,
}

impl Running {
    /// The number for this transition; `visits` is asked only where it matters.
    #[inline(always)]
    pub fn value(&self, visits: impl FnOnce() -> u32) -> f32 {
        if self.kind == Kind::Visits {
            return (self.start * self.scale / (self.scale + visits() as f32)).max(self.floor);
        }
        self.now
    }

    /// One transition on.
    #[inline(always)]
    pub fn next(&mut self) {
        if matches!(self.kind, Kind::Linear | Kind::Exponential) {
            self.value = self.value * self.factor + self.add;
            self.now = (self.value as f32).max(self.floor);
        }
    }
}
