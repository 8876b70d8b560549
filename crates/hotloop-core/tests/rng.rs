//! The random streams: that they look random in every direction they are used in, that all instruction sets draw the
//! same, and that nobody changes them by accident.

use hotloop_core::rng::{Purpose, SimdStream, Stream};
use hotloop_core::simd::{BLOCK, Floats, Ints, Isa, Kernel, Simd};
use proptest::prelude::*;

const WORDS: u32 = 1 << 18;
/// Each test below looks at some thousands of statistics: by chance one in 10^9 would lie beyond this.
const SIGMAS: f64 = 6.0;

fn stream(seed: u64) -> Stream {
    Stream::new(seed, 0, Purpose::Env)
}

/// How many standard deviations chi squared lies from its mean, for draws that should fall evenly into the cells.
fn unevenness(cells: usize, draws: impl Iterator<Item = usize>) -> f64 {
    let mut counts = vec![0_u32; cells];
    draws.for_each(|cell| counts[cell] += 1);
    let expected = f64::from(counts.iter().sum::<u32>()) / cells as f64;
    let chi_squared: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    let freedom = (cells - 1) as f64;
    (chi_squared - freedom) / (2.0 * freedom).sqrt()
}

/// The largest deviation, in standard deviations, of a sequence of words from what fair coins would give, and where.
fn largest_deviation(words: &[u32]) -> (f64, String) {
    let mut worst = (0.0, String::new());
    let mut note = |sigmas: f64, what: String| {
        if sigmas.abs() > worst.0 {
            worst = (sigmas.abs(), what);
        }
    };
    let n = words.len() as f64;
    for bit in 0..32 {
        let ones = words.iter().filter(|&w| w >> bit & 1 == 1).count() as f64;
        note((ones - n / 2.0) / (n / 4.0).sqrt(), format!("bit {bit}"));
        for distance in [1, 2, 3, 8, 256] {
            let changes = words.iter().zip(&words[distance..]).filter(|(a, b)| (*a ^ *b) >> bit & 1 == 1).count();
            let pairs = n - distance as f64;
            let sigmas = (changes as f64 - pairs / 2.0) / (pairs / 4.0).sqrt();
            note(sigmas, format!("bit {bit} of words {distance} apart"));
        }
    }
    for shift in 0..=24 {
        let byte = |w: &u32| (w >> shift & 0xff) as usize;
        note(unevenness(256, words.iter().map(byte)), format!("the byte from bit {shift}"));
        let nibble = |w: u32| (w >> shift & 0xf) as usize;
        let pairs = words.windows(2).map(|w| nibble(w[0]) << 4 | nibble(w[1]));
        // Overlapping pairs depend on each other, which widens the distribution a little.
        note(unevenness(256, pairs) / 1.2, format!("neighbours' nibbles from bit {shift}"));
    }
    let sum: f64 = words.windows(2).map(|w| centred(w[0]) * centred(w[1])).sum();
    note(sum / n.sqrt(), "neighbours' correlation".into());
    worst
}

/// A word as a number of mean 0 and variance 1.
fn centred(word: u32) -> f64 {
    (f64::from(word) / 2.0_f64.powi(32) - 0.5) * 12.0_f64.sqrt()
}

fn sequence(word: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..WORDS).map(word).collect()
}

fn assert_random(name: &str, word: impl Fn(u32) -> u32) {
    let (sigmas, what) = largest_deviation(&sequence(word));
    println!("{name}: {sigmas:.2} sigmas, {what}");
    assert!(sigmas < SIGMAS, "{name}: {what} is {sigmas} standard deviations off");
}

#[test]
fn the_statistics_find_generators_that_are_not_random() {
    let congruential =
        |i: u32| (0..i % 1024).fold(i / 1024, |x, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let one_multiplication = |i: u32| {
        let x = i.wrapping_mul(0x9e37_79b9);
        (x ^ x >> 16).wrapping_mul(0x7feb_352d)
    };
    for words in [sequence(|i| i.wrapping_mul(0x9e37_79b9)), sequence(congruential), sequence(one_multiplication)] {
        assert!(largest_deviation(&words).0 > 2.0 * SIGMAS);
    }
}

#[test]
fn draws_of_a_stream_are_random() {
    for seed in [0, 1, u64::MAX] {
        assert_random("consecutive draws", |i| stream(seed).bits(i));
        assert_random("draws 2^14 apart", |i| stream(seed).bits(i << 14));
    }
}

#[test]
fn streams_of_neighbouring_indices_are_random_to_each_other() {
    let env = stream(1);
    assert_random("consecutive indices", |i| env.fold(i).bits(0));
    assert_random("consecutive indices, a later draw", |i| env.fold(i).bits(1000));
    assert_random("high indices", |i| env.fold(i << 14).bits(0));
    assert_random("two indices", |i| env.fold(i >> 9).fold(i & 511).bits(0));
    assert_random("two indices, the other way", |i| env.fold(i & 511).fold(i >> 9).bits(0));
    assert_random("index and draw", |i| env.fold(i >> 3).bits(i & 7));
    assert_random("draw and index", |i| env.fold(i & 511).bits(i >> 9));
    assert_random("differences of neighbouring streams", |i| env.fold(7).bits(i) ^ env.fold(8).bits(i));
    assert_random("an index and the same draw", |i| env.fold(i).bits(i));
    assert_random("high words of the keys", |i| env.fold(i).hi);
}

#[test]
fn streams_of_neighbouring_seeds_attempts_and_purposes_are_random_to_each_other() {
    assert_random("consecutive seeds", |i| stream(u64::from(i)).bits(0));
    assert_random("low words of consecutive seeds' keys", |i| stream(u64::from(i)).lo);
    assert_random("high words of consecutive seeds' keys", |i| stream(u64::from(i)).hi);
    assert_random("seeds that differ in their high words", |i| stream(u64::from(i) << 32).bits(0));
    assert_random("consecutive seeds, folded", |i| stream(u64::from(i)).fold(0).bits(0));
    assert_random("consecutive attempts", |i| Stream::new(5, i, Purpose::Shuffle).bits(0));
    let purposes = [Purpose::Init, Purpose::Env, Purpose::Action, Purpose::Shuffle, Purpose::Eval];
    for (i, a) in purposes.into_iter().enumerate() {
        for b in &purposes[i + 1..] {
            let (a, b) = (Stream::new(9, 0, a), Stream::new(9, 0, *b));
            assert_random("differences of two purposes", |i| a.bits(i) ^ b.bits(i));
        }
    }
}

#[test]
fn keys_collide_no_more_often_than_chance_has_it() {
    let collisions = |mut keys: Vec<u64>| {
        keys.sort_unstable();
        keys.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    let key = |s: Stream| u64::from(s.hi) << 32 | u64::from(s.lo);
    let one_level: Vec<Stream> = (0..1 << 20).map(|i| stream(3).fold(i)).collect();
    let two_levels: Vec<Stream> = (0..1 << 20).map(|i| stream(3).fold(i >> 10).fold(i & 1023)).collect();
    assert_eq!(collisions(one_level.iter().map(|s| s.lo.into()).collect()), 0, "low words of one fold never collide");
    assert_eq!(collisions(two_levels.iter().map(|&s| key(s)).collect()), 0);
    // Half of 2^40 pairs of words of 32 bits: 128 are expected, with a standard deviation of 11.
    let high: fn(&Stream) -> u64 = |s| s.hi.into();
    let low: fn(&Stream) -> u64 = |s| s.lo.into();
    for (name, keys, word) in [("one", &one_level, high), ("two", &two_levels, high), ("two", &two_levels, low)] {
        let found = collisions(keys.iter().map(word).collect());
        assert!((60..196).contains(&found), "{found} collisions of words after {name} folds");
    }
}

#[test]
fn every_bit_of_the_key_turns_over_every_bit_of_the_draw_half_the_time() {
    const SAMPLES: u32 = 1 << 14;
    let draw = |seed: u64, attempt: u32, index: u32, draw: u32| {
        Stream::new(seed, attempt, Purpose::Action).fold(index).bits(draw)
    };
    for input_bit in 0..160_u32 {
        let mut flips = [0_u32; 32];
        for sample in 0..SAMPLES {
            let any = stream(77).fold(sample);
            let (seed, attempt) = (u64::from(any.bits(0)) << 32 | u64::from(any.bits(1)), any.bits(2));
            let (index, number) = (any.bits(3), any.bits(4));
            let bit = |first: u32| 1_u32.checked_shl(input_bit.wrapping_sub(first)).unwrap_or(0);
            let seed_bit = u64::from(bit(0)) | u64::from(bit(32)) << 32;
            let changed = draw(seed ^ seed_bit, attempt ^ bit(64), index ^ bit(96), number ^ bit(128));
            let difference = draw(seed, attempt, index, number) ^ changed;
            flips.iter_mut().enumerate().for_each(|(i, n)| *n += difference >> i & 1);
        }
        for (output_bit, n) in flips.into_iter().enumerate() {
            let share = f64::from(n) / f64::from(SAMPLES);
            assert!(
                (share - 0.5).abs() < 0.03,
                "input bit {input_bit} turns output bit {output_bit} with chance {share}"
            );
        }
    }
}

#[test]
fn numbers_below_a_bound_are_evenly_spread() {
    for n in [2, 3, 5, 6, 7, 10, 100, 1000] {
        let draws = (0..WORDS).map(|i| stream(n.into()).below(i, n) as usize);
        let sigmas = unevenness(n as usize, draws);
        assert!(sigmas.abs() < SIGMAS, "below {n}: {sigmas}");
        let indices = (0..WORDS).map(|i| stream(n.into()).fold(i).below(0, n) as usize);
        assert!(unevenness(n as usize, indices).abs() < SIGMAS, "below {n} over indices");
    }
    assert_eq!(stream(0).below(0, 1), 0);
}

#[test]
fn normals_have_the_moments_and_tails_of_the_normal_distribution() {
    let n = 1 << 19;
    let pairs: Vec<(f64, f64)> = (0..n).map(|i| stream(4).normals(i)).map(|(x, y)| (x.into(), y.into())).collect();
    let n = f64::from(n);
    for values in [pairs.iter().map(|p| p.0).collect::<Vec<_>>(), pairs.iter().map(|p| p.1).collect()] {
        let moment = |k: i32| values.iter().map(|x| x.powi(k)).sum::<f64>() / n;
        let close = |k: i32, expected: f64, variance: f64| {
            let sigmas = (moment(k) - expected) / (variance / n).sqrt();
            assert!(sigmas.abs() < 5.0, "moment {k} is {} ({sigmas} standard deviations off)", moment(k));
        };
        close(1, 0.0, 1.0);
        close(2, 1.0, 2.0);
        close(3, 0.0, 15.0);
        close(4, 3.0, 96.0);
        for (beyond, chance) in [(1.0, 0.317_310_5), (2.0, 0.045_500_26), (3.0, 0.002_699_796)] {
            let count = values.iter().filter(|x| x.abs() > beyond).count() as f64;
            let sigmas = (count - n * chance) / (n * chance).sqrt();
            assert!(sigmas.abs() < 5.0, "{count} beyond {beyond}");
        }
        assert!(values.iter().all(|x| x.abs() < 5.78));
    }
    let product = pairs.iter().map(|(x, y)| x * y).sum::<f64>() / n.sqrt();
    let product_of_squares = pairs.iter().map(|(x, y)| (x * x - 1.0) * (y * y - 1.0)).sum::<f64>() / (4.0 * n).sqrt();
    assert!(product.abs() < 5.0 && product_of_squares.abs() < 5.0, "{product} {product_of_squares}");
}

/// Per lane: the folded key, a draw's bits, a uniform, a number of a range and two normals, as bits.
struct DrawAll {
    base: Stream,
    index: u32,
    draw: u32,
}

impl Kernel for DrawAll {
    type Output = Vec<[u32; BLOCK]>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut rows = vec![[0; BLOCK]; 7];
        for at in (0..BLOCK).step_by(S::LANES) {
            let index = s.u(self.index.wrapping_add(at as u32)) + s.lane_index();
            let lanes: SimdStream<S> = self.base.lanes(s).fold(s, index);
            let (x, y) = lanes.normals(s, self.draw);
            let range = lanes.range(s, self.draw, s.f(-0.05), s.f(0.05));
            let floats = [lanes.uniform(s, self.draw), range, x, y].map(Floats::to_bits);
            let words = [lanes.lo, lanes.hi, lanes.bits(s, self.draw)];
            for (row, value) in rows.iter_mut().zip(words.into_iter().chain(floats)) {
                // SAFETY: the lanes from `at` on fit, because their number divides the block.
                unsafe { value.store(row[at..].as_mut_ptr()) };
            }
        }
        rows
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_instruction_sets_draw_the_same(seed: u64, index: u32, draw: u32) {
        let base = stream(seed);
        let mut expected = vec![[0; BLOCK]; 7];
        for lane in 0..BLOCK {
            let one = base.fold(index.wrapping_add(lane as u32));
            let (x, y) = one.normals(draw);
            let range = one.range(draw, -0.05, 0.05);
            let floats = [one.uniform(draw), range, x, y].map(f32::to_bits);
            for (row, value) in expected.iter_mut().zip([one.lo, one.hi, one.bits(draw)].into_iter().chain(floats)) {
                row[lane] = value;
            }
        }
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            prop_assert_eq!(&isa.run(DrawAll { base, index, draw }), &expected, "{}", isa);
        }
    }

    #[test]
    fn draws_stay_within_their_bounds(seed: u64, draw: u32, n in 1_u32.., low in -1e6_f32..1e6, width in 0_f32..1e6) {
        let s = stream(seed);
        prop_assert!(s.below(draw, n) < n);
        prop_assert!((0.0..1.0).contains(&s.uniform(draw)));
        prop_assert!((low..=low + width).contains(&s.range(draw, low, low + width)));
    }
}

#[test]
fn the_streams_have_not_changed() {
    let base = Stream::new(42, 0, Purpose::Env);
    assert_eq!(base, Stream { lo: 0x7ded_4ce7, hi: 0x5080_0e8e });
    assert_eq!([base.bits(0), base.bits(1)], [0x608e_eec5, 0x4e10_a8cf]);
    let folded = Stream::new(u64::MAX, 3, Purpose::Eval).fold(7).fold(1_000_000);
    assert_eq!(folded, Stream { lo: 0xbe6e_8623, hi: 0xa232_a64c });
    assert_eq!(folded.bits(u32::MAX), 0x1a4e_7228);
    assert_eq!(folded.uniform(2).to_bits(), 0x3f13_497d);
    assert_eq!(folded.range(3, -1.0, 3.0).to_bits(), 0x3fb9_f4fa);
    assert_eq!(folded.below(4, 1000), 648);
    let (x, y) = folded.normals(5);
    assert_eq!([x.to_bits(), y.to_bits()], [0x3f24_0105, 0x3f8c_3087]);
    let far = (0..1000).fold(base, |s, i| s.fold(s.bits(i)));
    assert_eq!(far, Stream { lo: 0xa0cf_d999, hi: 0x7164_1aa8 });
}
