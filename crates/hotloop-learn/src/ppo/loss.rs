//! The loss of a tile of rows, and the gradient of the outputs: rows in lanes.

use hotloop_core::math;
use hotloop_core::simd::{BLOCK, Floats, Simd};

use super::config::Settings;
use crate::distribution::{Categorical, Gaussian, SoftmaxCache, gaussian_entropy};
use crate::nn::net::{TILE, tree};
use crate::nn::policy::Policy;
use crate::nn::spec::Head;

/// Inputs of a tile's loss, column by column.
pub struct Batch {
    /// Rows in use.
    pub rows: usize,
    /// `[sets, TILE]` discrete actions.
    pub discrete: Vec<[u32; TILE]>,
    /// `[dims, TILE]` continuous actions.
    pub continuous: Vec<[f32; TILE]>,
    /// `[choices, TILE]` action masks; empty if all choices are allowed.
    pub mask: Vec<[f32; TILE]>,
    /// Log-probabilities when the actions were sampled.
    pub log_prob: [f32; TILE],
    /// Values when the actions were sampled.
    pub value: [f32; TILE],
    /// Advantages.
    pub advantage: [f32; TILE],
    /// Value targets.
    pub target: [f32; TILE],
    /// Weights, zero beyond `rows`.
    pub weight: [f32; TILE],
}

impl Batch {
    /// Allocates a tile.
    pub fn new(head: &Head, masked: bool) -> Self {
        Self {
            rows: 0,
            discrete: vec![[0; TILE]; head.sets.len()],
            continuous: vec![[0.0; TILE]; head.dims],
            mask: vec![[1.0; TILE]; if masked { head.logits() } else { 0 }],
            log_prob: [0.0; TILE],
            value: [0.0; TILE],
            advantage: [0.0; TILE],
            target: [0.0; TILE],
            weight: [0.0; TILE],
        }
    }
}

/// Weighted sums over rows, in sixteen lanes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sums {
    lanes: [[f32; BLOCK]; 6],
}

/// Weighted means over rows.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Means {
    /// Loss of the clipped surrogate objective.
    pub policy_loss: f64,
    /// Value loss, before its coefficient.
    pub value_loss: f64,
    /// The entropy.
    pub entropy: f64,
    /// Estimated KL divergence: the mean of ratio - 1 - log ratio.
    pub kl: f64,
    /// Fraction of clipped ratios.
    pub clip_fraction: f64,
    /// The sum of the weights.
    pub weight: f64,
}

impl Sums {
    /// Adds these totals to the sums of `means`.
    pub fn add_to(&self, means: &mut Means) {
        let total = |i: usize| f64::from(tree(self.lanes[i]));
        means.policy_loss += total(0);
        means.value_loss += total(1);
        means.entropy += total(2);
        means.kl += total(3);
        means.clip_fraction += total(4);
        means.weight += total(5);
    }
}

impl Means {
    /// Divides sums by the weights.
    pub fn finish(&mut self) {
        let weight = if self.weight > 0.0 { self.weight } else { 1.0 };
        for x in [&mut self.policy_loss, &mut self.value_loss, &mut self.entropy, &mut self.kl, &mut self.clip_fraction]
        {
            *x /= weight;
        }
    }
}

/// Accumulators over the tiles of a chunk.
pub struct Trace {
    cache: SoftmaxCache,
    /// The gradient of each log standard deviation, in sixteen lanes.
    pub log_std_lanes: Vec<[f32; BLOCK]>,
    /// Sums of the reported losses.
    pub sums: Sums,
}

impl Trace {
    /// For this policy.
    pub fn new(policy: &Policy) -> Self {
        Self {
            cache: SoftmaxCache::new(&policy.spec.head.sets),
            log_std_lanes: vec![[0.0; BLOCK]; policy.log_std().len()],
            sums: Sums::default(),
        }
    }

    /// Starts a chunk.
    pub fn clear(&mut self) {
        self.log_std_lanes.fill([0.0; BLOCK]);
        self.sums = Sums::default();
    }
}

/// Constants of a minibatch's loss.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// PPO's hyperparameters.
    pub settings: &'a Settings,
    /// Subtracted from advantages.
    pub advantage_mean: f32,
    /// Multiplied with advantages.
    pub advantage_scale: f32,
    /// One over the sum of weights.
    pub per_weight: f32,
    /// Whether every row has weight 1.
    pub uniform: bool,
}

/// Replaces the outputs by the gradient of the loss, adds the gradient of the log standard deviations to their lanes,
/// and adds up the reported losses.
#[inline(always)]
pub fn loss<S: Simd>(
    simd: S,
    policy: &Policy,
    batch: &Batch,
    terms: &Terms<'_>,
    outputs: (&mut [f32], &mut [f32]),
    trace: &mut Trace,
) {
    let Trace { cache, log_std_lanes, sums } = trace;
    let settings = terms.settings;
    let (logits, values) = outputs;
    let log_std = policy.log_std();
    let first_mean = policy.spec.head.logits();
    let (one, zero) = (simd.f(1.0), simd.f(0.0));
    for row in (0..batch.rows.next_multiple_of(BLOCK)).step_by(S::LANES) {
        let at = |column: &[f32; TILE]| {
            // SAFETY: vectors tile a block, and blocks the tile.
            unsafe { simd.load(column.as_ptr().add(row)) }
        };
        let weight = at(&batch.weight);
        let share = weight * simd.f(terms.per_weight);
        let advantage = (at(&batch.advantage) - simd.f(terms.advantage_mean)) * simd.f(terms.advantage_scale);
        let gaussian = |logits: &[f32], i: usize| Gaussian {
            // SAFETY: the outputs have a column for each dimension.
            mean: unsafe { simd.load(logits[(first_mean + i) * TILE + row..].as_ptr()) },
            log_std: simd.f(log_std[i]),
        };

        // The probability of the action, now.
        let mut log_prob = zero;
        let mut entropy = if log_std.is_empty() { zero } else { simd.f(gaussian_entropy(log_std)) };
        let mut first = 0;
        for (set, n) in policy.spec.head.sets.iter().enumerate() {
            let choices = columns(logits, batch, cache, row, first, *n);
            // SAFETY: the outputs have a column for each choice.
            unsafe {
                let soft = choices.softmax(simd);
                let taken = simd.load_u32(batch.discrete[set].as_ptr().add(row));
                log_prob = log_prob + choices.log_prob(simd, soft, taken);
                let own = choices.entropy(simd, soft);
                entropy = entropy + own;
                cache.put(set, row, soft, own);
            }
            first += n;
        }
        for (i, actions) in batch.continuous.iter().enumerate() {
            log_prob = log_prob + gaussian(logits, i).log_prob(simd, at(actions));
        }

        // The clipped surrogate: -min(ratio A, clip(ratio) A).
        let log_ratio = log_prob - at(&batch.log_prob);
        let ratio = math::exp(simd, log_ratio);
        let clip = simd.f(settings.clip);
        let bounded = ratio.max(one - clip).min(one + clip);
        let (free, held) = (ratio * advantage, bounded * advantage);
        let policy_loss = -held.min(free);
        let moves = free.le(held);
        let per_log_prob = (-free * share).select(moves, zero);

        // The value's loss: half the squared error, the larger one if clipped.
        let value = unsafe { simd.load(values.as_ptr().add(row)) };
        let target = at(&batch.target);
        let error = value - target;
        let mut value_loss = simd.f(0.5) * error * error;
        let mut per_value = error;
        if let Some(limit) = settings.value_clip {
            let (old, limit) = (at(&batch.value), simd.f(limit));
            let near = old + (value - old).max(-limit).min(limit);
            let near_loss = simd.f(0.5) * (near - target) * (near - target);
            // Inside the limit both are the same value, though they may be rounded differently.
            let held = limit.lt((value - old).abs()) & value_loss.lt(near_loss);
            value_loss = near_loss.select(held, value_loss);
            per_value = zero.select(held, per_value);
        }
        let per_value = per_value * share * simd.f(settings.value_weight);

        // Back to the outputs.
        let per_entropy = share * simd.f(settings.entropy);
        let counts = zero.lt(weight);
        let mut first = 0;
        for (set, n) in policy.spec.head.sets.iter().enumerate() {
            let choices = columns(logits, batch, cache, row, first, *n);
            let (soft, own) = cache.get(simd, set, row);
            // SAFETY: as above.
            unsafe {
                let taken = simd.load_u32(batch.discrete[set].as_ptr().add(row));
                choices.descend(simd, soft, taken, own, per_log_prob, per_entropy);
            }
            first += n;
        }
        for (i, actions) in batch.continuous.iter().enumerate() {
            // SAFETY: as above; the lanes of a vector are those of the block.
            unsafe {
                let offset = gaussian(logits, i).offset(simd, at(actions));
                let spread = math::exp(simd, simd.f(-log_std[i]));
                let lanes = log_std_lanes[i].as_mut_ptr().add(row % BLOCK);
                let per_log_std = per_log_prob * (offset * offset - one) - per_entropy;
                (simd.load(lanes) + per_log_std.select(counts, zero)).store(lanes);
                (per_log_prob * offset * spread).store(logits.as_mut_ptr().add((first_mean + i) * TILE + row));
            }
        }
        // Rows without weight may hold anything, and must not reach the gradient.
        for output in 0..policy.spec.head.outputs() {
            // SAFETY: as above.
            unsafe {
                let place = logits.as_mut_ptr().add(output * TILE + row);
                simd.load(place).select(counts, zero).store(place);
            }
        }
        // SAFETY: as above.
        unsafe { per_value.select(counts, zero).store(values.as_mut_ptr().add(row)) };

        let kl = (ratio - one) - log_ratio;
        let clipped = one.select(clip.lt((ratio - one).abs()), zero);
        for (lanes, x) in sums.lanes.iter_mut().zip([policy_loss, value_loss, entropy, kl, clipped, one]) {
            // SAFETY: as above.
            unsafe {
                let place = lanes.as_mut_ptr().add(row % BLOCK);
                (simd.load(place) + (x * weight).select(counts, zero)).store(place);
            }
        }
    }
}

#[inline(always)]
fn columns(logits: &[f32], batch: &Batch, cache: &mut SoftmaxCache, row: usize, first: usize, n: usize) -> Categorical {
    let mask = match batch.mask.get(first) {
        Some(column) => column[row..].as_ptr(),
        None => std::ptr::null(),
    };
    let exps = cache.exps[first][row..].as_mut_ptr();
    Categorical { logits: logits[first * TILE + row..].as_ptr(), mask, exps, n }
}
