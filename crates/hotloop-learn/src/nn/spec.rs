//! Specs of policies, and the layout of their arrays in one flat vector of parameters.

use hotloop_core::simd::BLOCK;
use hotloop_core::space::Action;

use super::activation::Activation;

/// The encoder of a policy, by the observations it reads.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderSpec {
    /// Real numbers.
    Real {
        /// Number of elements.
        len: usize,
    },
    /// Bytes, scaled to 0..=1.
    Bytes {
        /// Number of elements.
        len: usize,
        /// Value that is scaled to 1.
        high: u8,
    },
    /// One of `n` states, one-hot.
    OneHot {
        /// Number of states.
        n: usize,
    },
    /// One of `n` states, embedded.
    Embedding {
        /// Number of states.
        n: usize,
        /// Length of the embedding.
        dim: usize,
    },
}

/// Distribution of actions: independent categorical distributions, one for each set of choices, and a diagonal Gaussian
/// whose standard deviations do not depend on the observation. The outputs of the policy network are the logits of all
/// sets, then the means.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Number of choices of each set; empty for continuous actions.
    pub sets: Vec<usize>,
    /// Number of continuous dimensions; 0 for discrete actions.
    pub dims: usize,
    /// Initial logarithm of the standard deviations.
    pub log_std: f32,
}

impl Head {
    /// The distribution of an action space.
    pub fn new(action: &Action, log_std: f32) -> Self {
        Self { sets: action.choices(), dims: action.bounds().0.len(), log_std }
    }

    /// Number of logits.
    pub fn logits(&self) -> usize {
        self.sets.iter().sum()
    }

    /// Number of outputs of the policy network.
    pub fn outputs(&self) -> usize {
        self.logits() + self.dims
    }
}

/// Kind of recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997), with the forget gate.
    Lstm,
    /// The gated recurrent unit (Cho et al. 2014), in the form whose reset gate acts after the product.
    Gru,
}

impl Cell {
    /// Parse the name of a cell; `none` is `None`.
    pub fn parse(name: &str) -> Result<Option<Self>, String> {
        match name {
            "none" => Ok(None),
            "lstm" => Ok(Some(Self::Lstm)),
            "gru" => Ok(Some(Self::Gru)),
            other => Err(format!("memory is {other:?}: expected none, lstm or gru")),
        }
    }

    /// Gates per unit: i, f, g, o or r, z, n, in torch's order.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Numbers of state per unit.
    pub fn state_len(self) -> usize {
        match self {
            Self::Lstm => 2,
            Self::Gru => 1,
        }
    }
}

/// Recurrent layers between the dense layers and the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentSpec {
    /// Kind of cell.
    pub cell: Cell,
    /// Units per layer.
    pub size: usize,
    /// Number of stacked layers.
    pub layers: usize,
}

impl RecurrentSpec {
    /// Numbers of recurrent state per row.
    pub fn state_len(&self) -> usize {
        self.layers * self.size * self.cell.state_len()
    }
}

/// Spec of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    /// Encoder of observations.
    pub encoder: EncoderSpec,
    /// Sizes of the dense layers.
    pub hidden: Vec<usize>,
    /// Activation function.
    pub activation: Activation,
    /// Whether policy and value share the trunk.
    pub shared: bool,
    /// Recurrent layers, if any; without a shared trunk, policy and value each have their own.
    pub recurrent: Option<RecurrentSpec>,
    /// Distribution of actions.
    pub head: Head,
}

/// Role of an array in its network, which decides its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Weights of a dense layer, a row per input.
    Dense,
    /// A table with a row per state.
    Table,
    /// Weights of the output layer, a row per output.
    Outputs,
    /// One number per unit.
    Vector,
    /// Weights of a number of gates: panels of one block of units, ordered by input, then by gate.
    Gates(usize),
    /// Biases of a number of gates, in panels like their weights.
    GateBias(usize),
}

/// A named array of parameters. Rows are padded to whole blocks; padding is zero and stays zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Name in checkpoints.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Index of the first element.
    pub offset: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns, without padding.
    pub cols: usize,
    /// Distance between rows.
    pub stride: usize,
}

impl Array {
    /// Shape in checkpoints: `[outputs, inputs]` for weights, as in torch.
    pub fn shape(&self) -> Vec<usize> {
        match self.role {
            Role::Dense | Role::Gates(_) => vec![self.cols, self.rows],
            Role::Table | Role::Outputs => vec![self.rows, self.cols],
            Role::Vector | Role::GateBias(_) => vec![self.cols],
        }
    }

    /// Indices of the elements, in the order of checkpoints.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        let transposed = matches!(self.role, Role::Dense | Role::Gates(_) | Role::GateBias(_));
        let (outer, inner) = if transposed { (self.cols, self.rows) } else { (self.rows, self.cols) };
        (0..outer)
            .flat_map(move |i| (0..inner).map(move |j| if transposed { self.index(i, j) } else { self.index(j, i) }))
    }

    /// Index of the element of a column and a row.
    pub fn index(&self, col: usize, row: usize) -> usize {
        self.offset
            + match self.role {
                Role::Gates(gates) | Role::GateBias(gates) => {
                    let (gate, unit) = (col / (self.cols / gates), col % (self.cols / gates));
                    let panel = unit / BLOCK;
                    ((panel * self.rows + row) * gates + gate) * BLOCK + unit % BLOCK
                }
                _ => row * self.stride + col,
            }
    }
}

/// Length of a row of `n` numbers, padded to whole blocks.
pub fn padded(n: usize) -> usize {
    n.next_multiple_of(BLOCK)
}

/// Allocator of arrays in the vector of parameters.
#[derive(Default)]
pub struct Arrays {
    /// Arrays so far.
    pub list: Vec<Array>,
    /// Their total size.
    pub total: usize,
}

impl Arrays {
    /// Add an array; returns its offset.
    pub fn add(&mut self, name: String, role: Role, rows: usize, cols: usize) -> usize {
        let stride = match role {
            Role::Gates(gates) | Role::GateBias(gates) => gates * padded(cols / gates),
            _ => padded(cols),
        };
        let offset = self.total;
        self.total += rows * stride;
        self.list.push(Array { name, role, offset, rows, cols, stride });
        offset
    }
}
