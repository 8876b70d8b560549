//! The LSTM cell: one block of units at a time, its four gates side by side.

use hotloop_core::math::{logistic, tanh};
use hotloop_core::simd::{BLOCK, Floats, Kernel, Simd};

use super::chain::{Rows, accumulate, by_rows};
use super::matmul::Strided;
use super::memory::{BackwardStep, Step};

const GATES: usize = 4;
/// Where each gate's block begins in a row of a panel: i, f, g, o.
const BLOCKS: [usize; GATES] = [0, BLOCK, 2 * BLOCK, 3 * BLOCK];

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
            let mut sums = [BLOCKS.map(|block| simd.load(bias.add(block))); ROWS];
            let x = Strided { at: step.x.add(first * step.x_row), row: step.x_row, col: 1 };
            let weights = step.input.add(panel * step.inputs * stride + lane);
            accumulate(simd, &mut sums, x, (weights, stride), BLOCKS, step.inputs);
            let h = Strided { at: step.h.add(first * step.width), row: step.width, col: 1 };
            let weights = step.hidden.add(panel * step.size * stride + lane);
            accumulate(simd, &mut sums, h, (weights, stride), BLOCKS, step.size);
            for (r, [i, f, g, o]) in sums.into_iter().enumerate() {
                let place = (first + r) * step.width + self.unit;
                let (i, f, o) = (logistic(simd, i), logistic(simd, f), logistic(simd, o));
                let g = tanh(simd, g);
                let c = f.fma(simd.load(step.c.add(place)), i * g);
                let squashed = tanh(simd, c);
                c.store(step.c_out.add(place));
                (o * squashed).store(step.h_out.add(place));
                if step.training {
                    squashed.store(step.tanh.add(place));
                    let gates = step.gates.add(panel * step.panel + (first + r) * stride + lane);
                    for (block, x) in BLOCKS.into_iter().zip([i, f, g, o]) {
                        x.store(gates.add(block));
                    }
                }
            }
        }
    }
}

/// A step back: gates become their gradients, and what goes further back is left in `dh` and `dc`.
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
                    let gates = step.gates.add(panel * step.panel + row * GATES * BLOCK + lane);
                    if !valid {
                        // The memory went through unchanged, and so do its gradients.
                        BLOCKS.into_iter().for_each(|block| simd.f(0.0).store(gates.add(block)));
                        continue;
                    }
                    let [i, f, g, o] = BLOCKS.map(|block| simd.load(gates.add(block)));
                    let tanh = simd.load(step.tanh.add(place));
                    let dh = simd.load(self.0.out.add(place)) + simd.load(self.0.dh.add(place));
                    let dc = (dh * o).fma(tanh.fnma(tanh, one), simd.load(self.0.dc.add(place)));
                    let gradients = [
                        dc * g * (i * (one - i)),
                        dc * simd.load(step.c.add(place)) * (f * (one - f)),
                        dc * i * g.fnma(g, one),
                        dh * tanh * (o * (one - o)),
                    ];
                    for (block, x) in BLOCKS.into_iter().zip(gradients) {
                        x.store(gates.add(block));
                    }
                    (dc * f).store(self.0.dc.add(place));
                    simd.f(0.0).store(self.0.dh.add(place));
                }
            }
        }
    }
}
