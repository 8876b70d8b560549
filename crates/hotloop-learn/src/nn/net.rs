//! A network: an encoder, a trunk of dense layers, optional recurrent layers and the output layer, for a tile of rows at
//! a time.
//!
//! Activations are row-major; only the outputs are stored column by column (rows in lanes), as losses and
//! sampling read them. Gradients overwrite activations in the backward pass.

use hotloop_core::simd::Simd;

use super::activation::{Activation, ActivationBackward, ActivationFn, Gelu, Relu, Silu, Tanh};
use super::buffer::Buffer;
use super::encoder::{Encoder, EncoderWork};
use super::matmul::{Epilogue, Identity, Init, RowMajor, RowMajorMut, Size, Strided, multiply};
use super::recurrent::{RecurrentLayers, RecurrentWork, StateGradient};
use super::rows::{sum_in_lanes, transpose};
use super::spec::{Arrays, PolicySpec, Role, padded};
use super::trunk::{Trunk, TrunkWork};

pub use super::rows::tree;

/// Maximum number of rows per tile, and the length of a column of outputs.
pub const TILE: usize = 64;

/// The output layer, whose weights have a row per output.
#[derive(Clone, Debug)]
struct OutputLayer {
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
}

/// A network.
#[derive(Clone, Debug)]
pub struct Net {
    encoder: Encoder,
    trunk: Trunk,
    /// Recurrent layers, if any.
    pub recurrent: Option<RecurrentLayers>,
    head: OutputLayer,
    activation: Activation,
    /// Rows per tile.
    tile: usize,
}

/// Buffers for a tile of rows.
pub struct Workspace {
    /// Buffers of the encoder, which hold the input.
    pub encoder: EncoderWork,
    trunk: TrunkWork,
    /// Buffers of the recurrent layers, if any.
    pub recurrent: Option<RecurrentWork>,
    /// Inputs of the output layer, column by column.
    columns: Buffer,
    /// Outputs of the network, [`TILE`] per output; before the backward pass, their gradient.
    pub outputs: Buffer,
}

impl Net {
    /// Lay out a network for tiles of `tile` rows; `names` are those of its trunk, recurrent layers and outputs.
    pub fn new(arrays: &mut Arrays, spec: &PolicySpec, names: [&str; 3], outputs: usize, tile: usize) -> Self {
        let [prefix, recurrent, head] = names;
        let encoder = Encoder::new(arrays, &spec.encoder, prefix, &spec.hidden);
        let trunk = Trunk::new(arrays, &encoder, &spec.hidden, prefix);
        let recurrent = spec.recurrent.map(|spec| RecurrentLayers::new(arrays, spec, trunk.outputs, recurrent, tile));
        let inputs = recurrent.as_ref().map_or(trunk.outputs, |layers| layers.spec.size);
        let weights = arrays.add(format!("{head}.weight"), Role::Outputs, outputs, inputs);
        let bias = arrays.add(format!("{head}.bias"), Role::Vector, 1, outputs);
        let head = OutputLayer { inputs, outputs, weights, bias };
        Self { encoder, trunk, recurrent, head, activation: spec.activation, tile }
    }

    /// Size of all transposed weights.
    pub fn transposed_len(&self) -> usize {
        self.trunk.transposed_len + self.recurrent.as_ref().map_or(0, RecurrentLayers::transposed_len)
    }

    /// Buffers for a tile; with those of the backward pass if `training`.
    pub fn workspace(&self, training: bool) -> Workspace {
        Workspace {
            encoder: self.encoder.workspace(self.activation, self.tile),
            trunk: self.trunk.workspace(self.activation, self.tile),
            recurrent: self.recurrent.as_ref().map(|layers| layers.workspace(training)),
            columns: Buffer::new(padded(self.head.inputs) * self.tile),
            outputs: Buffer::new(self.head.outputs * TILE),
        }
    }

    /// Copy the weights that the backward pass needs transposed.
    pub fn transpose(&self, params: &[f32], transposed: &mut [f32]) {
        let (trunk, recurrent) = transposed.split_at_mut(self.trunk.transposed_len);
        self.trunk.transpose(params, trunk);
        if let Some(layers) = &self.recurrent {
            layers.transpose(params, recurrent);
        }
    }

    /// Compute the outputs of `rows` rows in `work.outputs`.
    #[inline(always)]
    pub fn forward<S: Simd>(&self, simd: S, params: &[f32], work: &mut Workspace, rows: usize) {
        match self.activation {
            Activation::Tanh => self.forward_with::<S, Tanh>(simd, params, work, rows),
            Activation::Relu => self.forward_with::<S, Relu>(simd, params, work, rows),
            Activation::Silu => self.forward_with::<S, Silu>(simd, params, work, rows),
            Activation::Gelu => self.forward_with::<S, Gelu>(simd, params, work, rows),
        }
    }

    /// Add the gradient of `rows` rows to `gradient`; `work.outputs` holds that of the outputs.
    #[inline(always)]
    pub fn backward<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        match self.activation {
            Activation::Tanh => self.backward_with::<S, Tanh>(simd, params, transposed, work, rows, gradient),
            Activation::Relu => self.backward_with::<S, Relu>(simd, params, transposed, work, rows, gradient),
            Activation::Silu => self.backward_with::<S, Silu>(simd, params, transposed, work, rows, gradient),
            Activation::Gelu => self.backward_with::<S, Gelu>(simd, params, transposed, work, rows, gradient),
        }
    }

    /// Propagate the gradient of a recurrent network's rows one step back in time, after `outputs_back_to_recurrent` for that step.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as for `backward`, with the state's part
    pub fn step_back<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        work: &mut Workspace,
        valid: &[bool],
        state: &mut StateGradient,
        gradient: &mut [f32],
    ) {
        match self.activation {
            Activation::Tanh => self.step_back_with::<S, Tanh>(simd, params, transposed, work, valid, state, gradient),
            Activation::Relu => self.step_back_with::<S, Relu>(simd, params, transposed, work, valid, state, gradient),
            Activation::Silu => self.step_back_with::<S, Silu>(simd, params, transposed, work, valid, state, gradient),
            Activation::Gelu => self.step_back_with::<S, Gelu>(simd, params, transposed, work, valid, state, gradient),
        }
    }

    #[inline(always)]
    fn forward_with<S: Simd, A: ActivationFn>(&self, simd: S, params: &[f32], work: &mut Workspace, rows: usize) {
        debug_assert!(rows <= self.tile);
        self.encoder.forward::<S, A>(simd, params, &mut work.encoder, rows);
        let features = work.encoder.features();
        self.trunk.forward::<S, A>(simd, params, features, &mut work.trunk, rows);
        let mut last = work.trunk.outputs(features).rows.cast_const();
        if let (Some(layers), Some(work)) = (&self.recurrent, &mut work.recurrent) {
            // SAFETY: the trunk's rows have the width that the recurrent layers were built for.
            unsafe { layers.forward(simd, params, last, work, rows) };
            last = work.outputs().as_ptr();
        }
        let width = padded(self.head.inputs);
        // SAFETY: there are `tile` of these rows; `columns` and `outputs` have columns of these lengths.
        unsafe {
            let last = std::slice::from_raw_parts(last, self.tile * width);
            transpose(simd, last, width, rows, &mut work.columns, self.tile);
            multiply(
                simd,
                Size { rows: self.head.outputs, cols: padded(rows), inner: self.head.inputs },
                Strided { at: params.as_ptr().add(self.head.weights), row: width, col: 1 },
                RowMajor { at: work.columns.as_ptr(), row: self.tile },
                RowMajorMut { at: work.outputs.as_mut_ptr(), row: TILE },
                Init::Column(params.as_ptr().add(self.head.bias)),
                Identity,
            );
        }
    }

    #[inline(always)]
    fn backward_with<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let last = work.trunk.outputs(work.encoder.features());
        let epilogue = ActivationBackward { function: A::default(), input: last.sums_offset::<A>() };
        self.outputs_back(simd, params, &work.outputs, last.rows, epilogue, rows, gradient);
        self.layers_back::<S, A>(simd, transposed, work, rows, gradient);
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as for `step_back`
    fn step_back_with<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        work: &mut Workspace,
        valid: &[bool],
        state: &mut StateGradient,
        gradient: &mut [f32],
    ) {
        let last = work.trunk.outputs(work.encoder.features());
        let (Some(layers), Some(layers_work)) = (&self.recurrent, &mut work.recurrent) else { return };
        let epilogue = ActivationBackward { function: A::default(), input: last.sums_offset::<A>() };
        let weights = &transposed[self.trunk.transposed_len..];
        // SAFETY: the trunk's rows are those that the recurrent layers read.
        unsafe { layers.backward(simd, params, weights, last.rows, layers_work, state, valid, epilogue, gradient) };
        self.layers_back::<S, A>(simd, transposed, work, valid.len(), gradient);
    }

    /// Propagate the gradient of the outputs to the rows they were computed from, which it replaces.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as for `backward`
    fn outputs_back<S: Simd, F: Epilogue>(
        &self,
        simd: S,
        params: &[f32],
        outputs: &[f32],
        inputs: *mut f32,
        epilogue: F,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let (stride, count) = (padded(self.head.inputs), self.head.outputs);
        // SAFETY: as in `forward_with`; `gradient` is laid out like `params`.
        unsafe {
            multiply(
                simd,
                Size { rows: count, cols: stride, inner: rows },
                Strided { at: outputs.as_ptr(), row: TILE, col: 1 },
                RowMajor { at: inputs, row: stride },
                RowMajorMut { at: gradient.as_mut_ptr().add(self.head.weights), row: stride },
                Init::Existing,
                Identity,
            );
            for output in 0..count {
                let column = &outputs[output * TILE..][..rows];
                gradient[self.head.bias + output] += sum_in_lanes(column);
            }
            multiply(
                simd,
                Size { rows, cols: stride, inner: count },
                Strided { at: outputs.as_ptr(), row: 1, col: TILE },
                RowMajor { at: params.as_ptr().add(self.head.weights), row: stride },
                RowMajorMut { at: inputs, row: stride },
                Init::Zero,
                epilogue,
            );
        }
    }

    /// Propagate the gradient of a recurrent network's outputs to the outputs of its recurrent layers.
    #[inline(always)]
    pub fn outputs_back_to_recurrent<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let Some(recurrent) = &mut work.recurrent else { return };
        self.outputs_back(simd, params, &work.outputs, recurrent.outputs().as_mut_ptr(), Identity, rows, gradient);
    }

    /// Propagate the gradient through trunk and encoder; the trunk's outputs hold that of their activations' inputs.
    #[inline(always)]
    fn layers_back<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        transposed: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let features = work.encoder.features();
        self.trunk.backward::<S, A>(simd, transposed, features, &mut work.trunk, rows, gradient);
        self.encoder.backward(simd, &mut work.encoder, rows, gradient);
    }
}
