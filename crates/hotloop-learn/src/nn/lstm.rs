//! The LSTM cell: gates i, f, g and o.

use hotloop_core::math::{logistic, tanh};
use hotloop_core::simd::{Floats, Simd};

use super::cell::RecurrentCell;
use super::chain::Sums;
use super::recurrent::{BackwardStep, Step};

/// Long short-term memory.
#[derive(Clone, Copy)]
pub struct Lstm;

impl RecurrentCell<4> for Lstm {
    #[inline(always)]
    unsafe fn split<S: Simd, const ROWS: usize>(
        self,
        simd: S,
        _: &Step,
        _: usize,
        _: &mut Sums<S, ROWS, 4>,
    ) -> [S::F; ROWS] {
        [simd.f(0.0); ROWS]
    }

    #[inline(always)]
    unsafe fn advance<S: Simd>(
        self,
        simd: S,
        step: &Step,
        index: usize,
        [i, f, g, o]: [S::F; 4],
        _: S::F,
    ) -> [S::F; 4] {
        let (i, f, o) = (logistic(simd, i), logistic(simd, f), logistic(simd, o));
        let g = tanh(simd, g);
        // SAFETY: the caller's promise.
        unsafe {
            let c = f.fma(simd.load(step.c.add(index)), i * g);
            let squashed = tanh(simd, c);
            c.store(step.c_out.add(index));
            (o * squashed).store(step.h_out.add(index));
            if step.training {
                squashed.store(step.tanh.add(index));
            }
        }
        [i, f, g, o]
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(self, simd: S, back: &BackwardStep<'_>, index: usize, saved: [S::F; 4]) -> [S::F; 4] {
        let ([i, f, g, o], one) = (saved, simd.f(1.0));
        // SAFETY: the caller's promise.
        unsafe {
            let tanh = simd.load(back.step.tanh.add(index));
            let dh = simd.load(back.out.add(index)) + simd.load(back.dh.add(index));
            let dc = (dh * o).fma(tanh.fnma(tanh, one), simd.load(back.dc.add(index)));
            (dc * f).store(back.dc.add(index));
            simd.f(0.0).store(back.dh.add(index));
            [
                dc * g * (i * (one - i)),
                dc * simd.load(back.step.c.add(index)) * (f * (one - f)),
                dc * i * g.fnma(g, one),
                dh * tanh * (o * (one - o)),
            ]
        }
    }
}
