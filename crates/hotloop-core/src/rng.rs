//! Keyed random streams: what is drawn depends on a key and an index, never on how many draws came before.
//!
//! A [`Stream`] is a key of 64 bits. [`Stream::new`] makes one from the seed, the attempt and the purpose,
//! [`Stream::fold`] a new one for each index (env, episode, step, row, ...), and each draw is a pure function of its
//! stream and its number. [`SimdStream`] holds one stream per vector lane and returns the same bits; the scalar one is a
//! vector of one. Made for simulation and learning, not for secrets.

use crate::math;
use crate::simd::{Floats, Ints, Scalar, Simd};

/// Purpose of a random stream. Streams of different purposes are independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A policy's initial weights.
    Init,
    /// Events inside envs.
    Env,
    /// Sampling actions.
    Action,
    /// The order of minibatches.
    Shuffle,
    /// Evaluation's envs and actions.
    Eval,
}

/// One random stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Stream {
    /// The key's low word.
    pub lo: u32,
    /// The key's high word.
    pub hi: u32,
}

impl Stream {
    /// The stream that all others of that purpose are folded from. Different seeds never give the same.
    pub fn new(seed: u64, attempt: u32, purpose: Purpose) -> Self {
        Self { lo: seed as u32, hi: (seed >> 32) as u32 }.fold(attempt).fold(purpose as u32)
    }

    /// The stream of that index: unrelated to this one and to those of other indices, and never equal to the latter.
    #[inline(always)]
    #[must_use]
    pub fn fold(self, index: u32) -> Self {
        let SimdStream { lo, hi } = self.lanes(Scalar).fold(Scalar, Scalar.u(index));
        Self { lo: lo.0, hi: hi.0 }
    }

    /// The stream whose draw 0 is this one's draw `first`, and so on.
    #[inline(always)]
    #[must_use]
    pub fn skip(self, first: u32) -> Self {
        Self { lo: self.lo.wrapping_add(first.wrapping_mul(DRAW_STEP)), hi: self.hi }
    }

    /// 32 random bits.
    #[inline(always)]
    pub fn bits(self, draw: u32) -> u32 {
        self.lanes(Scalar).bits(Scalar, draw).0
    }

    /// A multiple of 2^-24 in [0, 1).
    #[inline(always)]
    pub fn uniform(self, draw: u32) -> f32 {
        self.lanes(Scalar).uniform(Scalar, draw).0
    }

    /// From `low` up to `high`, which rounding may reach.
    #[inline(always)]
    pub fn range(self, draw: u32, low: f32, high: f32) -> f32 {
        self.lanes(Scalar).range(Scalar, draw, Scalar.f(low), Scalar.f(high)).0
    }

    /// One of 0, ..., n - 1; their chances differ by less than 2^-32. `n` must not be 0.
    #[inline(always)]
    pub fn below(self, draw: u32, n: u32) -> u32 {
        debug_assert!(n > 0, "there is no number below 0");
        ((u64::from(self.bits(draw)) * u64::from(n)) >> 32) as u32
    }

    /// Two independent standard normal numbers, see [`SimdStream::normals`].
    #[inline(always)]
    pub fn normals(self, draw: u32) -> (f32, f32) {
        let (x, y) = self.lanes(Scalar).normals(Scalar, draw);
        (x.0, y.0)
    }

    /// This stream in every lane.
    #[inline(always)]
    pub fn lanes<S: Simd>(self, s: S) -> SimdStream<S> {
        SimdStream { lo: s.u(self.lo), hi: s.u(self.hi) }
    }
}

/// One random stream per lane.
#[derive(Clone, Copy)]
pub struct SimdStream<S: Simd> {
    /// The keys' low words.
    pub lo: S::I,
    /// The keys' high words.
    pub hi: S::I,
}

// The multipliers of lowbias32 (Chris Wellons' search for the least biased mixer of this form) and two odd numbers that
// spread consecutive indices and draws over all bits: 2^32 over the golden ratio, and 2^32 over the plastic number.
const MIX_1: u32 = 0x7feb_352d;
const MIX_2: u32 = 0x846c_a68b;
const DRAW_STEP: u32 = 0x9e37_79b9;
const INDEX_STEP: u32 = 0xc13f_a9a9;

impl<S: Simd> SimdStream<S> {
    /// The streams of these indices; see [`Stream::fold`].
    ///
    /// Two Feistel rounds: for one index a bijection of the keys, and for one key the low words of all indices differ.
    #[inline(always)]
    #[must_use]
    pub fn fold(self, s: S, index: S::I) -> Self {
        // One is added so that index 0 of the key 0 is not a fixed point.
        let spread = (index + s.u(1)) * s.u(INDEX_STEP);
        let lo = self.lo ^ mix(s, self.hi ^ spread);
        let hi = self.hi ^ mix(s, lo + spread);
        Self { lo, hi }
    }

    /// 32 random bits per lane.
    ///
    /// Within a stream all 2^32 draws differ; the high word enters in the middle, so that streams whose low words are
    /// draws apart do not run after each other.
    #[inline(always)]
    pub fn bits(self, s: S, draw: u32) -> S::I {
        let x = self.lo + s.u(draw.wrapping_mul(DRAW_STEP));
        let x = (x ^ x.shr::<16>()) * s.u(MIX_1);
        let x = x ^ self.hi;
        let x = (x ^ x.shr::<15>()) * s.u(MIX_2);
        x ^ x.shr::<16>()
    }

    /// Multiples of 2^-24 in [0, 1).
    #[inline(always)]
    pub fn uniform(self, s: S, draw: u32) -> S::F {
        self.bits(s, draw).shr::<8>().i32_to_f32() * s.f(1.0 / 16_777_216.0)
    }

    /// From `low` up to `high`, which rounding may reach.
    #[inline(always)]
    pub fn range(self, s: S, draw: u32, low: S::F, high: S::F) -> S::F {
        self.uniform(s, draw).fma(high - low, low)
    }

    /// Two independent standard normal numbers per lane, none beyond 5.77 (24 bits give no more), by Box and Muller.
    /// They use the uniform draws `2 * draw` and `2 * draw + 1`.
    #[inline(always)]
    pub fn normals(self, s: S, draw: u32) -> (S::F, S::F) {
        let first = draw.wrapping_mul(2);
        // In (0, 1]: the logarithm is finite.
        let chance = s.f(1.0) - self.uniform(s, first);
        let angle = self.uniform(s, first.wrapping_add(1)) * s.f(std::f32::consts::TAU);
        let radius = (s.f(-2.0) * math::log(s, chance)).sqrt();
        let (sin, cos) = math::sin_cos(s, angle);
        (radius * cos, radius * sin)
    }
}

/// A bijection of 32 bits in which each bit of the input turns over each bit of the output half the time.
#[inline(always)]
fn mix<S: Simd>(s: S, x: S::I) -> S::I {
    let x = (x ^ x.shr::<16>()) * s.u(MIX_1);
    let x = (x ^ x.shr::<15>()) * s.u(MIX_2);
    x ^ x.shr::<16>()
}
