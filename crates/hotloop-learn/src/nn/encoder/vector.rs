//! Observations that are vectors of numbers: they are the features, and have no parameters.

use super::super::buffer::Buffer;
use super::{FeatureRows, Normalization, Observations};

/// Largest magnitude of a normalised number.
const LIMIT: f32 = 10.0;

/// A vector of `len` numbers.
#[derive(Clone, Debug)]
pub struct Vector {
    pub(super) len: usize,
}

/// A tile of vectors, without padding between rows.
pub struct VectorWork {
    input: Buffer,
    stride: usize,
}

impl Vector {
    pub(super) fn new(len: usize) -> Self {
        Self { len }
    }
}

impl VectorWork {
    pub(super) fn new(len: usize, tile: usize) -> Self {
        Self { input: Buffer::new(tile * len), stride: len }
    }

    #[inline(always)]
    pub(super) fn load_floats(&mut self, len: usize, observations: Observations<'_>, normalization: Normalization<'_>) {
        let numbers = &mut self.input[..len * observations.rows.len()];
        numbers.chunks_exact_mut(len).zip(observations.iter()).for_each(|(to, bytes)| copy_floats(bytes, to));
        normalize(numbers, normalization);
    }

    /// As above, from bytes of 0 to `high`, which become 0 to 1.
    #[inline(always)]
    pub(super) fn load_bytes(
        &mut self,
        len: usize,
        high: u8,
        observations: Observations<'_>,
        normalization: Normalization<'_>,
    ) {
        let scale = 1.0 / f32::from(high);
        let numbers = &mut self.input[..len * observations.rows.len()];
        for (to, bytes) in numbers.chunks_exact_mut(len).zip(observations.iter()) {
            to.iter_mut().zip(bytes).for_each(|(x, byte)| *x = f32::from(*byte) * scale);
        }
        normalize(numbers, normalization);
    }

    #[inline(always)]
    pub(super) fn features(&mut self) -> FeatureRows {
        FeatureRows { rows: self.input.as_mut_ptr(), stride: self.stride, sums: std::ptr::null_mut() }
    }

    pub(super) fn copy_input(&mut self, from: &Self) {
        self.input.copy_from_slice(&from.input);
    }
}

#[inline(always)]
fn normalize(numbers: &mut [f32], Normalization { mean, scale }: Normalization<'_>) {
    if mean.is_empty() {
        return;
    }
    for row in numbers.chunks_exact_mut(mean.len()) {
        for ((x, mean), scale) in row.iter_mut().zip(mean).zip(scale) {
            *x = ((*x - mean) * scale).clamp(-LIMIT, LIMIT);
        }
    }
}

/// Copy four numbers at a time: rows are too short for `memcpy` to pay.
#[inline(always)]
fn copy_floats(bytes: &[u8], to: &mut [f32]) {
    assert!(bytes.len() == 4 * to.len());
    let (from, to, len) = (bytes.as_ptr().cast::<f32>(), to.as_mut_ptr(), to.len());
    let whole = len / 4 * 4;
    // SAFETY: both have `len` numbers, and any alignment will do.
    unsafe {
        for i in (0..whole).step_by(4) {
            let four = from.add(i).cast::<[f32; 4]>().read_unaligned();
            to.add(i).cast::<[f32; 4]>().write_unaligned(four);
        }
        for i in whole..len {
            *to.add(i) = from.add(i).read_unaligned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Normalization<'_> = Normalization { mean: &[], scale: &[] };

    fn rows(work: &mut VectorWork, count: usize) -> Vec<f32> {
        work.input[..count * work.stride].to_vec()
    }

    #[test]
    fn floats_are_copied_row_by_row() {
        let numbers: Vec<f32> = (0..21).map(|x| x as f32).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut work = VectorWork::new(7, 16);
        work.load_floats(7, Observations { bytes: &bytes, row_bytes: 28, rows: &[2, 0] }, NONE);
        assert_eq!(rows(&mut work, 2), [&numbers[14..], &numbers[..7]].concat());
    }

    #[test]
    fn bytes_are_scaled_to_one() {
        let mut work = VectorWork::new(2, 16);
        work.load_bytes(2, 4, Observations { bytes: &[0, 4, 2, 1], row_bytes: 2, rows: &[1, 0] }, NONE);
        assert_eq!(rows(&mut work, 2), [0.5, 0.25, 0.0, 1.0]);
    }

    #[test]
    fn normalised_numbers_are_clipped() {
        let mut work = VectorWork::new(2, 16);
        let normalization = Normalization { mean: &[1.0, 0.0], scale: &[2.0, 1000.0] };
        work.load_bytes(2, 1, Observations { bytes: &[0, 1], row_bytes: 2, rows: &[0] }, normalization);
        assert_eq!(rows(&mut work, 1), [-2.0, LIMIT]);
    }
}
