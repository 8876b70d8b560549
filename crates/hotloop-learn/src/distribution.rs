//! Drawing actions and weighing them, with rows in lanes: outputs come as columns of `TILE` rows.
//!
//! Collecting and learning call the same functions in the same order, so a policy that has not changed gives an action
//! exactly the probability it was drawn with.

use hotloop_core::math;
use hotloop_core::rng::SimdStream;
use hotloop_core::simd::{Floats, Ints, Simd};

use crate::nn::net::TILE;

/// What a forbidden choice's preference becomes.
const FORBIDDEN: f32 = -1e30;
/// Half the logarithm of two pi.
pub const HALF_LOG_TAU: f32 = 0.918_938_5;

/// The columns of one set of choices, from the row that the vector starts with.
#[derive(Clone, Copy)]
pub struct Choices {
    /// Preferences of the first choice.
    pub logits: *const f32,
    /// Permissions (1 or 0) of the first choice; null if all are allowed.
    pub mask: *const f32,
    /// Room for the exponentials, laid out like the logits: `softmax` writes them, the others read them.
    pub weights: *mut f32,
    /// How many choices there are.
    pub n: usize,
}

/// A softmax over one set of choices; the exponentials are in [`Choices::weights`].
#[derive(Clone, Copy)]
pub struct Softmax<S: Simd> {
    /// The greatest preference.
    pub max: S::F,
    /// The sum of the exponentials.
    pub sum: S::F,
    /// Its logarithm.
    pub log_sum: S::F,
}

impl Choices {
    /// The preference for a choice.
    #[inline(always)]
    unsafe fn logit<S: Simd>(self, simd: S, choice: usize) -> S::F {
        // SAFETY: the caller promises `n` columns of TILE.
        unsafe {
            let logit = simd.load(self.logits.add(choice * TILE));
            if self.mask.is_null() {
                return logit;
            }
            let allowed = simd.f(0.5).lt(simd.load(self.mask.add(choice * TILE)));
            logit.select(allowed, simd.f(FORBIDDEN))
        }
    }

    #[inline(always)]
    unsafe fn weight<S: Simd>(self, simd: S, choice: usize) -> S::F {
        // SAFETY: the caller promises `n` columns of TILE.
        unsafe { simd.load(self.weights.add(choice * TILE)) }
    }

    /// Normalises the preferences.
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
                let weight = math::exp(simd, self.logit(simd, choice) - max);
                weight.store(self.weights.add(choice * TILE));
                sum = sum + weight;
            }
            Softmax { max, sum, log_sum: math::log(simd, sum) }
        }
    }

    /// The logarithm of the probability of the choices taken.
    ///
    /// # Safety
    /// As for `softmax`.
    #[inline(always)]
    pub unsafe fn log_prob<S: Simd>(self, simd: S, soft: Softmax<S>, taken: S::I) -> S::F {
        let mut chosen = simd.f(FORBIDDEN);
        for choice in 0..self.n {
            // SAFETY: the caller's promise.
            let logit = unsafe { self.logit(simd, choice) };
            chosen = logit.select(taken.eq(simd.u(choice as u32)), chosen);
        }
        (chosen - soft.max) - soft.log_sum
    }

    /// Draws choices with uniform numbers, by summing up probabilities until the number is reached.
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
            let weight = unsafe { self.weight(simd, choice) };
            sum = sum + weight;
            // The last choice with any weight stays taken if rounding keeps the sum below the goal.
            let possible = open & simd.f(0.0).lt(weight);
            taken = simd.u(choice as u32).select(possible, taken);
            open = open & sum.le(goal);
        }
        taken
    }

    /// The most probable choices; the first of equals.
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
            let (weight, logit) = unsafe { (self.weight(simd, choice), self.logit(simd, choice)) };
            sum = weight.fma(logit - soft.max, sum);
        }
        soft.log_sum - sum / soft.sum
    }

    /// Replaces the preferences by the gradient of `a log_prob(taken) - b entropy`.
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
                let p = self.weight(simd, choice) * per_sum;
                let hit = simd.f(1.0).select(taken.eq(simd.u(choice as u32)), simd.f(0.0));
                let surprise = (centred - soft.log_sum) + entropy;
                let gradient = (a * (hit - p)) + (b * p) * surprise;
                gradient.store(self.logits.cast_mut().add(choice * TILE));
            }
        }
    }
}

/// What is kept of a tile's choices between weighing them and going back.
pub struct Kept {
    /// `[choices, TILE]` exponentials.
    pub weights: Vec<[f32; TILE]>,
    /// `[sets, 4, TILE]` greatest preference, sum, its logarithm, entropy.
    sets: Vec<[[f32; TILE]; 4]>,
}

impl Kept {
    /// Room for these sets of choices.
    pub fn new(sets: &[usize]) -> Self {
        Self { weights: vec![[0.0; TILE]; sets.iter().sum()], sets: vec![[[0.0; TILE]; 4]; sets.len()] }
    }

    /// Keeps a set's softmax and entropy for the vector that starts at `row`.
    #[inline(always)]
    pub fn put<S: Simd>(&mut self, set: usize, row: usize, soft: Softmax<S>, entropy: S::F) {
        for (column, x) in self.sets[set].iter_mut().zip([soft.max, soft.sum, soft.log_sum, entropy]) {
            // SAFETY: vectors tile a block, and blocks the tile.
            unsafe { x.store(column[row..].as_mut_ptr()) };
        }
    }

    /// What was kept.
    #[inline(always)]
    pub fn get<S: Simd>(&self, simd: S, set: usize, row: usize) -> (Softmax<S>, S::F) {
        // SAFETY: as above.
        let at = |i: usize| unsafe { simd.load(self.sets[set][i][row..].as_ptr()) };
        (Softmax { max: at(0), sum: at(1), log_sum: at(2) }, at(3))
    }
}

/// The columns of normally distributed numbers.
#[derive(Clone, Copy)]
pub struct Normals<'a> {
    /// Means of the first number.
    pub means: *const f32,
    /// Logarithms of the standard deviations.
    pub log_std: &'a [f32],
}

impl Normals<'_> {
    /// Draws number `i` of each row.
    ///
    /// # Safety
    /// There are as many columns of `TILE` rows as standard deviations, and a whole vector of rows at the pointer.
    #[inline(always)]
    pub unsafe fn sample<S: Simd>(self, simd: S, i: usize, draws: SimdStream<S>) -> S::F {
        let (first, second) = draws.normals(simd, (i / 2) as u32);
        let noise = if i.is_multiple_of(2) { first } else { second };
        // SAFETY: the caller's promise.
        unsafe { math::exp(simd, simd.f(self.log_std[i])).fma(noise, self.mean(simd, i)) }
    }

    /// The mean, which is the most probable, of number `i`.
    ///
    /// # Safety
    /// As for `sample`.
    #[inline(always)]
    pub unsafe fn mean<S: Simd>(self, simd: S, i: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { simd.load(self.means.add(i * TILE)) }
    }

    /// How many standard deviations number `i` of each row lies off its mean.
    ///
    /// # Safety
    /// As for `sample`.
    #[inline(always)]
    pub unsafe fn offset<S: Simd>(self, simd: S, i: usize, taken: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { (taken - self.mean(simd, i)) * math::exp(simd, simd.f(-self.log_std[i])) }
    }

    /// What number `i` adds to the logarithm of the probability.
    ///
    /// # Safety
    /// As for `sample`.
    #[inline(always)]
    pub unsafe fn log_prob<S: Simd>(self, simd: S, i: usize, taken: S::F) -> S::F {
        // SAFETY: the caller's promise.
        let offset = unsafe { self.offset(simd, i, taken) };
        (simd.f(-0.5) * offset).fma(offset, simd.f(-self.log_std[i]) - simd.f(HALF_LOG_TAU))
    }

    /// The entropy of all numbers, the same for every row.
    pub fn entropy(self) -> f32 {
        self.log_std.iter().fold(0.0, |sum, x| sum + (x + 0.5 + HALF_LOG_TAU))
    }
}
