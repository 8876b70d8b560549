//! The hyperbolic tangent: the activation of most policies, so the function that training calls most.

use super::ROUNDER;
use crate::simd::{Floats, Ints, Simd};

/// From here on the result is 1.
const SATURATED: f32 = 9.02;

/// The hyperbolic tangent of `x`.
///
/// With |x| = n ln 2 / 2 + r, s = 2^n and h = tanh r, the addition theorem says
/// tanh |x| = (s - 1 + (s + 1) h) / (s + 1 + (s - 1) h), which for n = 0 is h itself: no second branch for small `x`.
/// Halved throughout, the denominator is the numerator + 1 - h; computed that way it shares the numerator's rounding
/// error, which cancels.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    // This way round, `min` hands on a NaN.
    let a = s.f(SATURATED).min(x.abs());
    // n is rounded down more often than up, because a negative h makes the numerator cancel when n is 1.
    let rounded = a.fma(s.f(2.0 * std::f32::consts::LOG2_E), s.f(-0.25)) + s.f(ROUNDER);
    let n = rounded - s.f(ROUNDER);
    let r = n.fnma(s.f(0.5 * std::f32::consts::LN_2), a);
    // Minimax of tanh r = r + r^3 p(r^2): relative error 2^-27.9 for |r| <= 0.26.
    let r2 = r * r;
    let p = s.f(-0.051_225_28).fma(r2, s.f(0.133_226_89));
    let p = p.fma(r2, s.f(-0.333_332_15));
    let h = p.fma(r2 * r, r);
    let half = s.f(0.5);
    let half_s = (rounded.to_bits().shl::<23>() + half.to_bits()).to_f32_bits();
    let numerator = (half_s + half).fma(h, half_s - half);
    let positive = numerator / (numerator + (s.f(1.0) - h));
    let sign = x.to_bits() & s.u(0x8000_0000);
    (positive.to_bits() | sign).to_f32_bits()
}
