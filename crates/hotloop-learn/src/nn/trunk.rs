//! The trunk: dense layers from the encoder's features to the rows that the recurrent layers or the heads read.

use hotloop_core::simd::Simd;

use super::activation::{Activation, ActivationBackward, ActivationFn, ActivationForward};
use super::buffer::Buffer;
use super::encoder::{Encoder, FeatureRows};
use super::matmul::{Identity, Init, RowMajor, RowMajorMut, Size, Strided, multiply};
use super::rows::add_rows;
use super::spec::{Arrays, Role, padded};

/// A dense layer.
#[derive(Clone, Debug)]
struct Layer {
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
    /// Offset of the transposed weights, where the gradient of the inputs is needed.
    transposed: Option<usize>,
}

/// Dense layers with their offsets in the parameters.
#[derive(Clone, Debug)]
pub struct Trunk {
    layers: Vec<Layer>,
    /// Whether the encoder's features are outputs of the activation.
    activated: bool,
    /// Size of the transposed weights.
    pub transposed_len: usize,
    /// Number of outputs.
    pub outputs: usize,
}

/// A tile's activations of one layer.
struct LayerWork {
    activations: Buffer,
    /// Inputs of the activation, where its derivative needs them.
    sums: Buffer,
    stride: usize,
}

impl LayerWork {
    #[inline(always)]
    fn rows(&mut self) -> FeatureRows {
        FeatureRows { rows: self.activations.as_mut_ptr(), stride: self.stride, sums: self.sums.as_mut_ptr() }
    }
}

/// A tile's activations, layer by layer.
pub struct TrunkWork {
    layers: Vec<LayerWork>,
}

impl TrunkWork {
    /// Outputs of the trunk: those of its last layer, or the features if it has none.
    #[inline(always)]
    pub fn outputs(&mut self, features: FeatureRows) -> FeatureRows {
        self.layers.last_mut().map_or(features, LayerWork::rows)
    }
}

impl Trunk {
    /// Lay out the layers of these sizes that the encoder leaves.
    pub fn new(arrays: &mut Arrays, encoder: &Encoder, hidden: &[usize], prefix: &str) -> Self {
        let mut trunk =
            Self { layers: Vec::new(), activated: encoder.activated(), transposed_len: 0, outputs: encoder.outputs() };
        for (i, size) in hidden.iter().enumerate().skip(encoder.layers()) {
            let (inputs, outputs) = (trunk.outputs, *size);
            let weights = arrays.add(format!("{prefix}.{i}.weight"), Role::Dense, inputs, outputs);
            let bias = arrays.add(format!("{prefix}.{i}.bias"), Role::Vector, 1, outputs);
            let goes_back = !trunk.layers.is_empty() || encoder.needs_gradient();
            let transposed = goes_back.then_some(trunk.transposed_len);
            trunk.transposed_len += if goes_back { outputs * padded(inputs) } else { 0 };
            trunk.layers.push(Layer { inputs, outputs, weights, bias, transposed });
            trunk.outputs = outputs;
        }
        assert!(
            trunk.activated || !trunk.layers.is_empty(),
            "recurrent layers and heads read outputs of an activation"
        );
        trunk
    }

    /// Buffers for a tile of `tile` rows.
    pub fn workspace(&self, activation: Activation, tile: usize) -> TrunkWork {
        let layer = |layer: &Layer| {
            let stride = padded(layer.outputs);
            let sums = Buffer::new(if activation.needs_input() { tile * stride } else { 0 });
            LayerWork { activations: Buffer::new(tile * stride), sums, stride }
        };
        TrunkWork { layers: self.layers.iter().map(layer).collect() }
    }

    /// Copy the weights that the backward pass needs transposed.
    pub fn transpose(&self, params: &[f32], transposed: &mut [f32]) {
        for layer in &self.layers {
            if let Some(at) = layer.transposed {
                let (from, to) = (padded(layer.outputs), padded(layer.inputs));
                for i in 0..layer.inputs {
                    let row = &params[layer.weights + i * from..][..layer.outputs];
                    for (o, weight) in row.iter().enumerate() {
                        transposed[at + o * to + i] = *weight;
                    }
                }
            }
        }
    }

    /// Compute the activations of `rows` rows.
    #[inline(always)]
    pub fn forward<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        params: &[f32],
        features: FeatureRows,
        work: &mut TrunkWork,
        rows: usize,
    ) {
        let mut input = features;
        for (layer, work) in self.layers.iter().zip(&mut work.layers) {
            let output = work.rows();
            let stride = output.stride;
            // SAFETY: the buffers have `rows` rows of these strides, and `params` holds the layer's arrays.
            unsafe {
                multiply(
                    simd,
                    Size { rows, cols: stride, inner: layer.inputs },
                    Strided { at: input.rows, row: input.stride, col: 1 },
                    RowMajor { at: params.as_ptr().add(layer.weights), row: stride },
                    RowMajorMut { at: output.rows, row: stride },
                    Init::Row(params.as_ptr().add(layer.bias)),
                    ActivationForward { function: A::default(), input: output.sums_offset::<A>() },
                );
            }
            input = output;
        }
    }

    /// Add the gradient of the layers' parameters and leave that of the features, where the encoder needs it. The
    /// trunk's outputs hold the gradient of their activations' inputs.
    #[inline(always)]
    pub fn backward<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        transposed: &[f32],
        features: FeatureRows,
        work: &mut TrunkWork,
        rows: usize,
        gradient: &mut [f32],
    ) {
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (before, after) = work.layers.split_at_mut(i);
            let input = before.last_mut().map_or(features, LayerWork::rows);
            let (outputs, stride) = (after[0].activations.as_ptr(), after[0].stride);
            // SAFETY: as above; `gradient` is laid out like the parameters.
            unsafe {
                multiply(
                    simd,
                    Size { rows: layer.inputs, cols: stride, inner: rows },
                    Strided { at: input.rows, row: 1, col: input.stride },
                    RowMajor { at: outputs, row: stride },
                    RowMajorMut { at: gradient.as_mut_ptr().add(layer.weights), row: stride },
                    Init::Existing,
                    Identity,
                );
                add_rows(simd, outputs, stride, rows, gradient.as_mut_ptr().add(layer.bias));
                let Some(at) = layer.transposed else { continue };
                let size = Size { rows, cols: input.stride, inner: layer.outputs };
                let a = Strided { at: outputs, row: stride, col: 1 };
                let b = RowMajor { at: transposed.as_ptr().add(at), row: input.stride };
                let c = RowMajorMut { at: input.rows, row: input.stride };
                if i > 0 || self.activated {
                    let epilogue = ActivationBackward { function: A::default(), input: input.sums_offset::<A>() };
                    multiply(simd, size, a, b, c, Init::Zero, epilogue);
                } else {
                    multiply(simd, size, a, b, c, Init::Zero, Identity);
                }
            }
        }
    }
}
