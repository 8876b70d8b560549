//! Actions from the caller: all are checked and narrowed before any env steps, so an invalid one changes nothing.

use std::ops::Range;

use crate::error::{Result, input, state};
use crate::group::Autoreset;
use crate::group_state::GroupState;
use crate::pool::Pool;
use crate::simd::{Kernel, Simd};
use crate::slot::{Slot, lock};
use crate::space::Action;

/// A number that actions come in.
pub trait DiscreteValue: Copy + Into<i64> {}
impl DiscreteValue for i32 {}
impl DiscreteValue for i64 {}

/// A number that continuous actions come in.
pub trait ContinuousValue: Copy + Into<f64> {
    /// Narrowed to f32.
    fn to_f32(self) -> f32;
}
impl ContinuousValue for f32 {
    fn to_f32(self) -> f32 {
        self
    }
}
impl ContinuousValue for f64 {
    fn to_f32(self) -> f32 {
        self as f32
    }
}

impl Pool {
    /// Whether these groups can step now.
    fn ready(&self, groups: Range<usize>) -> Result<()> {
        self.check_not_forked()?;
        self.check_started("a step")?;
        if let Some(group) = groups.clone().find(|group| self.is_flying(*group)) {
            return state(format!("group {group} is in flight: receive it before sending it again"));
        }
        if self.rules.autoreset == Autoreset::Disabled {
            for group in groups {
                let slot = lock(&self.slots[group]);
                if let Some(env) = slot.group_state.over[..slot.group_state.envs].iter().position(|over| *over != 0) {
                    return state(format!(
                        "env {} is over and autoreset is disabled: reset it, or those that ended with \
                         options={{\"reset_mask\": mask}}",
                        slot.group_state.first_env + env
                    ));
                }
            }
        }
        Ok(())
    }

    /// Sets discrete actions of these groups, `width` per row.
    pub fn set_discrete_actions<T: DiscreteValue>(&mut self, groups: Range<usize>, actions: &[T]) -> Result<()> {
        self.ready(groups.clone())?;
        let choices = self.spec.action.choices();
        let first_row = self.group_rows(groups.start).start;
        let per_row = choices.len();
        for group in groups {
            let rows = self.group_rows(group);
            let part = &actions[(rows.start - first_row) * per_row..(rows.end - first_row) * per_row];
            let slot = &mut *lock(&self.slots[group]);
            let fits = if let [n] = choices[..] {
                self.rules.isa.run(ToI32 { from: part, to: &mut slot.ints, n: n as u64 })
            } else {
                false
            };
            let bound = self.spec.masked && self.spec.masks_bind;
            if !fits || bound {
                check_each(slot, part, &choices, rows.start, bound)?;
            }
        }
        Ok(())
    }

    /// Sets continuous actions of these groups, `width` per row, clipped to the space.
    pub fn set_continuous_actions<T: ContinuousValue>(&mut self, groups: Range<usize>, actions: &[T]) -> Result<()> {
        self.ready(groups.clone())?;
        let Action::Continuous { low, high } = &self.spec.action else {
            return input("this env has discrete actions");
        };
        let first_row = self.group_rows(groups.start).start;
        for group in groups {
            let rows = self.group_rows(group);
            let part = &actions[(rows.start - first_row) * low.len()..(rows.end - first_row) * low.len()];
            let slot = &mut *lock(&self.slots[group]);
            let whole = self.rules.isa.run(Clip { from: part, to: &mut slot.floats, low, high });
            if !whole {
                clip_each(slot, part, low, high, rows.start)?;
            }
        }
        Ok(())
    }
}

/// Copies choices into i32; whether all were in 0..n. Compiled per instruction set, and plain enough to vectorise.
struct ToI32<'a, T> {
    from: &'a [T],
    to: &'a mut [i32],
    n: u64,
}

impl<T: DiscreteValue> Kernel for ToI32<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> bool {
        let mut bad = false;
        for (to, from) in self.to.iter_mut().zip(self.from) {
            let choice: i64 = (*from).into();
            bad |= choice as u64 >= self.n;
            *to = choice as i32;
        }
        !bad
    }
}

/// Copies continuous actions, clipped; returns whether all were finite.
struct Clip<'a, T> {
    from: &'a [T],
    to: &'a mut [f32],
    low: &'a [f32],
    high: &'a [f32],
}

impl<T: ContinuousValue> Kernel for Clip<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> bool {
        let mut sum = 0.0;
        if let ([low], [high]) = (self.low, self.high) {
            for (to, from) in self.to.iter_mut().zip(self.from) {
                *to = clip(from.to_f32(), *low, *high, &mut sum);
            }
        } else {
            let rows = self.to.chunks_exact_mut(self.low.len()).zip(self.from.chunks_exact(self.low.len()));
            for (to, from) in rows {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = clip(from[i].to_f32(), self.low[i], self.high[i], &mut sum);
                }
            }
        }
        sum == 0.0
    }
}

#[inline(always)]
fn clip(x: f32, low: f32, high: f32, sum: &mut f32) -> f32 {
    // x * 0 is 0 for every finite number, and NaN for the rest.
    *sum += x * 0.0;
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Clips one by one: rows that do not decide may hold anything, the others numbers that are finite, however large.
fn clip_each<T: ContinuousValue>(
    slot: &mut Slot,
    actions: &[T],
    low: &[f32],
    high: &[f32],
    first: usize,
) -> Result<()> {
    for (i, value) in actions.iter().enumerate() {
        let (row, entry) = (i / low.len(), i % low.len());
        let value: f64 = (*value).into();
        let deciding = decides(&slot.group_state, row);
        if deciding && !value.is_finite() {
            return input(format!("the action of row {} is {value}: expected a finite number", first + row));
        }
        let value = if deciding { value } else { 0.0 };
        slot.floats[i] = value.clamp(low[entry].into(), high[entry].into()) as f32;
    }
    Ok(())
}

fn decides(group_state: &GroupState, row: usize) -> bool {
    group_state.over[row / group_state.seats] == 0 && group_state.valid[row]
}

/// Checks row by row: rows that do not decide may hold anything, the others a choice that is there and allowed.
fn check_each<T: DiscreteValue>(
    slot: &mut Slot,
    actions: &[T],
    choices: &[usize],
    first: usize,
    masked: bool,
) -> Result<()> {
    let width = choices.len();
    let mask_len: usize = choices.iter().sum();
    for (row, action) in actions.chunks_exact(width).enumerate() {
        let deciding = decides(&slot.group_state, row);
        let mut offset = row * mask_len;
        for (i, (value, n)) in action.iter().zip(choices).enumerate() {
            let value: i64 = (*value).into();
            let which = if width > 1 { format!("entry {i} of ") } else { String::new() };
            if deciding && !(0..*n as i64).contains(&value) {
                return input(format!("{which}the action of row {} is {value}: expected 0 to {}", first + row, n - 1));
            }
            if deciding && masked && !slot.group_state.mask[offset + value as usize] {
                return input(format!("{which}the action of row {} is {value}, which its mask forbids", first + row));
            }
            offset += n;
            slot.ints[row * width + i] = if deciding { value as i32 } else { 0 };
        }
    }
    Ok(())
}
