//! Preprocessing of observations: running statistics and the encoder that they are loaded for.

use crate::moments::Moments;
use crate::nn::encoder::{Normalization, Observations};
use crate::nn::policy::PolicyWork;
use crate::nn::spec::EncoderSpec;

/// Preprocessing of a network's observations.
#[derive(Clone, Debug)]
pub struct Features {
    encoder: EncoderSpec,
    /// Subtracted from each number; empty if observations are not normalised.
    pub mean: Vec<f32>,
    /// Multiplied with each number.
    pub scale: Vec<f32>,
}

impl Features {
    /// Without normalisation.
    pub fn new(encoder: &EncoderSpec) -> Self {
        Self { encoder: encoder.clone(), mean: Vec::new(), scale: Vec::new() }
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
        let observations = Observations { bytes: obs, row_bytes, rows: indices };
        let normalization = Normalization { mean: &self.mean, scale: &self.scale };
        self.encoder.load(observations, normalization, work.encoder());
    }
}
