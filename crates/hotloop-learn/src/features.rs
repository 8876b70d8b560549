//! From observations as envs give them to what networks are fed: numbers, normalised if asked for, or states.

use crate::moments::Moments;
use crate::nn::policy::PolicyWork;
use crate::nn::spec::Input;

/// The largest normalised number in size.
const LIMIT: f32 = 10.0;

/// How observations become a network's input.
#[derive(Clone, Debug)]
pub struct Features {
    input: Input,
    /// Subtracted from each number; empty if observations are not normalised.
    pub mean: Vec<f32>,
    /// Multiplied with each number.
    pub scale: Vec<f32>,
}

impl Features {
    /// As they are.
    pub fn new(input: &Input) -> Self {
        Self { input: input.clone(), mean: Vec::new(), scale: Vec::new() }
    }

    /// Normalises with these statistics from now on; nothing changes before there are any.
    pub fn set_statistics(&mut self, moments: &Moments) {
        self.mean.clear();
        self.scale.clear();
        if moments.count > 0.0 {
            self.mean.extend(moments.mean.iter().map(|x| *x as f32));
            let scales = (0..moments.mean.len()).map(|i| (1.0 / (moments.variance(i) + 1e-8).sqrt()) as f32);
            self.scale.extend(scales);
        }
    }

    /// Puts the observations at these places (`row_bytes` each) into the workspace.
    #[inline(always)]
    pub fn load(&self, obs: &[u8], row_bytes: usize, places: &[u32], work: &mut PolicyWork) {
        for (i, place) in places.iter().enumerate() {
            let bytes = &obs[*place as usize * row_bytes..][..row_bytes];
            match self.input {
                Input::Real { len } => {
                    let to = &mut work.input()[i * len..(i + 1) * len];
                    for (x, word) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
                        *x = f32::from_ne_bytes(*word);
                    }
                    self.normalise(to);
                }
                Input::Bytes { len, high } => {
                    let to = &mut work.input()[i * len..(i + 1) * len];
                    let scale = 1.0 / f32::from(high);
                    to.iter_mut().zip(bytes).for_each(|(x, byte)| *x = f32::from(*byte) * scale);
                    self.normalise(to);
                }
                Input::OneHot { n } | Input::Embedding { n, .. } => {
                    let mut word = [0; 8];
                    word.copy_from_slice(bytes);
                    // An observation outside its space is the runner's business; here it must only do no harm.
                    work.states()[i] = (i64::from_ne_bytes(word) as u64).min(n as u64 - 1) as u32;
                }
            }
        }
    }

    #[inline(always)]
    fn normalise(&self, numbers: &mut [f32]) {
        for ((x, mean), scale) in numbers.iter_mut().zip(&self.mean).zip(&self.scale) {
            *x = ((*x - mean) * scale).clamp(-LIMIT, LIMIT);
        }
    }
}
