//! Embeddings: a learned vector per state, which the trunk's first layer reads.

use hotloop_core::simd::{Floats, Simd};

use super::super::rows::add_rows;
use super::super::spec::{Arrays, Role};
use super::LookupWork;

/// A table of `dim` numbers per state.
#[derive(Clone, Debug)]
pub struct Embedding {
    table: usize,
    pub(super) dim: usize,
}

impl Embedding {
    pub(super) fn new(arrays: &mut Arrays, prefix: &str, n: usize, dim: usize) -> Self {
        Self { table: arrays.add(format!("{prefix}.embedding.weight"), Role::Table, n, dim), dim }
    }

    #[inline(always)]
    pub(super) fn forward<S: Simd>(&self, simd: S, params: &[f32], work: &mut LookupWork, rows: usize) {
        let LookupWork { states, features, stride, .. } = work;
        for (row, state) in states[..rows].iter().enumerate() {
            let entry = self.table + *state as usize * *stride;
            for col in (0..*stride).step_by(S::LANES) {
                // SAFETY: tables and features have rows of whole blocks, and states are below `n`.
                unsafe {
                    let vector = simd.load(params.as_ptr().add(entry + col));
                    vector.store(features.as_mut_ptr().add(row * *stride + col));
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn backward<S: Simd>(&self, simd: S, work: &LookupWork, rows: usize, gradient: &mut [f32]) {
        let (features, stride) = (work.features.as_ptr(), work.stride);
        for row in 0..rows {
            let entry = self.table + work.states[row] as usize * stride;
            // SAFETY: as above; `gradient` is laid out like the parameters.
            unsafe { add_rows(simd, features.add(row * stride), stride, 1, gradient.as_mut_ptr().add(entry)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use hotloop_core::simd::Scalar;

    use super::*;

    #[test]
    fn a_state_reads_and_trains_its_own_vector() {
        let mut arrays = Arrays::default();
        let encoder = Embedding::new(&mut arrays, "trunk", 3, 2);
        assert_eq!(arrays.list[0].name, "trunk.embedding.weight");
        let mut params = vec![0.0; arrays.total];
        (params[16], params[17]) = (3.0, 4.0);
        let mut work = LookupWork::new(2, 16, false);
        work.states[..2].copy_from_slice(&[0, 1]);
        encoder.forward(Scalar, &params, &mut work, 2);
        assert_eq!(work.features[..2], [0.0, 0.0]);
        assert_eq!(work.features[16..18], [3.0, 4.0]);
        let mut gradient = vec![0.0; arrays.total];
        encoder.backward(Scalar, &work, 2, &mut gradient);
        assert_eq!(gradient, params);
    }
}
