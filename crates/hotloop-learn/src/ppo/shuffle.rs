//! The order of minibatches: a keyed permutation of 0..n, computed element by element.

use hotloop_core::rng::Stream;
use hotloop_core::simd::{Ints, Isa, Kernel, Scalar, Simd};

/// A random permutation of the numbers below `n`.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    n: u32,
    bits: u32,
    factors: [u32; ROUNDS],
    offsets: [u32; ROUNDS],
}

const ROUNDS: usize = 4;

impl Shuffle {
    /// The permutation keyed by this stream.
    pub fn new(stream: Stream, n: usize) -> Self {
        let bits = (n.max(2) as u32 - 1).ilog2() + 1;
        let factors = std::array::from_fn(|i| stream.bits(2 * i as u32) | 1);
        let offsets = std::array::from_fn(|i| stream.bits(2 * i as u32 + 1));
        Self { n: n as u32, bits, factors, offsets }
    }

    /// Permutes the numbers of `bits` bits: every operation is invertible.
    #[inline(always)]
    fn mix<S: Simd>(&self, simd: S, mut x: S::I) -> S::I {
        let mask = simd.u(u32::MAX >> (32 - self.bits));
        for round in 0..ROUNDS {
            x = (x * simd.u(self.factors[round]) + simd.u(self.offsets[round])) & mask;
            x = x ^ x.shr_by(self.bits.div_ceil(2));
        }
        x
    }

    /// Writes elements `first..` of the permutation.
    pub fn fill(&self, isa: Isa, first: usize, order: &mut [u32]) {
        isa.run(Fill { shuffle: self, first: first as u32, order });
    }
}

struct Fill<'a> {
    shuffle: &'a Shuffle,
    first: u32,
    order: &'a mut [u32],
}

impl Kernel for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut chunks = self.order.chunks_exact_mut(S::LANES);
        let mut at = self.first;
        for chunk in &mut chunks {
            // SAFETY: the chunk has as many elements as a vector lanes.
            unsafe { self.shuffle.mix(simd, simd.lane_index() + simd.u(at)).store(chunk.as_mut_ptr()) };
            at += S::LANES as u32;
        }
        for x in chunks.into_remainder() {
            *x = self.shuffle.mix(Scalar, Scalar.u(at)).0;
            at += 1;
        }
        // The permutation is of a power of two; elements outside 0..n are permuted again until they fall inside.
        for x in self.order.iter_mut() {
            while *x >= self.shuffle.n {
                *x = self.shuffle.mix(Scalar, Scalar.u(*x)).0;
            }
        }
    }
}
