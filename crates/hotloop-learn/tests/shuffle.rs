//! The order of minibatches is a bijection, the same at every width, and different for every key.

use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::Isa;
use hotloop_learn::ppo::shuffle::Shuffle;
use proptest::prelude::*;

fn order(isa: Isa, seed: u64, n: usize) -> Vec<u32> {
    let mut order = vec![0; n];
    Shuffle::new(Stream::new(seed, 0, Purpose::Shuffle), n).fill(isa, 0, &mut order);
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_number_comes_once(seed: u64, n in 1_usize..3000) {
        let mut numbers = order(Isa::Scalar, seed, n);
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..n as u32).collect::<Vec<_>>());
    }

    #[test]
    fn every_width_and_every_cut_gives_the_same_order(seed: u64, n in 1_usize..3000, cut in 0.0_f64..1.0) {
        let expected = order(Isa::Scalar, seed, n);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            prop_assert_eq!(&order(isa, seed, n), &expected);
            let middle = (cut * n as f64) as usize;
            let shuffle = Shuffle::new(Stream::new(seed, 0, Purpose::Shuffle), n);
            let mut parts = vec![0; n];
            let (first, second) = parts.split_at_mut(middle);
            shuffle.fill(isa, 0, first);
            shuffle.fill(isa, middle, second);
            prop_assert_eq!(&parts, &expected);
        }
    }
}

#[test]
fn places_are_spread_evenly() {
    // Over many keys, each number is equally likely at each place: chi-squared over a small order.
    const N: usize = 24;
    const KEYS: u64 = 24_000;
    let mut counts = vec![0_u32; N * N];
    for seed in 0..KEYS {
        for (place, number) in order(Isa::Scalar, seed, N).iter().enumerate() {
            counts[place * N + *number as usize] += 1;
        }
    }
    let expected = KEYS as f64 / N as f64;
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    let freedom = ((N - 1) * (N - 1)) as f64;
    let sigmas = (chi - freedom) / (2.0 * freedom).sqrt();
    assert!(sigmas.abs() < 6.0, "chi-squared is {sigmas} deviations off");
}
