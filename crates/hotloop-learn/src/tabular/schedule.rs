//! Schedules of learning rates and exploration rates, by transition or by visits.

use hotloop_core::math;
use hotloop_core::simd::{Scalar, Simd};

/// Shape of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Constant.
    Constant,
    /// Linear from the start to the floor.
    Linear,
    /// Exponential decay.
    Exponential,
    /// Decay with the visits to the state, or the state and action: `start * scale / (scale + visits)`.
    Visits,
}

/// A value that changes with the number of transitions or visits, never below its floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Shape.
    pub kind: Kind,
    /// Initial value.
    pub start: f32,
    /// Final value of a linear schedule, lower bound of the others.
    pub floor: f32,
    /// Length of the schedule: transitions until a linear one ends, or the half-life of an exponential (transitions) or
    /// visit-based (visits) one.
    pub scale: f64,
}

/// Range of a schedule's scale: single precision can divide by it and multiply with it.
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

    /// The schedule from transition `step` on.
    pub fn at(&self, step: u64) -> ScheduleCursor {
        let value = match self.kind {
            Kind::Constant | Kind::Visits => f64::from(self.start),
            Kind::Linear => f64::from(self.start) + self.slope() * step as f64,
            Kind::Exponential => f64::from(self.start) * exp2_negative(step as f64 / self.scale),
        };
        let (factor, add) = match self.kind {
            Kind::Constant | Kind::Visits => (1.0, 0.0),
            Kind::Linear => (1.0, self.slope()),
            Kind::Exponential => (exp2_negative(1.0 / self.scale), 0.0),
        };
        let Self { kind, start, floor, .. } = *self;
        let current = if kind == Kind::Constant { start } else { (value as f32).max(floor) };
        ScheduleCursor { current, value, factor, add, floor, start, scale: self.scale as f32, kind }
    }

    /// Whether visits must be counted.
    pub fn by_visits(&self) -> bool {
        self.kind == Kind::Visits
    }

    fn slope(&self) -> f64 {
        (f64::from(self.floor) - f64::from(self.start)) / self.scale
    }
}

/// Two to the power of `-x`, with the same bits on every machine.
fn exp2_negative(x: f64) -> f64 {
    // The integer part is exact; the fraction is small enough for the core's exponential, whose error of 1e-7 does not
    // grow.
    let whole = x.floor();
    if whole > 1000.0 {
        return 0.0;
    }
    let rest = -(x - whole) * std::f64::consts::LN_2;
    // Near zero, single precision would lose the difference from 1.
    let power = if rest > -1e-2 {
        1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest / 120.0))))
    } else {
        f64::from(math::exp(Scalar, Scalar.f(rest as f32)).0)
    };
    power * f64::from_bits((1023 - whole as u64) << 52)
}

/// A schedule at one transition.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleCursor {
    current: f32,
    value: f64,
    factor: f64,
    add: f64,
    floor: f32,
    start: f32,
    scale: f32,
    kind: Kind,
}

impl ScheduleCursor {
    /// Value for this transition; `visits` is called only by schedules that depend on them.
    #[inline(always)]
    pub fn value(&self, visits: impl FnOnce() -> u32) -> f32 {
        if self.kind == Kind::Visits {
            return (self.start * self.scale / (self.scale + visits() as f32)).max(self.floor);
        }
        self.current
    }

    /// Advance by one transition.
    #[inline(always)]
    pub fn advance(&mut self) {
        if matches!(self.kind, Kind::Linear | Kind::Exponential) {
            self.value = self.value * self.factor + self.add;
            self.current = (self.value as f32).max(self.floor);
        }
    }
}
