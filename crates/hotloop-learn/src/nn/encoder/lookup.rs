//! Rows of a table by state, for one-hot and embedding encoders.

use hotloop_core::simd::{Floats, Simd};

use super::super::buffer::Buffer;
use super::super::rows::add_rows;
use super::super::spec::padded;
use super::{FeatureRows, Observations};

/// A tile of states and the features looked up for them.
pub struct LookupWork {
    pub(super) states: Vec<u32>,
    pub(super) features: Buffer,
    /// Inputs of the activation, where its derivative needs them.
    pub(super) sums: Buffer,
    pub(super) stride: usize,
}

impl LookupWork {
    pub(super) fn new(outputs: usize, tile: usize, with_sums: bool) -> Self {
        let stride = padded(outputs);
        let sums = Buffer::new(if with_sums { tile * stride } else { 0 });
        Self { states: vec![0; tile], features: Buffer::new(tile * stride), sums, stride }
    }

    #[inline(always)]
    pub(super) fn load(&mut self, n: usize, observations: Observations<'_>) {
        for (state, bytes) in self.states.iter_mut().zip(observations.iter()) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            // The runner reports observations outside their space; here they must only stay inside the table.
            *state = (i64::from_ne_bytes(word) as u64).min(n as u64 - 1) as u32;
        }
    }

    /// Fill the features of `rows` rows. `feature` takes a vector of the state's entry in the table at offset `table`, its
    /// column, and its index among the features.
    #[inline(always)]
    pub(super) fn fill<S: Simd>(
        &mut self,
        simd: S,
        params: &[f32],
        table: usize,
        rows: usize,
        feature: impl Fn(S::F, usize, usize) -> S::F,
    ) {
        let (features, stride) = (self.features.as_mut_ptr(), self.stride);
        for (row, state) in self.states[..rows].iter().enumerate() {
            let entry = table + *state as usize * stride;
            for col in (0..stride).step_by(S::LANES) {
                let index = row * stride + col;
                // SAFETY: tables and features have rows of whole blocks, and states are inside the table.
                unsafe {
                    feature(simd.load(params.as_ptr().add(entry + col)), col, index).store(features.add(index));
                }
            }
        }
    }

    /// Add each row's features, which hold their gradient, to its state's entry in the gradient of the table.
    #[inline(always)]
    pub(super) fn add_entries<S: Simd>(&self, simd: S, table: usize, rows: usize, gradient: &mut [f32]) {
        let (features, stride) = (self.features.as_ptr(), self.stride);
        for (row, state) in self.states[..rows].iter().enumerate() {
            let entry = table + *state as usize * stride;
            // SAFETY: as above; `gradient` is laid out like the parameters.
            unsafe { add_rows(simd, features.add(row * stride), stride, 1, gradient.as_mut_ptr().add(entry)) };
        }
    }

    #[inline(always)]
    pub(super) fn features(&mut self) -> FeatureRows {
        FeatureRows { rows: self.features.as_mut_ptr(), stride: self.stride, sums: self.sums.as_mut_ptr() }
    }

    pub(super) fn copy_input(&mut self, from: &Self) {
        self.states.copy_from_slice(&from.states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_outside_its_space_stays_inside_the_table() {
        let states = [3_i64, -1, 9, 4];
        let bytes: Vec<u8> = states.iter().flat_map(|state| state.to_ne_bytes()).collect();
        let mut work = LookupWork::new(1, 16, false);
        work.load(5, Observations { bytes: &bytes, row_bytes: 8, rows: &[0, 1, 2, 3] });
        assert_eq!(work.states[..4], [3, 4, 4, 4]);
    }
}
