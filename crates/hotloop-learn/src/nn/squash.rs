//! The logistic function and the hyperbolic tangent as fractions, so that several of them share one division.

use hotloop_core::simd::{Floats, Ints, Simd};

/// 1.5 * 2^23: adding it rounds to an integer, which the low bits of the sum then hold.
const ROUNDER: f32 = 12_582_912.0;
/// Beyond this the logistic function is 0 or 1 to f32's precision, and four denominators still multiply without
/// overflow.
const FLAT: f32 = 20.0;
/// From here on the hyperbolic tangent is 1.
const SATURATED: f32 = 9.02;

/// What 1 must be divided by for the logistic function of `x`: 1 + e^-x, at most 2^29.
#[inline(always)]
pub fn logistic_divisor<S: Simd>(s: S, x: S::F) -> S::F {
    // This way round, `min` and `max` hand on a NaN.
    let x = s.f(-FLAT).max(s.f(FLAT).min(-x));
    let rounded = x.fma(s.f(std::f32::consts::LOG2_E), s.f(ROUNDER));
    let n = rounded - s.f(ROUNDER);
    let r = n.fnma(s.f(std::f32::consts::LN_2), x);
    // As in `math::exp`.
    let p = s.f(0.001_381_894_5).fma(r, s.f(0.008_368_704));
    let p = p.fma(r, s.f(0.041_668_29));
    let p = p.fma(r, s.f(0.166_665_21));
    let p = p.fma(r, s.f(0.499_999_94));
    let p = p.fma(r, s.f(1.0));
    let p = p.fma(r, s.f(1.0));
    (p.to_bits() + rounded.to_bits().shl::<23>()).to_f32_bits() + s.f(1.0)
}

/// Numerator and denominator of the hyperbolic tangent of `x`; the latter is positive and at most 2^26.
///
/// As in `math::tanh`, where the idea is explained.
#[inline(always)]
pub fn tanh_fraction<S: Simd>(s: S, x: S::F) -> (S::F, S::F) {
    let a = s.f(SATURATED).min(x.abs());
    let rounded = a.fma(s.f(2.0 * std::f32::consts::LOG2_E), s.f(-0.25)) + s.f(ROUNDER);
    let n = rounded - s.f(ROUNDER);
    let r = n.fnma(s.f(0.5 * std::f32::consts::LN_2), a);
    let r2 = r * r;
    let p = s.f(-0.051_225_28).fma(r2, s.f(0.133_226_89));
    let p = p.fma(r2, s.f(-0.333_332_15));
    let h = p.fma(r2 * r, r);
    let half = s.f(0.5);
    let half_s = (rounded.to_bits().shl::<23>() + half.to_bits()).to_f32_bits();
    let numerator = (half_s + half).fma(h, half_s - half);
    let sign = x.to_bits() & s.u(0x8000_0000);
    ((numerator.to_bits() | sign).to_f32_bits(), numerator + (s.f(1.0) - h))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_core::simd::Scalar;

    #[test]
    fn fractions_are_the_functions_they_stand_for() {
        for i in -4000..4000 {
            let x = i as f32 * 0.01;
            let wide = f64::from(x);
            let logistic = 1.0 / f64::from(logistic_divisor(Scalar, Scalar.f(x)).0);
            let exact = 1.0 / (1.0 + (-wide).exp());
            assert!((logistic - exact).abs() < 3e-7 * exact.max(0.01), "{x}: {logistic} {exact}");
            let (above, below) = tanh_fraction(Scalar, Scalar.f(x));
            let tanh = f64::from(above.0) / f64::from(below.0);
            assert!((tanh - wide.tanh()).abs() <= 3e-7 * wide.tanh().abs(), "{x}: {tanh}");
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let nan = Scalar.f(f32::NAN);
        assert!(logistic_divisor(Scalar, nan).0.is_nan());
        assert!(tanh_fraction(Scalar, nan).1.0.is_nan());
    }
}
