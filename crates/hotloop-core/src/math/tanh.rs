//! The hyperbolic tangent: the activation of most policies, so the function that training calls most.

use crate::simd::{Floats, Ints, Simd};

/// From here on the result is 1.
const SATURATED: f32 = 9.02;
/// Up to there, 1 + SPREAD |x| stays below 16.
const SPREAD: f32 = 1.6625;
/// No row of eight lies across two cache lines.
#[repr(align(32))]
struct Aligned<T>(T);

/// Centre of each interval's polynomial; the intervals' order is that of their numbers.
static CENTER: Aligned<[f32; 8]> =
    Aligned([0.902_261_9, 1.503_546_4, 2.406_023_7, 3.609_434_6, 5.414_436_3, 7.819_701, 0.0, 0.451_104_02]);
/// The coefficients by power, then by interval. At the centres tanh is almost an f32.
static POWERS: Aligned<[[f32; 8]; 7]> = Aligned([
    [0.717_397_45, 0.905_787_05, 0.983_868_8, 0.998_535_8, 0.999_960_36, 0.999_999_7, 0.0, 0.422_806_08],
    [0.485_341_52, 0.179_549_52, 0.032_002_263, 0.002_926_402_3, 7.961_951e-5, 6.455_803e-7, 1.0, 0.821_235_06],
    [
        -0.348_185_4,
        -0.162_633_58,
        -0.031_485_207,
        -0.002_922_065_6,
        -7.954_184_5e-5,
        -6.754_407_3e-7,
        -2.554_548_7e-6,
        -0.347_223_07,
    ],
    [
        0.087_943_38,
        0.087_489_285,
        0.020_309_469,
        0.001_938_383,
        5.082_287_3e-5,
        4.254_698e-7,
        -0.333_210_23,
        -0.126_950_92,
    ],
    [
        0.053_074_16,
        -0.025_025_563,
        -0.009_500_339,
        -0.000_963_872_4,
        -2.551_459_1e-5,
        -1.645_630_2e-7,
        -0.001_935_729_6,
        0.169_390_51,
    ],
    [
        -0.055_107_336,
        -0.003_126_080_1,
        0.003_286_793_6,
        0.000_403_224_78,
        1.333_902_1e-5,
        1.012_469_04e-7,
        0.146_749_1,
        -0.009_984_819,
    ],
    [
        0.013_048_902,
        0.007_214_897,
        -0.000_703_248_4,
        -0.000_130_373_39,
        -4.399_484e-6,
        -5.354_119_6e-8,
        -0.043_070_402,
        -0.058_415_726,
    ],
]);

/// The hyperbolic tangent of `x`.
///
/// One polynomial of degree 6 for each of eight intervals, looked up: there is no division, which would take as long as
/// all the rest. The exponent and the first digit of 1 + SPREAD |x|, which lies between 1 and 16, name the interval, so
/// that these are narrow where tanh bends. In the first one the polynomial is x (1 + ...), as precise for small `x`.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    // This way round, `min` hands on a NaN.
    let a = s.f(SATURATED).min(x.abs());
    let interval = a.fma(s.f(SPREAD), s.f(1.0)).to_bits().shr::<22>();
    let t = a - interval.pick(&CENTER.0);
    let [p0, p1, p2, p3, p4, p5, p6] = &POWERS.0;
    let p = interval.pick(p6).fma(t, interval.pick(p5));
    let p = p.fma(t, interval.pick(p4));
    let p = p.fma(t, interval.pick(p3));
    let p = p.fma(t, interval.pick(p2));
    let p = p.fma(t, interval.pick(p1));
    let positive = p.fma(t, interval.pick(p0));
    let sign = x.to_bits() & s.u(0x8000_0000);
    (positive.to_bits() | sign).to_f32_bits()
}

/// The logistic function of `x`, which is the hyperbolic tangent of its half, halved and raised.
#[inline(always)]
pub fn logistic<S: Simd>(s: S, x: S::F) -> S::F {
    let half = s.f(0.5);
    tanh(s, x * half).fma(half, half)
}
