//! Observation and action spaces of a row.

/// Observation space.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Real numbers within bounds, one pair per element.
    Box {
        /// The array's shape.
        shape: Vec<usize>,
        /// The least value of each element.
        low: Vec<f32>,
        /// The greatest value of each element.
        high: Vec<f32>,
    },
    /// Small whole numbers from 0 to `high`: images and grids.
    Bytes {
        /// The array's shape.
        shape: Vec<usize>,
        /// The greatest value of any element.
        high: u8,
    },
    /// One of `n` states, numbered from 0.
    Discrete {
        /// Number of values.
        n: usize,
    },
}

impl Observation {
    /// A vector whose elements lie in `-high[i]..=high[i]`.
    pub fn symmetric(high: &[f32]) -> Self {
        Self::Box { shape: vec![high.len()], low: high.iter().map(|x| -x).collect(), high: high.to_vec() }
    }

    /// A vector of `len` elements that all lie in `low..=high`.
    pub fn uniform(len: usize, low: f32, high: f32) -> Self {
        Self::Box { shape: vec![len], low: vec![low; len], high: vec![high; len] }
    }

    /// Number of elements of a row.
    pub fn len(&self) -> usize {
        match self {
            Self::Box { shape, .. } | Self::Bytes { shape, .. } => shape.iter().product(),
            Self::Discrete { .. } => 1,
        }
    }

    /// Whether a row has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The array's shape; empty for one number.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::Box { shape, .. } | Self::Bytes { shape, .. } => shape,
            Self::Discrete { .. } => &[],
        }
    }

    /// Bytes of one element: f32, u8 or i64.
    pub fn element_bytes(&self) -> usize {
        match self {
            Self::Box { .. } => 4,
            Self::Bytes { .. } => 1,
            Self::Discrete { .. } => 8,
        }
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.len() * self.element_bytes()
    }
}

/// Action space.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// One of `n` choices.
    Discrete {
        /// Number of values.
        n: usize,
    },
    /// One choice out of each of several sets.
    MultiDiscrete {
        /// Number of choices of each component.
        n: Vec<usize>,
    },
    /// Real numbers within bounds.
    Continuous {
        /// The least value of each element.
        low: Vec<f32>,
        /// The greatest value of each element.
        high: Vec<f32>,
    },
    /// One choice out of each of several sets, and real numbers within bounds. Only envs that are not native have such
    /// actions.
    Hybrid {
        /// Number of choices of each discrete component.
        n: Vec<usize>,
        /// The least value of each real number.
        low: Vec<f32>,
        /// The greatest value of each real number.
        high: Vec<f32>,
    },
}

impl Action {
    /// Number of components of an action.
    pub fn width(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::MultiDiscrete { n } => n.len(),
            Self::Continuous { low, .. } => low.len(),
            Self::Hybrid { n, low, .. } => n.len() + low.len(),
        }
    }

    /// Number of choices of each discrete component; empty for continuous actions.
    pub fn choices(&self) -> Vec<usize> {
        match self {
            Self::Discrete { n } => vec![*n],
            Self::MultiDiscrete { n } | Self::Hybrid { n, .. } => n.clone(),
            Self::Continuous { .. } => Vec::new(),
        }
    }

    /// The least and the greatest value of each continuous component; empty for discrete actions.
    pub fn bounds(&self) -> (&[f32], &[f32]) {
        match self {
            Self::Discrete { .. } | Self::MultiDiscrete { .. } => (&[], &[]),
            Self::Continuous { low, high } | Self::Hybrid { low, high, .. } => (low, high),
        }
    }

    /// Length of an action mask: one entry for every choice of every set.
    pub fn mask_len(&self) -> usize {
        self.choices().iter().sum()
    }
}
