//! The GRU cell: gates r and z, and the candidate n, whose sums over inputs and over the hidden state stay apart because
//! r scales the latter.

use hotloop_core::math::{logistic, tanh};
use hotloop_core::simd::{Floats, Simd};

use super::cell::RecurrentCell;
use super::chain::Sums;
use super::recurrent::{BackwardStep, Step};

/// Gated recurrent unit.
#[derive(Clone, Copy)]
pub struct Gru;

impl RecurrentCell<3> for Gru {
    #[inline(always)]
    unsafe fn split<S: Simd, const ROWS: usize>(
        self,
        simd: S,
        step: &Step,
        unit: usize,
        sums: &mut Sums<S, ROWS, 3>,
    ) -> [S::F; ROWS] {
        let from_inputs = sums.map(|[_, _, n]| n);
        // SAFETY: the caller's promise.
        let hidden_bias = unsafe { simd.load(step.hidden_bias.add(unit)) };
        sums.iter_mut().for_each(|sum| sum[2] = hidden_bias);
        from_inputs
    }

    #[inline(always)]
    unsafe fn advance<S: Simd>(
        self,
        simd: S,
        step: &Step,
        index: usize,
        [r, z, from_hidden]: [S::F; 3],
        from_inputs: S::F,
    ) -> [S::F; 4] {
        let (r, z) = (logistic(simd, r), logistic(simd, z));
        let n = tanh(simd, r.fma(from_hidden, from_inputs));
        // SAFETY: the caller's promise.
        unsafe {
            let before = simd.load(step.h.add(index));
            z.fma(before - n, n).store(step.h_out.add(index));
        }
        [r, z, n, from_hidden]
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(self, simd: S, back: &BackwardStep<'_>, index: usize, saved: [S::F; 4]) -> [S::F; 4] {
        let ([r, z, n, from_hidden], one) = (saved, simd.f(1.0));
        // SAFETY: the caller's promise.
        unsafe {
            let dh = simd.load(back.out.add(index)) + simd.load(back.dh.add(index));
            let before = simd.load(back.step.h.add(index));
            let dn = dh * (one - z) * n.fnma(n, one);
            (dh * z).store(back.dh.add(index));
            [dn * from_hidden * (r * (one - r)), dh * (before - n) * (z * (one - z)), dn, dn * r]
        }
    }
}
