//! The loops over a tile that recurrent cells share: one block of units at a time, its gates side by side.

use hotloop_core::simd::{BLOCK, Floats, Kernel, Simd};

use super::chain::{Rows, Sums, accumulate, by_rows};
use super::matmul::Strided;
use super::recurrent::{BackwardStep, Step};

/// Blocks saved per block of units for the backward pass: the LSTM's four gates, or the GRU's three and the hidden part
/// of its candidate.
const BLOCKS: [usize; 4] = [0, BLOCK, 2 * BLOCK, 3 * BLOCK];
/// Numbers saved per block of units.
pub const SAVED: usize = BLOCKS.len() * BLOCK;

/// A cell with `GATES` gates per unit.
pub trait RecurrentCell<const GATES: usize>: Copy {
    /// Prepare the sums of the inputs for the hidden state's to be added; returns the part that must stay apart.
    ///
    /// # Safety
    /// `unit` is a unit of the step's layer.
    unsafe fn split<S: Simd, const ROWS: usize>(
        self,
        simd: S,
        step: &Step,
        unit: usize,
        sums: &mut Sums<S, ROWS, GATES>,
    ) -> [S::F; ROWS];

    /// Write the state of a vector of units at `index` from the sums and from what `split` returned; returns the numbers
    /// to save for the backward pass.
    ///
    /// # Safety
    /// `index` is a vector of the step's state.
    unsafe fn advance<S: Simd>(self, simd: S, step: &Step, index: usize, sums: [S::F; GATES], apart: S::F)
    -> [S::F; 4];

    /// Compute the gradients of the saved numbers, and that of the state before the step as far as it is direct.
    ///
    /// # Safety
    /// `index` is a vector of the step's state.
    unsafe fn backward<S: Simd>(self, simd: S, back: &BackwardStep<'_>, index: usize, saved: [S::F; 4]) -> [S::F; 4];
}

/// A forward step of a cell.
pub struct CellForward<'a, C, const GATES: usize> {
    pub(super) cell: C,
    pub(super) step: &'a Step,
}

impl<C: RecurrentCell<GATES>, const GATES: usize> Kernel for CellForward<'_, C, GATES> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for unit in (0..self.step.width).step_by(S::LANES) {
            // SAFETY: the step's buffers have `rows` rows.
            unsafe { by_rows(simd, self.step.rows, &Units { cell: self.cell, step: self.step, unit }) };
        }
    }
}

struct Units<'a, C, const GATES: usize> {
    cell: C,
    step: &'a Step,
    unit: usize,
}

impl<C: RecurrentCell<GATES>, const GATES: usize> Rows for Units<'_, C, GATES> {
    #[inline(always)]
    unsafe fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
        let (cell, step, panel, lane) = (self.cell, self.step, self.unit / BLOCK, self.unit % BLOCK);
        let stride = GATES * BLOCK;
        let gates: [usize; GATES] = std::array::from_fn(|gate| gate * BLOCK);
        // SAFETY: the step's arrays and buffers have the sizes it says.
        unsafe {
            let bias = step.bias.add(panel * stride + lane);
            let mut sums = [gates.map(|gate| simd.load(bias.add(gate))); ROWS];
            let x = Strided { at: step.x.add(first * step.x_row), row: step.x_row, col: 1 };
            let weights = step.input.add(panel * step.inputs * stride + lane);
            accumulate(simd, &mut sums, x, (weights, stride), gates, step.inputs);
            let apart = cell.split(simd, step, self.unit, &mut sums);
            let h = Strided { at: step.h.add(first * step.width), row: step.width, col: 1 };
            let weights = step.hidden.add(panel * step.size * stride + lane);
            accumulate(simd, &mut sums, h, (weights, stride), gates, step.size);
            for (r, (sums, apart)) in sums.into_iter().zip(apart).enumerate() {
                let numbers = cell.advance(simd, step, (first + r) * step.width + self.unit, sums, apart);
                if step.training {
                    let saved = step.gates.add(panel * step.panel + (first + r) * SAVED + lane);
                    for (block, x) in BLOCKS.into_iter().zip(numbers) {
                        x.store(saved.add(block));
                    }
                }
            }
        }
    }
}

/// A backward step of a cell: the saved numbers become their gradients.
pub struct CellBackward<'a, C, const GATES: usize> {
    pub(super) cell: C,
    pub(super) back: &'a BackwardStep<'a>,
}

impl<C: RecurrentCell<GATES>, const GATES: usize> Kernel for CellBackward<'_, C, GATES> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let step = self.back.step;
        for row in 0..step.rows {
            let valid = self.back.valid[row];
            for unit in (0..step.width).step_by(S::LANES) {
                let (panel, lane) = (unit / BLOCK, unit % BLOCK);
                // SAFETY: the step's buffers have `rows` rows.
                unsafe {
                    let saved = step.gates.add(panel * step.panel + row * SAVED + lane);
                    if !valid {
                        // The state was kept, so its gradient is passed on and that of the gates is zero.
                        BLOCKS.into_iter().for_each(|block| simd.f(0.0).store(saved.add(block)));
                        continue;
                    }
                    let numbers = BLOCKS.map(|block| simd.load(saved.add(block)));
                    let gradients = self.cell.backward(simd, self.back, row * step.width + unit, numbers);
                    for (block, x) in BLOCKS.into_iter().zip(gradients) {
                        x.store(saved.add(block));
                    }
                }
            }
        }
    }
}
