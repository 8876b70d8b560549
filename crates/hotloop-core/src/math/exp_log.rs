//! The exponential and the natural logarithm.

use super::ROUNDER;
use crate::simd::{Floats, Ints, Simd};

/// ln 2 as the sum of two numbers.
const LN_2: f32 = std::f32::consts::LN_2;
const LN_2_REST: f32 = -1.904_654_2e-9;

/// The largest number whose exponential is finite.
const EXP_MAX: f32 = 88.722_83;
/// The smallest number whose exponential is normal.
const EXP_MIN: f32 = -87.336_54;

/// e to the power of `x`.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let rounded = x.fma(s.f(std::f32::consts::LOG2_E), s.f(ROUNDER));
    let n = rounded - s.f(ROUNDER);
    // x = n ln 2 + r
    let r = n.fnma(s.f(LN_2_REST), n.fnma(s.f(LN_2), x));
    // Minimax with the first two coefficients exact: relative error 2^-28.2 for |r| <= ln 2 / 2.
    let p = s.f(0.001_381_894_5).fma(r, s.f(0.008_368_704));
    let p = p.fma(r, s.f(0.041_668_29));
    let p = p.fma(r, s.f(0.166_665_21));
    let p = p.fma(r, s.f(0.499_999_94));
    let p = p.fma(r, s.f(1.0));
    let p = p.fma(r, s.f(1.0));
    // Adding n to the exponent's bits reaches 2^127 * 1.99..., where a factor 2^128 would not exist.
    let scaled = (p.to_bits() + rounded.to_bits().shl::<23>()).to_f32_bits();
    let flushed = scaled.select(s.f(EXP_MIN).le(x), s.f(0.0));
    // This way round, `max` hands on a NaN.
    let above = s.f(f32::INFINITY).max(x);
    flushed.select(x.le(s.f(EXP_MAX)), above)
}

/// The natural logarithm of `x`.
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::F) -> S::F {
    let bits = x.to_bits();
    // x = 2^k m with m in [2/3, 4/3): near 1, k is 0 and nothing cancels. `exponent` is k * 2^23.
    let exponent = (bits - s.u(0x3f2a_aaab)) & s.u(0xff80_0000);
    let m = (bits - exponent).to_f32_bits();
    let f = m - s.f(1.0);
    let f2 = f * f;
    // Minimax of log(1 + f) = f - f^2 / 2 + f^3 p(f): relative error 2^-24.7 for |f| <= 1/3.
    let p = s.f(0.138_211_6).fma(f, s.f(-0.151_221_57));
    let p = p.fma(f, s.f(0.140_420_99));
    let p = p.fma(f, s.f(-0.164_723_28));
    let p = p.fma(f, s.f(0.200_079_34));
    let p = p.fma(f, s.f(-0.250_042_38));
    let p = p.fma(f, s.f(0.333_332_66));
    let p = p.fma(f, s.f(-0.5));
    let mantissa = p.fma(f2, f);
    let value = exponent.i32_to_f32().fma(s.f(LN_2 / 8_388_608.0), mantissa);
    let infinity = s.f(f32::INFINITY);
    let value = value.select(x.lt(infinity), infinity.max(x));
    let low = s.f(f32::NAN).select(x.lt(s.f(0.0)), -infinity);
    low.select(x.lt(s.f(f32::MIN_POSITIVE)), value)
}
