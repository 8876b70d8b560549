//! Half precision with stochastic rounding.

use hotloop_learn::tabular::half::{MAX, decode, encode};

#[test]
fn every_finite_value_round_trips() {
    for bits in 0..=u16::MAX {
        if bits & 0x7c00 != 0x7c00 {
            assert_eq!(encode(decode(bits), 0x1fff), bits, "{bits:#x}");
        }
    }
}

#[test]
fn the_mean_of_many_roundings_is_the_number() {
    let x = 0.700_123_4_f32;
    let mean: f64 = (0..8192).map(|dither| f64::from(decode(encode(x, dither)))).sum::<f64>() / 8192.0;
    assert!((mean - f64::from(x)).abs() < 1e-6, "{mean}");
}

#[test]
fn values_out_of_range_saturate() {
    assert_eq!(decode(encode(1e9, 0)), MAX);
    assert_eq!(decode(encode(-1e9, 77)), -MAX);
}
