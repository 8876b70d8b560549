//! Encoders: how a tile of observations becomes the rows of features that the trunk reads.
//!
//! An encoder owns its parameters, its part of the workspace and the form of its input, so the trunk, the recurrent
//! layers and the heads do not depend on the kind of observation. To add one: a file beside these, a variant of [`EncoderSpec`],
//! [`Encoder`] and [`EncoderWork`], and an arm in each `match` below. Dispatch is once per tile, never per row.
//!
//! Sums are made in the order of rows, so a gradient depends on neither threads nor vector width.

mod embedding;
mod lookup;
mod one_hot;
mod vector;

use hotloop_core::simd::Simd;
use hotloop_core::space::Observation;

pub use self::embedding::Embedding;
pub use self::lookup::LookupWork;
pub use self::one_hot::OneHot;
pub use self::vector::{Vector, VectorWork};
use super::activation::{Activation, ActivationFn};
use super::net::TILE;
use super::spec::{Arrays, EncoderSpec};

/// An encoder with its offsets in the parameters.
#[derive(Clone, Debug)]
pub enum Encoder {
    /// Numbers that are the features themselves.
    Vector(Vector),
    /// One of `n` states, through a first dense layer.
    OneHot(OneHot),
    /// One of `n` states, through a table of learned vectors.
    Embedding(Embedding),
}

/// An encoder's part of a tile's workspace: its input, and its features where it computes some.
pub enum EncoderWork {
    /// Workspace of [`Vector`].
    Vector(VectorWork),
    /// Workspace of [`OneHot`] and [`Embedding`].
    Lookup(LookupWork),
}

/// Rows of features, as the trunk reads them and as it leaves their gradient.
#[derive(Clone, Copy)]
pub struct FeatureRows {
    /// The first row; after the trunk's backward pass, its gradient, if [`Encoder::needs_gradient`].
    pub rows: *mut f32,
    /// Distance between rows.
    pub stride: usize,
    /// Inputs of the activation, in the same layout, where its derivative needs them.
    pub sums: *mut f32,
}

impl FeatureRows {
    /// From an element to its activation's input, in elements; 0 where the derivative does not need it.
    #[inline(always)]
    pub fn sums_offset<A: ActivationFn>(&self) -> isize {
        if A::NEEDS_INPUT { (self.sums as isize - self.rows as isize) / size_of::<f32>() as isize } else { 0 }
    }
}

/// Observations of a tile: some rows of an array of bytes.
#[derive(Clone, Copy)]
pub struct Observations<'a> {
    /// The array.
    pub bytes: &'a [u8],
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Index of each of the tile's rows.
    pub rows: &'a [u32],
}

impl<'a> Observations<'a> {
    /// The bytes of each row.
    fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.rows.iter().map(move |row| &self.bytes[*row as usize * self.row_bytes..][..self.row_bytes])
    }
}

/// Mean and scale per element of an observation; both empty if observations are not normalised.
#[derive(Clone, Copy)]
pub struct Normalization<'a> {
    /// Subtracted from each number.
    pub mean: &'a [f32],
    /// Multiplied with each difference.
    pub scale: &'a [f32],
}

impl EncoderSpec {
    /// The encoder of an observation space; `embedding` is the length of discrete states' vectors, 0 for one-hot.
    pub fn for_observation(observation: &Observation, embedding: usize) -> Self {
        match observation {
            Observation::Box { .. } => Self::Real { len: observation.len() },
            Observation::Bytes { high, .. } => Self::Bytes { len: observation.len(), high: (*high).max(1) },
            Observation::Discrete { n } if embedding > 0 => Self::Embedding { n: *n, dim: embedding },
            Observation::Discrete { n } => Self::OneHot { n: *n },
        }
    }

    /// Check the sizes; the message says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let size = match self {
            Self::Real { len } | Self::Bytes { len, .. } => *len,
            Self::OneHot { n } => *n,
            Self::Embedding { n, dim } => (*n).min(*dim),
        };
        if size == 0 { Err("the observation space is empty: a policy needs an input".into()) } else { Ok(()) }
    }

    /// Rows per tile: fewer for encoders whose rows need much memory.
    pub fn tile(&self) -> usize {
        match self {
            Self::Real { .. } | Self::Bytes { .. } | Self::OneHot { .. } | Self::Embedding { .. } => TILE,
        }
    }

    /// Number of elements that running statistics can normalise; 0 if there are none.
    pub fn normalizable(&self) -> usize {
        match self {
            Self::Real { len } | Self::Bytes { len, .. } => *len,
            Self::OneHot { .. } | Self::Embedding { .. } => 0,
        }
    }

    /// Convert observations to the encoder's input.
    #[inline(always)]
    pub fn load(&self, observations: Observations<'_>, normalization: Normalization<'_>, work: &mut EncoderWork) {
        match (self, work) {
            (Self::Real { len }, EncoderWork::Vector(work)) => work.load_floats(*len, observations, normalization),
            (Self::Bytes { len, high }, EncoderWork::Vector(work)) => {
                work.load_bytes(*len, *high, observations, normalization);
            }
            (Self::OneHot { n } | Self::Embedding { n, .. }, EncoderWork::Lookup(work)) => work.load(*n, observations),
            _ => unreachable!("{}", WRONG_WORK),
        }
    }
}

impl Encoder {
    /// Lay out an encoder whose arrays begin with `prefix`; `hidden` are the sizes of the network's dense layers.
    pub fn new(arrays: &mut Arrays, spec: &EncoderSpec, prefix: &str, hidden: &[usize]) -> Self {
        match *spec {
            EncoderSpec::Real { len } | EncoderSpec::Bytes { len, .. } => Self::Vector(Vector::new(len)),
            EncoderSpec::OneHot { n } => Self::OneHot(OneHot::new(arrays, prefix, n, hidden[0])),
            EncoderSpec::Embedding { n, dim } => Self::Embedding(Embedding::new(arrays, prefix, n, dim)),
        }
    }

    /// Number of features.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Vector(encoder) => encoder.len,
            Self::OneHot(encoder) => encoder.outputs,
            Self::Embedding(encoder) => encoder.dim,
        }
    }

    /// Number of the network's dense layers that the encoder replaces.
    pub fn layers(&self) -> usize {
        usize::from(matches!(self, Self::OneHot(_)))
    }

    /// Whether `backward` must be called, with the gradient of the features.
    pub fn needs_gradient(&self) -> bool {
        !matches!(self, Self::Vector(_))
    }

    /// Whether features are outputs of the network's activation. Their gradient is then that of the activation's input.
    pub fn activated(&self) -> bool {
        matches!(self, Self::OneHot(_))
    }

    /// Buffers for a tile of `tile` rows.
    pub fn workspace(&self, activation: Activation, tile: usize) -> EncoderWork {
        match self {
            Self::Vector(encoder) => EncoderWork::Vector(VectorWork::new(encoder.len, tile)),
            Self::OneHot(encoder) => {
                EncoderWork::Lookup(LookupWork::new(encoder.outputs, tile, activation.needs_input()))
            }
            Self::Embedding(encoder) => EncoderWork::Lookup(LookupWork::new(encoder.dim, tile, false)),
        }
    }

    /// Compute the features of `rows` rows.
    #[inline(always)]
    pub fn forward<S: Simd, A: ActivationFn>(&self, simd: S, params: &[f32], work: &mut EncoderWork, rows: usize) {
        match (self, work) {
            (Self::Vector(_), EncoderWork::Vector(_)) => {}
            (Self::OneHot(encoder), EncoderWork::Lookup(work)) => encoder.forward::<S, A>(simd, params, work, rows),
            (Self::Embedding(encoder), EncoderWork::Lookup(work)) => encoder.forward(simd, params, work, rows),
            _ => unreachable!("{}", WRONG_WORK),
        }
    }

    /// Add the gradient of the encoder's parameters; the rows of features hold theirs.
    #[inline(always)]
    pub fn backward<S: Simd>(&self, simd: S, work: &mut EncoderWork, rows: usize, gradient: &mut [f32]) {
        match (self, work) {
            (Self::Vector(_), EncoderWork::Vector(_)) => {}
            (Self::OneHot(encoder), EncoderWork::Lookup(work)) => encoder.backward(simd, work, rows, gradient),
            (Self::Embedding(encoder), EncoderWork::Lookup(work)) => encoder.backward(simd, work, rows, gradient),
            _ => unreachable!("{}", WRONG_WORK),
        }
    }
}

const WRONG_WORK: &str = "the workspace belongs to another encoder";

impl EncoderWork {
    /// The rows of features.
    #[inline(always)]
    pub fn features(&mut self) -> FeatureRows {
        match self {
            Self::Vector(work) => work.features(),
            Self::Lookup(work) => work.features(),
        }
    }

    /// Copy the input of another workspace of the same encoder.
    pub fn copy_input(&mut self, from: &Self) {
        match (self, from) {
            (Self::Vector(work), Self::Vector(from)) => work.copy_input(from),
            (Self::Lookup(work), Self::Lookup(from)) => work.copy_input(from),
            _ => unreachable!("{}", WRONG_WORK),
        }
    }
}
