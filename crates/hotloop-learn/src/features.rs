//! Preprocessing of observations: scaling and normalisation, or conversion to discrete states.

use crate::moments::Moments;
use crate::nn::policy::PolicyWork;
use crate::nn::spec::Input;

/// Bound on the absolute value of normalised observations.
const LIMIT: f32 = 10.0;

/// Preprocessing of a network's observations.
#[derive(Clone, Debug)]
pub struct Features {
    input: Input,
    /// Subtracted from each number; empty if observations are not normalised.
    pub mean: Vec<f32>,
    /// Multiplied with each number.
    pub scale: Vec<f32>,
}

impl Features {
    /// Without normalisation.
    pub fn new(input: &Input) -> Self {
        Self { input: input.clone(), mean: Vec::new(), scale: Vec::new() }
    }

    /// Normalises with these statistics from now on; empty ones switch normalisation off.
    pub fn set_statistics(&mut self, moments: &Moments) {
        self.mean.clear();
        self.scale.clear();
        if moments.count > 0.0 {
            self.mean.extend(moments.mean.iter().map(|x| *x as f32));
            let scales = (0..moments.mean.len()).map(|i| (1.0 / (moments.variance(i) + 1e-8).sqrt()) as f32);
            self.scale.extend(scales);
        }
    }

    /// Loads the observations at these indices (`row_bytes` each) into the workspace.
    #[inline(always)]
    pub fn load(&self, obs: &[u8], row_bytes: usize, indices: &[u32], work: &mut PolicyWork) {
        let rows = indices.iter().map(|index| &obs[*index as usize * row_bytes..][..row_bytes]);
        match self.input {
            Input::Real { len } => {
                let numbers = &mut work.input()[..len * indices.len()];
                numbers.chunks_exact_mut(len).zip(rows).for_each(|(to, bytes)| copy_numbers(bytes, to));
                self.normalise(numbers);
            }
            Input::Bytes { len, high } => {
                let scale = 1.0 / f32::from(high);
                let numbers = &mut work.input()[..len * indices.len()];
                for (to, bytes) in numbers.chunks_exact_mut(len).zip(rows) {
                    to.iter_mut().zip(bytes).for_each(|(x, byte)| *x = f32::from(*byte) * scale);
                }
                self.normalise(numbers);
            }
            Input::OneHot { n } | Input::Embedding { n, .. } => {
                for (state, bytes) in work.states().iter_mut().zip(rows) {
                    let mut word = [0; 8];
                    word.copy_from_slice(bytes);
                    // Runners check that observations are in their space; here an invalid one must only stay in bounds.
                    *state = (i64::from_ne_bytes(word) as u64).min(n as u64 - 1) as u32;
                }
            }
        }
    }

    #[inline(always)]
    fn normalise(&self, numbers: &mut [f32]) {
        if self.mean.is_empty() {
            return;
        }
        for row in numbers.chunks_exact_mut(self.mean.len()) {
            for ((x, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
                *x = ((*x - mean) * scale).clamp(-LIMIT, LIMIT);
            }
        }
    }
}

/// Copies four numbers at a time: rows are too short for a library call to pay off.
#[inline(always)]
fn copy_numbers(bytes: &[u8], to: &mut [f32]) {
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
