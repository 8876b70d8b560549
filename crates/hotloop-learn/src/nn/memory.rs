//! What a network remembers from step to step: layers of LSTM or GRU cells between its dense layers and its outputs.

use super::spec::{Array, Arrays, Cell, MemorySpec, Role};

/// What the gate that keeps the memory starts with (the LSTM's forget gate, the GRU's update gate): at first more is
/// kept than forgotten, so that gradients reach back.
const KEEP_BIAS: f32 = 1.0;

/// One layer's arrays.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Numbers it is fed.
    pub inputs: usize,
    /// Weights of what it is fed.
    pub input: usize,
    /// Weights of what it put out one step before.
    pub hidden: usize,
    /// Biases of the gates.
    pub bias: usize,
    /// The GRU's second bias of its candidate.
    pub hidden_bias: Option<usize>,
}

/// A memory's layers.
#[derive(Clone, Debug)]
pub struct Memory {
    /// What it was built from.
    pub spec: MemorySpec,
    /// From the one that is fed by the dense layers to the one that feeds the outputs.
    pub layers: Vec<Layer>,
}

impl Memory {
    /// Lays out a memory whose arrays are called `prefix`.`k`...
    pub fn new(arrays: &mut Arrays, spec: MemorySpec, inputs: usize, prefix: &str) -> Self {
        let (gates, size) = (spec.cell.gates(), spec.size);
        let layers = (0..spec.layers).map(|k| {
            let inputs = if k == 0 { inputs } else { size };
            let name = |what: &str| format!("{prefix}.{k}.{what}");
            Layer {
                inputs,
                input: arrays.add(name("input.weight"), Role::Gates(gates), inputs, gates * size),
                hidden: arrays.add(name("hidden.weight"), Role::Gates(gates), size, gates * size),
                bias: arrays.add(name("bias"), Role::GateBias(gates), 1, gates * size),
                hidden_bias: (spec.cell == Cell::Gru).then(|| arrays.add(name("hidden.bias"), Role::Vector, 1, size)),
            }
        });
        Self { spec, layers: layers.collect() }
    }
}

/// Fills a memory's first biases: zero but for the gate that keeps.
pub fn first_biases(array: &Array, params: &mut [f32]) {
    let Role::GateBias(gates) = array.role else { return };
    let units = array.cols / gates;
    // f of i, f, g, o; z of r, z, n.
    (0..units).for_each(|unit| params[array.place(units + unit, 0)] = KEEP_BIAS);
}

/// The largest memory that is built.
pub const MOST_UNITS: usize = 4096;
/// The most layers of a memory.
pub const MOST_LAYERS: usize = 16;

/// Says what cannot be built.
pub fn check(spec: &MemorySpec) -> Result<(), String> {
    if spec.size == 0 || spec.size > MOST_UNITS {
        return Err(format!("memory_size is {}: expected 1 to {MOST_UNITS}", spec.size));
    }
    if spec.layers == 0 || spec.layers > MOST_LAYERS {
        return Err(format!("memory_layers is {}: expected 1 to {MOST_LAYERS}", spec.layers));
    }
    Ok(())
}
