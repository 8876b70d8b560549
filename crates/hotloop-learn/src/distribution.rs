//! Action distributions (categorical and diagonal Gaussian) with rows in SIMD lanes: outputs are columns of `TILE` rows.
//!
//! Collecting and learning call the same functions in the same order, so an unchanged policy assigns an action exactly
//! the probability with which it was sampled.

use hotloop_core::math;
use hotloop_core::simd::{Floats, Ints, Simd};

use crate::nn::net::TILE;

/// Logit of a masked choice.
const MASKED: f32 = -1e30;
/// Half the logarithm of two pi.
const HALF_LOG_TAU: f32 = 0.918_938_5;

/// A categorical distribution: its columns, from the first row of the vector.
#[derive(Clone, Copy)]
pub struct Categorical {
    /// Logits of the first choice.
    pub logits: *const f32,
    /// Mask (1 or 0) of the first choice; null if all are allowed.
    pub mask: *const f32,
    /// Buffer for the exponentials, laid out like the logits: `softmax` writes them, the others read them.
    pub exps: *mut f32,
    /// Number of choices.
    pub n: usize,
}

/// A softmax; the exponentials are in [`Categorical::exps`].
#[derive(Clone, Copy)]
pub struct Softmax<S: Simd> {
    /// The greatest logit.
    pub max: S::F,
    /// The sum of the exponentials.
    pub sum: S::F,
    /// The logarithm of the sum.
    pub log_sum: S::F,
}

impl Categorical {
    /// The masked logit of a choice.
    #[inline(always)]
    unsafe fn logit<S: Simd>(self, simd: S, choice: usize) -> S::F {
        // SAFETY: the caller promises `n` columns of TILE.
        unsafe {
            let logit = simd.load(self.logits.add(choice * TILE));
            if self.mask.is_null() {
                return logit;
            }
            let allowed = simd.f(0.5).lt(simd.load(self.mask.add(choice * TILE)));
            logit.select(allowed, simd.f(MASKED))
        }
    }

    #[inline(always)]
    unsafe fn exp<S: Simd>(self, simd: S, choice: usize) -> S::F {
        // SAFETY: the caller promises `n` columns of TILE.
        unsafe { simd.load(self.exps.add(choice * TILE)) }
    }

    /// Computes the softmax of the logits.
    ///
    /// # Safety
    /// There are `n` columns of `TILE` rows, and a whole vector of rows at the pointers.
    #[inline(always)]
    pub unsafe fn softmax<S: Simd>(self, simd: S) -> Softmax<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let mut max = self.logit(simd, 0);
            for choice in 1..self.n {
                max = self.logit(simd, choice).max(max);
            }
            let mut sum = simd.f(0.0);
            for choice in 0..self.n {
                let exp = math::exp(simd, self.logit(simd, choice) - max);
                exp.store(self.exps.add(choice * TILE));
                sum = sum + exp;
            }
            Softmax { max, sum, log_sum: math::log(simd, sum) }
        }
    }

    /// The log-probability of the choices taken.
    ///
    /// # Safety
    /// As for `softmax`.
    #[inline(always)]
    pub unsafe fn log_prob<S: Simd>(self, simd: S, soft: Softmax<S>, taken: S::I) -> S::F {
        let mut chosen = simd.f(MASKED);
        for choice in 0..self.n {
            // SAFETY: the caller's promise.
            let logit = unsafe { self.logit(simd, choice) };
            chosen = logit.select(taken.eq(simd.u(choice as u32)), chosen);
        }
        (chosen - soft.max) - soft.log_sum
    }

    /// Samples choices by inverting the cumulative distribution at uniform numbers.
    ///
    /// # Safety
    /// As for `softmax`.
    #[inline(always)]
    pub unsafe fn sample<S: Simd>(self, simd: S, soft: Softmax<S>, uniform: S::F) -> S::I {
        let goal = uniform * soft.sum;
        let mut sum = simd.f(0.0);
        let mut taken = simd.u(0);
        let mut open = simd.m(true);
        for choice in 0..self.n {
            // SAFETY: the caller's promise.
            let exp = unsafe { self.exp(simd, choice) };
            sum = sum + exp;
            // The last choice of positive probability stays taken if rounding keeps the sum below the goal.
            let possible = open & simd.f(0.0).lt(exp);
            taken = simd.u(choice as u32).select(possible, taken);
            open = open & sum.le(goal);
        }
        taken
    }

    /// The most probable choices; ties go to the first.
    ///
    /// # Safety
    /// As for `softmax`.
    #[inline(always)]
    pub unsafe fn mode<S: Simd>(self, simd: S) -> S::I {
        // SAFETY: the caller's promise.
        unsafe {
            let mut best = self.logit(simd, 0);
            let mut taken = simd.u(0);
            for choice in 1..self.n {
                let logit = self.logit(simd, choice);
                let better = best.lt(logit);
                best = logit.select(better, best);
                taken = simd.u(choice as u32).select(better, taken);
            }
            taken
        }
    }

    /// The entropy.
    ///
    /// # Safety
    /// As for `softmax`.
    #[inline(always)]
    pub unsafe fn entropy<S: Simd>(self, simd: S, soft: Softmax<S>) -> S::F {
        let mut sum = simd.f(0.0);
        for choice in 0..self.n {
            // SAFETY: the caller's promise.
            let (exp, logit) = unsafe { (self.exp(simd, choice), self.logit(simd, choice)) };
            sum = exp.fma(logit - soft.max, sum);
        }
        soft.log_sum - sum / soft.sum
    }

    /// Replaces the logits by the gradient of `a log_prob(taken) - b entropy`.
    ///
    /// # Safety
    /// As for `softmax`; the logits can be written.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // the terms of the formula
    pub unsafe fn descend<S: Simd>(self, simd: S, soft: Softmax<S>, taken: S::I, entropy: S::F, a: S::F, b: S::F) {
        let per_sum = simd.f(1.0) / soft.sum;
        for choice in 0..self.n {
            // SAFETY: the caller's promise.
            unsafe {
                let centred = self.logit(simd, choice) - soft.max;
                let p = self.exp(simd, choice) * per_sum;
                let hit = simd.f(1.0).select(taken.eq(simd.u(choice as u32)), simd.f(0.0));
                let surprise = (centred - soft.log_sum) + entropy;
                let gradient = (a * (hit - p)) + (b * p) * surprise;
                gradient.store(self.logits.cast_mut().add(choice * TILE));
            }
        }
    }
}

/// Softmaxes of a tile, kept between the forward and the backward pass.
pub struct SoftmaxCache {
    /// `[choices, TILE]` exponentials.
    pub exps: Vec<[f32; TILE]>,
    /// `[sets, 4, TILE]` greatest logit, sum, its logarithm, entropy.
    sets: Vec<[[f32; TILE]; 4]>,
}

impl SoftmaxCache {
    /// For categorical distributions of these sizes.
    pub fn new(sets: &[usize]) -> Self {
        Self { exps: vec![[0.0; TILE]; sets.iter().sum()], sets: vec![[[0.0; TILE]; 4]; sets.len()] }
    }

    /// Stores the softmax and entropy of a set, for the vector that starts at `row`.
    #[inline(always)]
    pub fn put<S: Simd>(&mut self, set: usize, row: usize, soft: Softmax<S>, entropy: S::F) {
        for (column, x) in self.sets[set].iter_mut().zip([soft.max, soft.sum, soft.log_sum, entropy]) {
            // SAFETY: vectors tile a block, and blocks the tile.
            unsafe { x.store(column[row..].as_mut_ptr()) };
        }
    }

    /// Returns the stored softmax and entropy.
    #[inline(always)]
    pub fn get<S: Simd>(&self, simd: S, set: usize, row: usize) -> (Softmax<S>, S::F) {
        // SAFETY: as above.
        let at = |i: usize| unsafe { simd.load(self.sets[set][i][row..].as_ptr()) };
        (Softmax { max: at(0), sum: at(1), log_sum: at(2) }, at(3))
    }
}

/// A normal distribution per row: one dimension of a diagonal Gaussian.
#[derive(Clone, Copy)]
pub struct Gaussian<S: Simd> {
    /// Means.
    pub mean: S::F,
    /// Logarithms of the standard deviations.
    pub log_std: S::F,
}

impl<S: Simd> Gaussian<S> {
    /// Transforms standard normal noise into a sample.
    #[inline(always)]
    pub fn sample(self, simd: S, noise: S::F) -> S::F {
        math::exp(simd, self.log_std).fma(noise, self.mean)
    }

    /// The distance of `x` from the mean, in standard deviations.
    #[inline(always)]
    pub fn offset(self, simd: S, x: S::F) -> S::F {
        (x - self.mean) * math::exp(simd, -self.log_std)
    }

    /// The log-density at `x`.
    #[inline(always)]
    pub fn log_prob(self, simd: S, x: S::F) -> S::F {
        let offset = self.offset(simd, x);
        (simd.f(-0.5) * offset).fma(offset, -self.log_std - simd.f(HALF_LOG_TAU))
    }
}

/// The entropy of a diagonal Gaussian, the same for every row.
pub fn gaussian_entropy(log_std: &[f32]) -> f32 {
    log_std.iter().fold(0.0, |sum, x| sum + (x + 0.5 + HALF_LOG_TAU))
}
