//! A policy described by data, and where its arrays lie in one flat vector of parameters.

use hotloop_core::simd::BLOCK;

use super::activation::Activation;

/// The encoder of a policy, by the observations it reads.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderSpec {
    /// Real numbers.
    Real {
        /// How many.
        len: usize,
    },
    /// Bytes, scaled to 0..=1.
    Bytes {
        /// How many.
        len: usize,
        /// The value that becomes 1.
        high: u8,
    },
    /// One of `n` states, as if one-hot.
    OneHot {
        /// How many there are.
        n: usize,
    },
    /// One of `n` states, through a table of vectors.
    Embedding {
        /// How many there are.
        n: usize,
        /// The vectors' length.
        dim: usize,
    },
}

/// How actions are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// One of `n` choices.
    Categorical {
        /// How many there are.
        n: usize,
    },
    /// One choice out of each of several sets.
    MultiCategorical {
        /// How many choices each set has.
        n: Vec<usize>,
    },
    /// Independent normal numbers whose spread does not depend on the observation.
    Gaussian {
        /// How many.
        dims: usize,
        /// The logarithm of the first standard deviation.
        log_std: f32,
    },
}

impl Head {
    /// How many numbers the policy network puts out.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Categorical { n } => *n,
            Self::MultiCategorical { n } => n.iter().sum(),
            Self::Gaussian { dims, .. } => *dims,
        }
    }

    /// How many numbers an action has.
    pub fn width(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
            Self::MultiCategorical { n } => n.len(),
            Self::Gaussian { dims, .. } => *dims,
        }
    }

    /// The sizes of the sets of choices; empty for continuous actions.
    pub fn sets(&self) -> &[usize] {
        match self {
            Self::Categorical { n } => std::slice::from_ref(n),
            Self::MultiCategorical { n } => n,
            Self::Gaussian { .. } => &[],
        }
    }
}

/// How a memory is carried from one step to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997), with the forget gate.
    Lstm,
    /// The gated recurrent unit (Cho et al. 2014), in the form whose reset gate acts after the product.
    Gru,
}

impl Cell {
    /// The one of that name; `none` is none.
    pub fn parse(name: &str) -> Result<Option<Self>, String> {
        match name {
            "none" => Ok(None),
            "lstm" => Ok(Some(Self::Lstm)),
            "gru" => Ok(Some(Self::Gru)),
            other => Err(format!("memory is {other:?}: expected none, lstm or gru")),
        }
    }

    /// How many sums each unit makes from its inputs: i, f, g, o or r, z, n, in torch's order.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// How many numbers each unit keeps.
    pub fn kept(self) -> usize {
        match self {
            Self::Lstm => 2,
            Self::Gru => 1,
        }
    }
}

/// What a network remembers, between its dense layers and its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// How.
    pub cell: Cell,
    /// Units of a layer.
    pub size: usize,
    /// Layers, one on top of the other.
    pub layers: usize,
}

impl MemorySpec {
    /// How many numbers one row's memory has.
    pub fn len(&self) -> usize {
        self.layers * self.size * self.cell.kept()
    }

    /// Whether there is nothing to remember with.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    /// How observations are encoded.
    pub encoder: EncoderSpec,
    /// Sizes of the dense layers.
    pub hidden: Vec<usize>,
    /// What stands between them.
    pub activation: Activation,
    /// Whether value and policy share the dense layers.
    pub shared: bool,
    /// What it remembers; with layers that are not shared, policy and value each have a memory of their own.
    pub memory: Option<MemorySpec>,
    /// How actions are drawn.
    pub head: Head,
}

/// What an array is to its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Weights between dense layers, kept input by input.
    Dense,
    /// A table with a row per state.
    Table,
    /// Weights of the outputs, kept output by output.
    Outputs,
    /// One number per unit.
    Vector,
    /// Weights of a memory's gates: panels of one block of units, in each input by input, in each gate by gate.
    Gates(usize),
    /// Biases of a memory's gates, in panels like their weights.
    GateBias(usize),
}

/// A named array of parameters. Rows are padded to whole blocks; padding is zero and stays zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its name in checkpoints.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Its first element.
    pub offset: usize,
    /// Rows as kept.
    pub rows: usize,
    /// Columns that mean something.
    pub cols: usize,
    /// From a row to the next.
    pub stride: usize,
}

impl Array {
    /// Its shape in checkpoints: `[outputs, inputs]` for weights, as torch has it.
    pub fn shape(&self) -> Vec<usize> {
        match self.role {
            Role::Dense | Role::Gates(_) => vec![self.cols, self.rows],
            Role::Table | Role::Outputs => vec![self.rows, self.cols],
            Role::Vector | Role::GateBias(_) => vec![self.cols],
        }
    }

    /// Where its elements lie, in the order of checkpoints.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let across = matches!(self.role, Role::Dense | Role::Gates(_) | Role::GateBias(_));
        let (outer, inner) = if across { (self.cols, self.rows) } else { (self.rows, self.cols) };
        (0..outer).flat_map(move |i| (0..inner).map(move |j| if across { self.place(i, j) } else { self.place(j, i) }))
    }

    /// Where the element of a column and a row lies.
    pub fn place(&self, col: usize, row: usize) -> usize {
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

/// The length of a row of `n` numbers.
pub fn padded(n: usize) -> usize {
    n.next_multiple_of(BLOCK)
}

/// Hands out places in the vector of parameters.
#[derive(Default)]
pub struct Arrays {
    /// All arrays so far.
    pub list: Vec<Array>,
    /// How many numbers they take.
    pub total: usize,
}

impl Arrays {
    /// A new array; gives its offset.
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
