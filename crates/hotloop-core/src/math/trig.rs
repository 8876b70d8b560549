//! Sine and cosine.

use std::f32::consts::{FRAC_1_PI, PI};

use super::ROUNDER;
use crate::simd::{Floats, Ints, Simd};

/// The remainder of pi beyond f32, as the sum of two numbers.
const PI_REST: f32 = -8.742_278e-8;
const PI_REST_2: f32 = -3.430_249e-15;

/// The sine of `x`, in radians. (The sine of -0 is +0.)
#[inline(always)]
pub fn sin<S: Simd>(s: S, x: S::F) -> S::F {
    let rounded = x.fma(s.f(FRAC_1_PI), s.f(ROUNDER));
    let half_turns = rounded - s.f(ROUNDER);
    signed_sin(s, x, half_turns, rounded.to_bits())
}

/// The cosine of `x`, in radians.
#[inline(always)]
pub fn cos<S: Simd>(s: S, x: S::F) -> S::F {
    // cos((n + 1/2) pi + r) is sin r, negated for even n; the odd rounder turns the lowest bit over for that.
    let rounder = s.f(ROUNDER + 1.0);
    let rounded = x.fma(s.f(FRAC_1_PI), s.f(-0.5)) + rounder;
    let half_turns = rounded - rounder + s.f(0.5);
    signed_sin(s, x, half_turns, rounded.to_bits())
}

/// The sine and the cosine of `x`: the same bits as [`sin`] and [`cos`] apart.
#[inline(always)]
pub fn sin_cos<S: Simd>(s: S, x: S::F) -> (S::F, S::F) {
    (sin(s, x), cos(s, x))
}

/// sin(x - `half_turns` * pi), negated where the lowest bit of `odd` is set; the difference lies within a quarter turn.
#[inline(always)]
fn signed_sin<S: Simd>(s: S, x: S::F, half_turns: S::F, odd: S::I) -> S::F {
    // The first difference is exact and the second is when it is small: near the zeros of the result every bit counts.
    let r = half_turns.fnma(s.f(PI), x);
    let r = half_turns.fnma(s.f(PI_REST), r);
    let r = half_turns.fnma(s.f(PI_REST_2), r);
    // sin r = r + r^3 p(r^2): relative error 2^-26 for |r| <= pi / 2, on the side that keeps the rounded result from
    // exceeding 1. One polynomial for the whole range: no swap of sine and cosine, which half of it would need.
    let r2 = r * r;
    let p = s.f(2.596_371e-6).fma(r2, s.f(-0.000_198_059_56));
    let p = p.fma(r2, s.f(0.008_333_033));
    let p = p.fma(r2, s.f(-0.166_666_6));
    let value = p.fma(r2 * r, r);
    (value.to_bits() ^ odd.shl::<31>()).to_f32_bits()
}
