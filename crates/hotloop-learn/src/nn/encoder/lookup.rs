//! Rows of a table by state: what one-hot and embedding encoders share.

use super::super::buffer::Buffer;
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
