//! The functions of `math`: how close they come to the exact values, what they do at the edges, and that every
//! instruction set gives the same bits.

use hotloop_core::math;
use hotloop_core::simd::{BLOCK, Floats, Isa, Kernel, Simd};

#[derive(Clone, Copy, Debug)]
enum Function {
    Exp,
    Log,
    Tanh,
    Logistic,
    Sin,
    Cos,
    SinOfBoth,
    CosOfBoth,
}
use Function::{Cos, CosOfBoth, Exp, Log, Logistic, Sin, SinOfBoth, Tanh};

struct Apply<'a> {
    function: Function,
    values: &'a mut [f32],
}

impl Kernel for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for lanes in self.values.chunks_exact_mut(S::LANES) {
            // SAFETY: the chunk holds one vector.
            let x = unsafe { s.load(lanes.as_ptr()) };
            let y = match self.function {
                Exp => math::exp(s, x),
                Log => math::log(s, x),
                Tanh => math::tanh(s, x),
                Logistic => math::logistic(s, x),
                Sin => math::sin(s, x),
                Cos => math::cos(s, x),
                SinOfBoth => math::sin_cos(s, x).0,
                CosOfBoth => math::sin_cos(s, x).1,
            };
            // SAFETY: the chunk holds one vector.
            unsafe { y.store(lanes.as_mut_ptr()) };
        }
    }
}

fn apply(isa: Isa, function: Function, inputs: &[f32]) -> Vec<f32> {
    let mut values = inputs.to_vec();
    values.resize(inputs.len().next_multiple_of(BLOCK), 0.0);
    isa.run(Apply { function, values: &mut values });
    values.truncate(inputs.len());
    values
}

fn of_one(function: Function, x: f32) -> f32 {
    apply(Isa::Scalar, function, &[x])[0]
}

/// Every 101st float from `low` to `high`, both at least 0, and the same below 0 if asked for.
fn sweep(low: f32, high: f32, both_signs: bool) -> Vec<f32> {
    let positive = (low.to_bits()..=high.to_bits()).step_by(101).map(f32::from_bits);
    if both_signs { positive.flat_map(|x| [x, -x]).collect() } else { positive.collect() }
}

/// The distance between two neighbouring f32 at `x`.
fn ulp(x: f64) -> f64 {
    let exponent = ((x as f32).to_bits() >> 23 & 0xff).max(1) as i32;
    2.0_f64.powi(exponent - 150)
}

/// The largest error of the results, in units of the exact value's last place.
fn largest_error(function: Function, exact: fn(f64) -> f64, inputs: &[f32]) -> f64 {
    let isa = Isa::from_env().unwrap();
    let mut largest = 0.0;
    for (x, y) in inputs.iter().zip(apply(isa, function, inputs)) {
        let expected = exact(f64::from(*x));
        let error = (f64::from(y) - expected).abs() / ulp(expected);
        assert!(error <= 2.0, "{function:?}({x:e}) is {y:e} instead of {expected:e}: {error} ulp");
        largest = f64::max(largest, error);
    }
    println!("{function:?}: {largest:.3} ulp over {} inputs", inputs.len());
    largest
}

#[test]
fn exp_is_within_an_ulp_wherever_the_result_is_normal() {
    let inputs = [sweep(0.0, 88.722_83, false), sweep(0.0, 87.336_54, false).iter().map(|x| -x).collect()].concat();
    assert!(largest_error(Exp, f64::exp, &inputs) < 1.0);
}

#[test]
fn log_is_within_one_and_a_quarter_ulp_for_all_positive_normal_numbers() {
    assert!(largest_error(Log, f64::ln, &sweep(f32::MIN_POSITIVE, f32::MAX, false)) < 1.25);
}

#[test]
fn tanh_is_within_two_ulp_everywhere() {
    assert!(largest_error(Tanh, f64::tanh, &sweep(0.0, 20.0, false)) < 1.8);
}

#[test]
fn logistic_is_within_a_ten_millionth_and_flat_far_out() {
    let inputs = sweep(0.0, 40.0, true);
    for (x, y) in inputs.iter().zip(apply(Isa::from_env().unwrap(), Logistic, &inputs)) {
        let exact = 1.0 / (1.0 + (-f64::from(*x)).exp());
        assert!((f64::from(y) - exact).abs() < 1e-7, "logistic({x:e}) is {y:e} instead of {exact:e}");
    }
    assert_eq!((of_one(Logistic, -18.04), of_one(Logistic, 0.0), of_one(Logistic, 18.04)), (0.0, 0.5, 1.0));
}

#[test]
fn sin_and_cos_are_within_two_ulp_up_to_ten_thousand() {
    let inputs = sweep(0.0, 1e4, true);
    assert!(largest_error(Sin, f64::sin, &inputs) < 1.9);
    assert!(largest_error(Cos, f64::cos, &inputs) < 1.9);
}

#[test]
fn sin_and_cos_are_within_two_ulp_around_all_their_zeros() {
    let mut inputs = Vec::new();
    for quarter_turns in 1..6366 {
        let zero = (f64::from(quarter_turns) * std::f64::consts::FRAC_PI_2) as f32;
        inputs.extend((zero.to_bits() - 20..=zero.to_bits() + 20).map(f32::from_bits));
    }
    largest_error(Sin, f64::sin, &inputs);
    largest_error(Cos, f64::cos, &inputs);
}

#[test]
fn no_sine_cosine_or_tanh_exceeds_one() {
    let mut inputs = sweep(0.0, 1e4, true);
    // Around the peaks every float, and the tiny ones for the cosine's first.
    for quarter_turns in 0..60 {
        let peak = (f64::from(quarter_turns) * std::f64::consts::FRAC_PI_2) as f32;
        inputs.extend((peak.to_bits().saturating_sub(2000)..peak.to_bits() + 2000).map(f32::from_bits));
    }
    inputs.extend((1e-4_f32.to_bits()..2e-4_f32.to_bits()).step_by(7).map(f32::from_bits));
    for function in [Sin, Cos, Tanh] {
        for (x, y) in inputs.iter().zip(apply(Isa::from_env().unwrap(), function, &inputs)) {
            assert!(y.abs() <= 1.0, "{function:?}({x:e}) is {y}");
        }
    }
}

#[test]
fn exp_at_its_edges() {
    assert_eq!(of_one(Exp, 0.0), 1.0);
    assert_eq!(of_one(Exp, -0.0), 1.0);
    assert!(of_one(Exp, 88.722_83).is_finite());
    assert!(of_one(Exp, -87.336_54) >= f32::MIN_POSITIVE);
    for x in [88.722_84, 89.0, 1e10, f32::MAX, f32::INFINITY] {
        assert_eq!(of_one(Exp, x), f32::INFINITY, "exp({x})");
    }
    for x in [-87.336_55, -88.0, -1e10, f32::MIN, f32::NEG_INFINITY] {
        assert_eq!(of_one(Exp, x).to_bits(), 0, "exp({x})");
    }
}

#[test]
fn log_at_its_edges() {
    assert_eq!(of_one(Log, 1.0).to_bits(), 0);
    assert_eq!(of_one(Log, f32::INFINITY), f32::INFINITY);
    for x in [0.0, -0.0, 1e-40] {
        assert_eq!(of_one(Log, x), f32::NEG_INFINITY, "log({x})");
    }
    for x in [-f32::MIN_POSITIVE, -1e-40, -1.0, f32::MIN, f32::NEG_INFINITY] {
        assert!(of_one(Log, x).is_nan(), "log({x})");
    }
}

#[test]
fn tanh_is_odd_and_saturates_to_one() {
    for x in sweep(0.0, f32::MAX, false).into_iter().step_by(10).chain([f32::INFINITY]) {
        let y = of_one(Tanh, x);
        assert_eq!(of_one(Tanh, -x).to_bits(), (-y).to_bits(), "tanh(-{x})");
        assert!(x < 9.02 || y == 1.0, "tanh({x})");
        assert!(x > 1e-4 || y == x, "tanh({x})");
    }
}

#[test]
fn sin_and_cos_at_their_edges() {
    assert_eq!(of_one(Sin, 0.0), 0.0);
    assert_eq!(of_one(Cos, 0.0), 1.0);
    for x in [f32::INFINITY, f32::NEG_INFINITY] {
        assert!(of_one(Sin, x).is_nan() && of_one(Cos, x).is_nan());
    }
}

#[test]
fn nan_in_gives_nan_out_whatever_its_payload() {
    for bits in [0x7f80_0001, 0x7f80_01ff, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffc0_0000, 0xffff_ffff] {
        for function in [Exp, Log, Tanh, Logistic, Sin, Cos] {
            for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
                assert!(apply(isa, function, &[f32::from_bits(bits)])[0].is_nan(), "{function:?} of {bits:x} on {isa}");
            }
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    // All bit patterns are fair, spread evenly: subnormals, infinities, NaNs and far out of range.
    let mut inputs: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
    inputs.extend(sweep(1e-3, 100.0, true).into_iter().step_by(7));
    inputs.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, 1e-45, 88.722_83, -87.336_54, 9.02]);
    for function in [Exp, Log, Tanh, Logistic, Sin, Cos, SinOfBoth, CosOfBoth] {
        let expected = apply(Isa::Scalar, function, &inputs);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            for ((x, y), z) in inputs.iter().zip(&expected).zip(apply(isa, function, &inputs)) {
                let same = y.to_bits() == z.to_bits() || (y.is_nan() && z.is_nan());
                assert!(same, "{function:?}({x:e}) is {y:e} in scalar code and {z:e} on {isa}");
            }
        }
    }
}

#[test]
fn the_results_have_not_changed() {
    let inputs = sweep(1e-6, 80.0, true);
    let checksum = |function| {
        let results = apply(Isa::from_env().unwrap(), function, &inputs);
        results
            .iter()
            .filter(|y| !y.is_nan())
            .fold(0_u64, |sum, y| (sum ^ u64::from(y.to_bits())).wrapping_mul(0x100_0000_01b3))
    };
    for (function, kept) in [
        (Exp, 0xc0eb_7600_a8ba_6310),
        (Log, 0xf451_a15b_4168_0460),
        (Tanh, 0xcc84_640e_4426_9c8c),
        (Sin, 0xd311_62c7_89eb_7a4e),
        (Cos, 0x651b_5783_a858_ed70),
    ] {
        assert_eq!(checksum(function), kept, "{function:?}");
    }
}

#[test]
fn the_functions_of_one_number_are_the_vector_functions() {
    for x in sweep(1e-6, 1e4, true).into_iter().step_by(1000) {
        assert_eq!(math::scalar::exp(x), of_one(Exp, x));
        assert_eq!(math::scalar::log(x.abs()), of_one(Log, x.abs()));
        assert_eq!(math::scalar::tanh(x), of_one(Tanh, x));
        assert_eq!(math::scalar::sin_cos(x), (of_one(Sin, x), of_one(Cos, x)));
        assert_eq!((math::scalar::sin(x), math::scalar::cos(x)), (of_one(SinOfBoth, x), of_one(CosOfBoth, x)));
    }
}
