//! Embeddings: a learned vector per state, which the trunk's first layer reads.

use hotloop_core::simd::Simd;

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
        work.fill(simd, params, self.table, rows, |vector, _, _| vector);
    }

    #[inline(always)]
    pub(super) fn backward<S: Simd>(&self, simd: S, work: &LookupWork, rows: usize, gradient: &mut [f32]) {
        work.add_entries(simd, self.table, rows, gradient);
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
