//! Sampling actions from a policy's outputs, a tile of rows at a time: native policies and policies that are computed
//! elsewhere share it.

use hotloop_core::rng::Stream;
use hotloop_core::simd::{BLOCK, Floats, Ints, Simd};

use crate::distribution::{Categorical, Gaussian, SoftmaxCache};
use crate::nn::net::TILE;
use crate::nn::spec::Head;

/// A row of a batch, by its indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowIndex {
    /// Index into observations, masks and outputs.
    pub at: u32,
    /// Index into the recurrent state; with the run's first row, the key of the row's random numbers.
    pub row: u32,
    /// Time step, the other key of the row's random numbers.
    pub step: u32,
}

/// Way of choosing actions.
#[derive(Clone, Copy)]
pub enum Sampling {
    /// Sampled, with the random numbers of each row and step.
    Random {
        /// The stream of all rows.
        stream: Stream,
        /// Index of row 0 among all rows of a run.
        first_row: u32,
    },
    /// The most probable action.
    Mode,
}

/// Action masks of a batch.
#[derive(Clone, Copy)]
pub struct Masks<'a> {
    /// Entries, row by row; empty if the env has no masks.
    pub entries: &'a [bool],
    /// Entries per row.
    pub per_row: usize,
}

/// Destination of a batch's actions, row by row; only the rows that act are written.
pub struct ActionArrays<'a> {
    /// Discrete actions; empty for continuous ones.
    pub discrete: &'a mut [i32],
    /// Continuous actions before clipping; empty for discrete ones.
    pub continuous: &'a mut [f32],
    /// Log-probabilities.
    pub log_prob: &'a mut [f32],
}

/// Workspace for a tile of rows.
pub struct Sampler {
    head: Head,
    mask: Vec<[f32; TILE]>,
    cache: SoftmaxCache,
    rows: [u32; TILE],
    steps: [u32; TILE],
    discrete: Vec<[u32; TILE]>,
    continuous: Vec<[f32; TILE]>,
    log_prob: [f32; TILE],
}

impl Sampler {
    /// For this kind of action; `masked` if the env has action masks.
    pub fn new(head: &Head, masked: bool) -> Self {
        Self {
            head: head.clone(),
            mask: vec![[1.0; TILE]; if masked { head.logits() } else { 0 }],
            cache: SoftmaxCache::new(&head.sets),
            rows: [0; TILE],
            steps: [0; TILE],
            discrete: vec![[0; TILE]; head.sets.len()],
            continuous: vec![[0.0; TILE]; head.dims],
            log_prob: [0.0; TILE],
        }
    }

    /// Chooses the actions of a tile. `outputs` has a column of [`TILE`] rows for each output of the head,
    /// `log_std(dim, row)` is the vector of rows that starts at `row`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // all that sampling involves
    pub fn sample<S: Simd>(
        &mut self,
        simd: S,
        tile: &[RowIndex],
        outputs: &[f32],
        log_std: impl Fn(usize, usize) -> S::F,
        masks: Masks<'_>,
        sampling: Sampling,
        actions: &mut ActionArrays<'_>,
    ) {
        assert!(outputs.len() >= self.head.outputs() * TILE);
        for (i, index) in tile.iter().enumerate() {
            if let Sampling::Random { first_row, .. } = sampling {
                self.rows[i] = first_row.wrapping_add(index.row);
                self.steps[i] = index.step;
            }
            for (choice, column) in self.mask.iter_mut().enumerate() {
                column[i] = f32::from(u8::from(masks.entries[index.at as usize * masks.per_row + choice]));
            }
        }
        for row in (0..tile.len().next_multiple_of(BLOCK)).step_by(S::LANES) {
            // SAFETY: vectors tile a block, and blocks the tile; there is a column for each output.
            unsafe { self.sample_vector(simd, row, outputs, &log_std, sampling) };
        }
        let (sets, dims) = (self.discrete.len(), self.continuous.len());
        for (i, index) in tile.iter().enumerate() {
            let at = index.at as usize;
            actions.log_prob[at] = self.log_prob[i];
            for (set, column) in self.discrete.iter().enumerate() {
                actions.discrete[at * sets + set] = column[i] as i32;
            }
            for (dim, column) in self.continuous.iter().enumerate() {
                actions.continuous[at * dims + dim] = column[i];
            }
        }
    }

    #[inline(always)]
    unsafe fn sample_vector<S: Simd>(
        &mut self,
        simd: S,
        row: usize,
        outputs: &[f32],
        log_std: &impl Fn(usize, usize) -> S::F,
        sampling: Sampling,
    ) {
        // SAFETY: the caller promises that `row` begins a vector inside columns of TILE rows.
        unsafe {
            let stream = match sampling {
                Sampling::Random { stream, .. } => {
                    let rows = simd.load_u32(self.rows.as_ptr().add(row));
                    let steps = simd.load_u32(self.steps.as_ptr().add(row));
                    stream.lanes(simd).fold(simd, rows).fold(simd, steps)
                }
                Sampling::Mode => Stream { lo: 0, hi: 0 }.lanes(simd),
            };
            let mut log_prob = simd.f(0.0);
            let mut first = 0;
            for (set, n) in self.head.sets.iter().enumerate() {
                let mask = self.mask.get(first).map_or(std::ptr::null(), |column| column[row..].as_ptr());
                let exps = self.cache.exps[first][row..].as_mut_ptr();
                let choices = Categorical { logits: outputs[first * TILE + row..].as_ptr(), mask, exps, n: *n };
                let soft = choices.softmax(simd);
                let taken = match sampling {
                    Sampling::Random { .. } => choices.sample(simd, soft, stream.uniform(simd, set as u32)),
                    Sampling::Mode => choices.mode(simd),
                };
                log_prob = log_prob + choices.log_prob(simd, soft, taken);
                taken.store(self.discrete[set].as_mut_ptr().add(row));
                first += n;
            }
            // A pair of normal numbers takes two draws, after those of the choices.
            let first_pair = self.head.sets.len().div_ceil(2);
            for (dim, column) in self.continuous.iter_mut().enumerate() {
                let mean = simd.load(outputs[(first + dim) * TILE + row..].as_ptr());
                let gaussian = Gaussian { mean, log_std: log_std(dim, row) };
                let x = match sampling {
                    Sampling::Random { .. } => {
                        let (even, odd) = stream.normals(simd, (first_pair + dim / 2) as u32);
                        gaussian.sample(simd, if dim.is_multiple_of(2) { even } else { odd })
                    }
                    Sampling::Mode => mean,
                };
                log_prob = log_prob + gaussian.log_prob(simd, x);
                x.store(column.as_mut_ptr().add(row));
            }
            log_prob.store(self.log_prob.as_mut_ptr().add(row));
        }
    }
}

/// Numbers per row that a policy computed elsewhere passes in: logits, means, log standard deviations.
pub fn outputs_per_row(head: &Head) -> usize {
    head.outputs() + head.dims
}

/// Samples from outputs that come row by row.
pub struct OutputSampler {
    sampler: Sampler,
    columns: Vec<f32>,
    outputs: usize,
    per_row: usize,
}

impl OutputSampler {
    /// For this kind of action; `masked` if the env has action masks.
    pub fn new(head: &Head, masked: bool) -> Self {
        let per_row = outputs_per_row(head);
        Self {
            sampler: Sampler::new(head, masked),
            columns: vec![0.0; per_row * TILE],
            outputs: head.outputs(),
            per_row,
        }
    }

    /// Chooses the action of each row; `outputs` has [`outputs_per_row`] numbers for each of `rows`, in their order.
    #[inline(always)]
    pub fn sample<S: Simd>(
        &mut self,
        simd: S,
        rows: &[RowIndex],
        outputs: &[f32],
        masks: Masks<'_>,
        sampling: Sampling,
        actions: &mut ActionArrays<'_>,
    ) {
        let Self { sampler, columns, outputs: own, per_row } = self;
        for (tile, outputs) in rows.chunks(TILE).zip(outputs.chunks(TILE * *per_row)) {
            for (i, row) in outputs.chunks_exact(*per_row).enumerate() {
                for (x, column) in row.iter().zip(columns.chunks_exact_mut(TILE)) {
                    column[i] = *x;
                }
            }
            let (own, log_std) = columns.split_at(*own * TILE);
            // SAFETY: there is a column of log standard deviations for each continuous dimension.
            let log_std = |dim: usize, row: usize| unsafe { simd.load(log_std[dim * TILE + row..].as_ptr()) };
            sampler.sample(simd, tile, own, log_std, masks, sampling, actions);
        }
    }
}
