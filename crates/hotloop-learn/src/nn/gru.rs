//! The GRU cell: one block of units at a time, its gates and the candidate's two parts side by side.

use hotloop_core::math::{logistic, tanh};
use hotloop_core::simd::{BLOCK, Floats, Kernel, Simd};

use super::chain::{Rows, accumulate, by_rows};
use super::matmul::Strided;
use super::memory::{BackwardStep, Step};

const GATES: usize = 3;
/// Where each gate's block begins in a row of the weights: r, z, n.
const WEIGHTS: [usize; GATES] = [0, BLOCK, 2 * BLOCK];
/// Where each block begins in a row of what is kept: r, z, n, and n's part that comes from the memory.
const SAVED: [usize; 4] = [0, BLOCK, 2 * BLOCK, 3 * BLOCK];

/// A step forward.
pub struct Forward<'a>(pub &'a Step);

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for unit in (0..self.0.width).step_by(S::LANES) {
            // SAFETY: the step's buffers have `rows` rows.
            unsafe { by_rows(simd, self.0.rows, &Units { step: self.0, unit }) };
        }
    }
}

struct Units<'a> {
    step: &'a Step,
    unit: usize,
}

impl Rows for Units<'_> {
    #[inline(always)]
    unsafe fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
        let (step, panel, lane) = (self.step, self.unit / BLOCK, self.unit % BLOCK);
        let stride = GATES * BLOCK;
        // SAFETY: the step's arrays and buffers have the sizes it says.
        unsafe {
            let bias = step.bias.add(panel * stride + lane);
            let mut sums = [WEIGHTS.map(|block| simd.load(bias.add(block))); ROWS];
            let x = Strided { at: step.x.add(first * step.x_row), row: step.x_row, col: 1 };
            let weights = step.input.add(panel * step.inputs * stride + lane);
            accumulate(simd, &mut sums, x, (weights, stride), WEIGHTS, step.inputs);
            // The candidate's sum rests while its other part is made in its place.
            let seen = sums.map(|[_, _, n]| n);
            let hidden_bias = simd.load(step.hidden_bias.add(self.unit));
            sums.iter_mut().for_each(|sum| sum[2] = hidden_bias);
            let h = Strided { at: step.h.add(first * step.width), row: step.width, col: 1 };
            let weights = step.hidden.add(panel * step.size * stride + lane);
            accumulate(simd, &mut sums, h, (weights, stride), WEIGHTS, step.size);
            for (r, ([reset, z, recalled], seen)) in sums.into_iter().zip(seen).enumerate() {
                let place = (first + r) * step.width + self.unit;
                let (reset, z) = (logistic(simd, reset), logistic(simd, z));
                let n = tanh(simd, reset.fma(recalled, seen));
                let before = simd.load(step.h.add(place));
                z.fma(before - n, n).store(step.h_out.add(place));
                if step.training {
                    let kept = step.gates.add(panel * step.panel + (first + r) * SAVED.len() * BLOCK + lane);
                    for (block, x) in SAVED.into_iter().zip([reset, z, n, recalled]) {
                        x.store(kept.add(block));
                    }
                }
            }
        }
    }
}

/// A step back: what was kept becomes its gradient, and the direct part of what goes further back is left in `dh`.
pub struct Backward<'a>(pub &'a BackwardStep<'a>);

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Step { width, rows, .. } = *self.0.step;
        let (step, one) = (self.0.step, simd.f(1.0));
        for row in 0..rows {
            let valid = self.0.valid[row];
            for unit in (0..width).step_by(S::LANES) {
                let (panel, lane, place) = (unit / BLOCK, unit % BLOCK, row * width + unit);
                // SAFETY: as above; the gradients have rows like those of `h`.
                unsafe {
                    let kept = step.gates.add(panel * step.panel + row * SAVED.len() * BLOCK + lane);
                    if !valid {
                        // The memory went through unchanged, and so do its gradients.
                        SAVED.into_iter().for_each(|block| simd.f(0.0).store(kept.add(block)));
                        continue;
                    }
                    let [reset, z, n, recalled] = SAVED.map(|block| simd.load(kept.add(block)));
                    let dh = simd.load(self.0.out.add(place)) + simd.load(self.0.dh.add(place));
                    let before = simd.load(step.h.add(place));
                    let dn = dh * (one - z) * n.fnma(n, one);
                    let gradients =
                        [dn * recalled * (reset * (one - reset)), dh * (before - n) * (z * (one - z)), dn, dn * reset];
                    for (block, x) in SAVED.into_iter().zip(gradients) {
                        x.store(kept.add(block));
                    }
                    (dh * z).store(self.0.dh.add(place));
                }
            }
        }
    }
}
