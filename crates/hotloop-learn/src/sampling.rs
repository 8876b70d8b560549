//! Drawing actions for policies that are computed elsewhere: their outputs come row after row, and go through the very
//! functions that native policies draw with.

use hotloop_core::math;
use hotloop_core::rng::Stream;
use hotloop_core::simd::{BLOCK, Floats, Ints, Simd};

use crate::acting::Draw;
use crate::distribution::{Choices, HALF_LOG_TAU, Kept};
use crate::nn::net::TILE;
use crate::nn::spec::Head;

/// What a policy put out for some rows, row after row.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    /// Preferences for every choice; or means, then logarithms of standard deviations.
    pub numbers: &'a [f32],
    /// Permissions; empty if there are none.
    pub mask: &'a [bool],
}

/// What is drawn, row after row.
pub struct Drawn<'a> {
    /// Choices; empty for continuous actions.
    pub choices: &'a mut [i32],
    /// Amounts, not clipped; empty for discrete actions.
    pub amounts: &'a mut [f32],
    /// Logarithms of their probabilities.
    pub log_prob: &'a mut [f32],
}

/// How many numbers a policy puts out for a row.
pub fn outputs_per_row(head: &Head) -> usize {
    match head {
        Head::Gaussian { dims, .. } => 2 * dims,
        _ => head.outputs(),
    }
}

/// Room for a tile of rows.
pub struct Sampler {
    head: Head,
    columns: Vec<[f32; TILE]>,
    mask: Vec<[f32; TILE]>,
    kept: Kept,
    taken: Vec<[u32; TILE]>,
    amounts: Vec<[f32; TILE]>,
}

impl Sampler {
    /// For actions of this kind; `masked` if rows have permissions.
    pub fn new(head: &Head, masked: bool) -> Self {
        let amounts = if let Head::Gaussian { dims, .. } = head { *dims } else { 0 };
        Self {
            head: head.clone(),
            columns: vec![[0.0; TILE]; outputs_per_row(head)],
            mask: vec![[1.0; TILE]; if masked { head.outputs() } else { 0 }],
            kept: Kept::new(head.sets()),
            taken: vec![[0; TILE]; head.sets().len()],
            amounts: vec![[0.0; TILE]; amounts],
        }
    }

    /// Draws for as many rows as `drawn` has room for. Row `i` draws as row `i` of `draw`'s rows.
    #[inline(always)]
    pub fn sample<S: Simd>(&mut self, simd: S, outputs: Outputs<'_>, draw: Draw, drawn: &mut Drawn<'_>) {
        let (width, per_row, choices) = (self.head.width(), self.columns.len(), self.mask.len());
        let rows = drawn.log_prob.len();
        for first in (0..rows).step_by(TILE) {
            let count = TILE.min(rows - first);
            for (column, to) in self.columns.iter_mut().enumerate() {
                for (i, x) in to[..count].iter_mut().enumerate() {
                    *x = outputs.numbers[(first + i) * per_row + column];
                }
            }
            for (choice, to) in self.mask.iter_mut().enumerate() {
                for (i, x) in to[..count].iter_mut().enumerate() {
                    *x = f32::from(u8::from(outputs.mask[(first + i) * choices + choice]));
                }
            }
            let mut log_prob = [0.0; TILE];
            for row in (0..count.next_multiple_of(BLOCK)).step_by(S::LANES) {
                // SAFETY: vectors tile a block, and blocks the tile.
                unsafe { self.vector(simd, row, first as u32, draw).store(log_prob.as_mut_ptr().add(row)) };
            }
            drawn.log_prob[first..first + count].copy_from_slice(&log_prob[..count]);
            for (set, column) in self.taken.iter().enumerate() {
                for (i, x) in column[..count].iter().enumerate() {
                    drawn.choices[(first + i) * width + set] = *x as i32;
                }
            }
            for (dim, column) in self.amounts.iter().enumerate() {
                for (i, x) in column[..count].iter().enumerate() {
                    drawn.amounts[(first + i) * width + dim] = *x;
                }
            }
        }
    }

    /// Draws for the vector of rows at `row` of the tile that begins with row `first`; gives the log-probabilities.
    #[inline(always)]
    unsafe fn vector<S: Simd>(&mut self, simd: S, row: usize, first: u32, draw: Draw) -> S::F {
        let stream = match draw {
            Draw::Sample { stream, first_row, step } => {
                let ids = simd.lane_index() + simd.u(first_row.wrapping_add(first).wrapping_add(row as u32));
                stream.lanes(simd).fold(simd, ids).fold(simd, simd.u(step))
            }
            Draw::Mode => Stream { lo: 0, hi: 0 }.lanes(simd),
        };
        let mut log_prob = simd.f(0.0);
        let mut at = 0;
        // SAFETY: there is a column of TILE rows for each output, and `row` begins a vector inside it.
        unsafe {
            for (set, n) in self.head.sets().iter().enumerate() {
                let mask = self.mask.get(at).map_or(std::ptr::null(), |column| column[row..].as_ptr());
                let weights = self.kept.weights[at][row..].as_mut_ptr();
                let choices = Choices { logits: self.columns[at][row..].as_ptr(), mask, weights, n: *n };
                let soft = choices.softmax(simd);
                let taken = match draw {
                    Draw::Sample { .. } => choices.sample(simd, soft, stream.uniform(simd, set as u32)),
                    Draw::Mode => choices.mode(simd),
                };
                log_prob = log_prob + choices.log_prob(simd, soft, taken);
                taken.store(self.taken[set].as_mut_ptr().add(row));
                at += n;
            }
            let dims = self.amounts.len();
            for i in 0..dims {
                let mean = simd.load(self.columns[i][row..].as_ptr());
                let log_std = simd.load(self.columns[dims + i][row..].as_ptr());
                let amount = match draw {
                    Draw::Sample { .. } => {
                        let (even, odd) = stream.normals(simd, (i / 2) as u32);
                        math::exp(simd, log_std).fma(if i.is_multiple_of(2) { even } else { odd }, mean)
                    }
                    Draw::Mode => mean,
                };
                let offset = (amount - mean) * math::exp(simd, -log_std);
                log_prob = log_prob + (simd.f(-0.5) * offset).fma(offset, -log_std - simd.f(HALF_LOG_TAU));
                amount.store(self.amounts[i].as_mut_ptr().add(row));
            }
        }
        log_prob
    }
}
