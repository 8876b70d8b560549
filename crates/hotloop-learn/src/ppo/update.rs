//! The PPO update: for each epoch, for each minibatch, a gradient step on the loss.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotloop_core::parallel::ParallelFor;
use hotloop_core::rng::Stream;
use hotloop_core::simd::{Isa, Kernel, Simd};

use super::adam::{Adam, AdamStep, add_chunks};
use super::chunks::spans;
use super::config::Settings;
use super::gather::{gather, prefetch_rows};
use super::loss::{Batch, Means, Terms, Trace, loss};
use super::recurrent::{SequenceGradient, SequenceWork, find_sequences, sequences, step_indices};
use super::rollout::Rollout;
use super::shuffle::Shuffle;
use crate::cancel::CancelToken;
use crate::features::Features;
use crate::nn::buffer::Buffer;
use crate::nn::net::tree;
use crate::nn::policy::{Policy, PolicyWork};

/// Maximum number of chunks of a minibatch, whatever the number of threads.
const CHUNKS: usize = 32;
/// Number of parameters from which half as many chunks are used: clearing and adding up gradients takes longer.
const LARGE: usize = 1 << 15;
/// Parts of work that is the same for every row.
const PARTS: usize = 16;
/// Maximum number of parameters of all chunks together: very large embeddings get fewer chunks.
const CHUNK_NUMBERS: usize = 1 << 26;
/// Multiply-adds below which waking another thread costs more than it brings.
const WORTH_SHARING: usize = 3 << 20;
/// Additions below which waking another thread costs more than it brings.
const WORTH_SHARING_SUMS: usize = 1 << 19;

/// Optimiser state and workspaces, kept between updates.
pub struct PpoUpdate {
    /// Adam's moments.
    pub adam: Adam,
    gradient: Buffer,
    chunks: Vec<Mutex<Chunk>>,
    order: Vec<u32>,
    eligible: Vec<u32>,
    /// For recurrent policies, which shuffle sequences: those with eligible rows.
    sequences: Vec<u32>,
    /// One per thread.
    workspaces: Vec<Mutex<Workspace>>,
    masked: bool,
    /// Whether every row has weight 1.
    uniform: bool,
}

/// A chunk's gradient and loss.
pub(super) struct Chunk {
    pub(super) gradient: Buffer,
    pub(super) trace: Trace,
}

/// Workspace of one thread.
struct Workspace {
    batch: Batch,
    work: Work,
}

enum Work {
    Rows(PolicyWork),
    Sequences(SequenceWork),
}

impl Chunk {
    pub(super) fn clear(&mut self) {
        self.gradient.fill(0.0);
        self.trace.clear();
    }

    /// Completes the gradient after the last tile.
    pub(super) fn finish(&mut self, policy: &Policy) {
        if let Some(at) = policy.log_std {
            for (i, lanes) in self.trace.log_std_lanes.iter().enumerate() {
                self.gradient[at + i] = tree(*lanes);
            }
        }
    }
}

/// Report of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Mean losses over all minibatches.
    pub means: Means,
    /// The mean norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Epochs completed; fewer than configured if the policy reached the target KL divergence.
    pub epochs: usize,
    /// Gradient steps taken.
    pub steps: usize,
    /// Gradient steps dropped because the gradient was not finite.
    pub dropped: usize,
}

impl PpoUpdate {
    /// For this policy.
    pub fn new(policy: &Policy, masked: bool) -> Self {
        let len = policy.params.len();
        let most = if len < LARGE { CHUNKS } else { CHUNKS / 2 };
        let count = most.min((CHUNK_NUMBERS / len).max(1));
        let chunk = || Chunk { gradient: Buffer::new(len), trace: Trace::new(policy) };
        Self {
            adam: Adam::new(len),
            gradient: Buffer::new(len),
            chunks: (0..count).map(|_| Mutex::new(chunk())).collect(),
            order: Vec::new(),
            eligible: Vec::new(),
            sequences: Vec::new(),
            workspaces: Vec::new(),
            masked,
            uniform: false,
        }
    }

    /// Updates the policy from the rollout. `stream` decides the order of rows.
    #[allow(clippy::too_many_arguments)] // the parts of an iteration
    pub fn update(
        &mut self,
        policy: &mut Policy,
        rollout: &Rollout,
        features: &Features,
        settings: &Settings,
        stream: Stream,
        isa: Isa,
        threads: &mut ParallelFor,
        cancel: &CancelToken<'_>,
    ) -> Report {
        self.find_eligible(rollout);
        let (advantage_mean, advantage_scale) = self.advantage_scale(rollout, settings, threads);
        let mut report = Report::default();
        for epoch in 0..settings.epochs {
            let mut means = Means::default();
            self.shuffle(rollout, stream.fold(epoch as u32), isa, threads);
            let size = match policy.spec.recurrent {
                Some(_) => (settings.minibatch_size / rollout.sequence_length).max(1),
                None => settings.minibatch_size,
            };
            for start in (0..self.order.len()).step_by(size) {
                if cancel.is_cancelled() {
                    return report;
                }
                let rows = start..(start + size).min(self.order.len());
                let per_weight = self.per_weight(rollout, rows.clone());
                let terms = Terms { settings, advantage_mean, advantage_scale, per_weight, uniform: self.uniform };
                self.gradient_of(policy, rollout, features, &terms, rows, isa, threads, &mut means);
                let step = AdamStep {
                    learning_rate: settings.learning_rate,
                    beta1: settings.beta1,
                    beta2: settings.beta2,
                    epsilon: settings.epsilon,
                    max_norm: settings.max_gradient_norm,
                };
                let norm = self.adam.step(isa, &mut policy.params, &self.gradient, &step);
                if norm.is_finite() {
                    policy.refresh();
                    report.gradient_norm += f64::from(norm);
                    report.steps += 1;
                } else {
                    report.dropped += 1;
                }
            }
            report.epochs += 1;
            add(&mut report.means, &means);
            means.finish();
            if settings.target_kl.is_some_and(|limit| means.kl > f64::from(limit)) {
                break;
            }
        }
        report.means.finish();
        report.gradient_norm /= report.steps.max(1) as f64;
        report
    }

    /// The gradient of all eligible rows as one batch, in order; tests compare it with other implementations.
    #[allow(clippy::too_many_arguments)]
    pub fn gradient(
        &mut self,
        policy: &Policy,
        rollout: &Rollout,
        features: &Features,
        settings: &Settings,
        isa: Isa,
        threads: &mut ParallelFor,
    ) -> (&[f32], Means) {
        self.find_eligible(rollout);
        let (advantage_mean, advantage_scale) = self.advantage_scale(rollout, settings, threads);
        self.order = self.items(rollout).clone();
        let per_weight = self.per_weight(rollout, 0..self.order.len());
        let terms = Terms { settings, advantage_mean, advantage_scale, per_weight, uniform: self.uniform };
        let mut means = Means::default();
        self.gradient_of(policy, rollout, features, &terms, 0..self.order.len(), isa, threads, &mut means);
        means.finish();
        (&self.gradient, means)
    }

    /// Finds the rows that have a weight; the others never reach the loss.
    fn find_eligible(&mut self, rollout: &Rollout) {
        let uniform = rollout.weight.iter().all(|weight| *weight == 1.0);
        if !uniform || self.eligible.len() != rollout.weight.len() {
            self.eligible.clear();
            let rows = rollout.weight.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
            self.eligible.extend(rows.map(|(i, _)| i as u32));
        }
        self.uniform = uniform;
        if rollout.state_len > 0 {
            find_sequences(rollout, &mut self.sequences);
        }
        self.order.resize(self.items(rollout).len(), 0);
    }

    /// Items of minibatches: rows, or sequences for recurrent policies.
    fn items(&self, rollout: &Rollout) -> &Vec<u32> {
        if rollout.state_len > 0 { &self.sequences } else { &self.eligible }
    }

    /// Allocates a workspace per thread, unless they are there.
    fn allocate_workspaces(&mut self, policy: &Policy, rollout: &Rollout, threads: usize) {
        let steps = if rollout.state_len > 0 { rollout.sequence_length } else { 0 };
        let fits = |workspace: &Mutex<Workspace>| match &workspace.lock().expect("no thread panics here").work {
            Work::Rows(_) => steps == 0,
            Work::Sequences(work) => steps == work.length(),
        };
        if self.workspaces.len() != threads || !self.workspaces.first().is_some_and(fits) {
            let work = || match steps {
                0 => Work::Rows(policy.workspace(true)),
                _ => Work::Sequences(SequenceWork::new(policy, steps)),
            };
            let workspace = || Workspace { batch: Batch::new(&policy.spec.head, self.masked), work: work() };
            self.workspaces = (0..threads).map(|_| Mutex::new(workspace())).collect();
        }
    }

    /// Number of rows of the last rollout that had a weight.
    pub fn eligible_rows(&self) -> usize {
        self.eligible.len()
    }

    /// One over the sum of weights at these positions of the order.
    fn per_weight(&self, rollout: &Rollout, rows: std::ops::Range<usize>) -> f32 {
        let weight = if rollout.state_len > 0 {
            let steps = self.order[rows].iter().flat_map(|sequence| step_indices(rollout, *sequence));
            steps.map(|at| f64::from(rollout.weight[at])).sum()
        } else if self.uniform {
            rows.len() as f64
        } else {
            self.order[rows].iter().map(|i| f64::from(rollout.weight[*i as usize])).sum()
        };
        (1.0 / weight.max(1e-30)) as f32
    }

    fn shuffle(&mut self, rollout: &Rollout, stream: Stream, isa: Isa, threads: &mut ParallelFor) {
        let shuffle = Shuffle::new(stream, self.order.len());
        let all = self.order.len();
        let (items, uniform) = (if rollout.state_len > 0 { &self.sequences } else { &self.eligible }, self.uniform);
        let part = all.div_ceil(PARTS).max(1);
        let order = Mutex::new(self.order.chunks_mut(part).enumerate());
        threads.run(all.div_ceil(part), &|_| {
            let next = order.lock().expect("no thread panics here").next();
            let Some((index, chunk)) = next else { return };
            shuffle.fill(isa, index * part, chunk);
            // If all rows are eligible, items are their own indices.
            if !uniform {
                chunk.iter_mut().for_each(|x| *x = items[*x as usize]);
            }
        });
    }

    /// Mean and inverse standard deviation of the advantages of eligible rows.
    fn advantage_scale(&self, rollout: &Rollout, settings: &Settings, threads: &mut ParallelFor) -> (f32, f32) {
        if !settings.normalize_advantages || self.eligible.is_empty() {
            return (0.0, 1.0);
        }
        let sums: [Mutex<(f64, f64)>; PARTS] = std::array::from_fn(|_| Mutex::default());
        let all = self.eligible.len();
        threads.run(PARTS, &|part| {
            let rows = &self.eligible[part * all / PARTS..(part + 1) * all / PARTS];
            let numbers = rows.iter().map(|i| f64::from(rollout.advantage[*i as usize]));
            let total = numbers.fold((0.0, 0.0), |(sum, square), x| (sum + x, square + x * x));
            *sums[part].lock().expect("each part has one owner") = total;
        });
        let add = |(sum, square): (f64, f64), part: &Mutex<(f64, f64)>| {
            let part = part.lock().expect("no thread panicked");
            (sum + part.0, square + part.1)
        };
        let (sum, square) = sums.iter().fold((0.0, 0.0), add);
        let mean = sum / all as f64;
        let variance = (square / all as f64 - mean * mean).max(0.0);
        (mean as f32, (1.0 / (variance.sqrt() + 1e-8)) as f32)
    }

    /// Fills `self.gradient` with the gradient of the loss over these positions of the order.
    #[allow(clippy::too_many_arguments)]
    fn gradient_of(
        &mut self,
        policy: &Policy,
        rollout: &Rollout,
        features: &Features,
        terms: &Terms<'_>,
        rows: std::ops::Range<usize>,
        isa: Isa,
        threads: &mut ParallelFor,
        means: &mut Means,
    ) {
        self.allocate_workspaces(policy, rollout, threads.threads());
        let order = &self.order[rows];
        let (tile, steps) =
            if rollout.state_len > 0 { (sequences(policy), rollout.sequence_length) } else { (policy.tile, 1) };
        let mut ranges = [const { 0..0 }; CHUNKS];
        let spans = spans(order.len().div_ceil(tile), &mut ranges[..self.chunks.len()]);
        let (chunks, workspaces, next) = (&self.chunks, &self.workspaces, AtomicUsize::new(0));
        let run = |_| {
            // In order, on whichever thread: the smallest come last.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Range { start, end } = spans[index];
            let chunk = &mut *chunks[index].lock().expect("no thread panics here");
            let order = &order[start * tile..(end * tile).min(order.len())];
            // There are as many as threads, so one is free.
            let mut workspace = workspaces.iter().find_map(|free| free.try_lock().ok()).expect("a free workspace");
            let Workspace { batch, work } = &mut *workspace;
            match work {
                Work::Rows(work) => {
                    isa.run(ChunkGradient { policy, rollout, features, terms, order, chunk, batch, work });
                }
                Work::Sequences(work) => {
                    isa.run(SequenceGradient { policy, rollout, features, terms, order, chunk, batch, work });
                }
            }
        };
        if order.len() * steps * policy.products() * 3 < WORTH_SHARING {
            (0..spans.len()).for_each(run);
        } else {
            threads.run(spans.len(), &run);
        }
        let count = spans.len();
        let guards: [_; CHUNKS] =
            std::array::from_fn(|i| (i < count).then(|| chunks[i].lock().expect("no thread panics")));
        let gradients: [&[f32]; CHUNKS] =
            std::array::from_fn(|i| guards[i].as_ref().map_or(&[][..], |chunk| &chunk.gradient));
        let gradients = &gradients[..count];
        let len = self.gradient.len();
        let part = if gradients.len() * len < WORTH_SHARING_SUMS { len } else { len.div_ceil(PARTS) };
        let sums = Mutex::new(self.gradient.chunks_mut(part).enumerate());
        threads.run(len.div_ceil(part), &|_| {
            let next = sums.lock().expect("no thread panics here").next();
            let Some((index, sum)) = next else { return };
            add_chunks(isa, gradients, index * part, sum);
        });
        guards.iter().flatten().for_each(|chunk| chunk.trace.sums.add_to(means));
    }
}

fn add(to: &mut Means, from: &Means) {
    to.policy_loss += from.policy_loss;
    to.value_loss += from.value_loss;
    to.entropy += from.entropy;
    to.kl += from.kl;
    to.clip_fraction += from.clip_fraction;
    to.weight += from.weight;
}

struct ChunkGradient<'a> {
    policy: &'a Policy,
    rollout: &'a Rollout,
    features: &'a Features,
    terms: &'a Terms<'a>,
    order: &'a [u32],
    chunk: &'a mut Chunk,
    batch: &'a mut Batch,
    work: &'a mut PolicyWork,
}

impl Kernel for ChunkGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { policy, rollout, features, terms, order, chunk, batch, work } = self;
        chunk.clear();
        let actions = policy.spec.head.outputs();
        let mut later = order.chunks(policy.tile).skip(1);
        for rows in order.chunks(policy.tile) {
            prefetch_rows(rollout, later.next().unwrap_or_default(), terms);
            gather(rollout, rows, terms, batch);
            features.load(&rollout.obs, rollout.obs_bytes, rows, work);
            policy.forward(simd, work, rows.len());
            let outputs = work.outputs(actions);
            loss(simd, policy, batch, terms, outputs, &mut chunk.trace);
            policy.backward(simd, work, rows.len(), &mut chunk.gradient);
        }
        chunk.finish(policy);
    }
}
