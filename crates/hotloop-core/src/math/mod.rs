//! exp, log, tanh, the logistic function, sin and cos of f32 that give the same bits on every CPU and at every vector width.
//!
//! Composed of + - * / fma, selects, look-ups and bit operations only, without branches, in one source generic over [`Simd`]. NaN in
//! gives NaN out, but which of the many NaNs is not promised. The errors, against the exact value in units of the
//! result's last place (half of one is unavoidable), are the largest found over all inputs of the range:
//!
//! | function | range | largest error | beyond the range |
//! |---|---|---|---|
//! | [`exp`] | -87.33654 to 88.72283 | 0.90 ulp | 0 below (no subnormal results), infinity above |
//! | [`log`] | positive normal numbers | 1.23 ulp | minus infinity for 0 and subnormals, NaN below 0 |
//! | [`tanh`] | all, odd | 1.75 ulp | exactly 1 from 9.02 on |
//! | [`logistic`] | all | 1e-7, absolute | exactly 0 and 1 from 18.04 on |
//! | [`sin`] | -10000 to 10000, near zeros too | 1.75 ulp | grows slowly up to a million; NaN for infinities |
//! | [`cos`] | the same | 1.87 ulp | the same |
//!
//! Within these ranges tanh, sin and cos never exceed 1, not even by rounding.
//! The square root is IEEE's own: `Floats::sqrt`.
//!
//! [`Simd`]: crate::simd::Simd

mod exp_log;
pub mod scalar;
mod tanh;
mod trig;

pub use exp_log::{exp, log};
pub use tanh::{logistic, tanh};
pub use trig::{cos, sin, sin_cos};

/// 1.5 * 2^23. Adding it to a number rounds that to the nearest integer, which then is what the low bits of the sum
/// hold (in two's complement) and what is left after subtracting it again: the cheapest way to have both.
const ROUNDER: f32 = 12_582_912.0;
