//! The same functions of one number.

use crate::simd::Scalar;

macro_rules! of_one_number {
    ($($name:ident: $doc:literal),+ $(,)?) => {$(
        #[doc = $doc]
        #[inline(always)]
        pub fn $name(x: f32) -> f32 {
            super::$name(Scalar, crate::simd::Simd::f(Scalar, x)).0
        }
    )+};
}
of_one_number! {
    exp: "e to the power of `x`.",
    log: "The natural logarithm of `x`.",
    tanh: "The hyperbolic tangent of `x`.",
    sin: "The sine of `x`, in radians.",
    cos: "The cosine of `x`, in radians.",
}

/// The sine and the cosine of `x`, in radians.
#[inline(always)]
pub fn sin_cos(x: f32) -> (f32, f32) {
    (sin(x), cos(x))
}
