//! Recurrent layers: LSTM or GRU cells between a network's dense layers and its outputs.
//!
//! A tile of rows advances one step per call. The states before and after the step are separate buffers: the caller
//! carries the state on (a row that does not decide keeps its state, the end of an episode clears it).

use hotloop_core::simd::{BLOCK, Floats, Simd};

use super::buffer::Buffer;
use super::cell::{CellBackward, CellForward, SAVED};
use super::chain::{FromPanels, IntoPanel, Span};
use super::gru::Gru;
use super::lstm::Lstm;
use super::matmul::{Epilogue, Identity, RowMajorMut};
use super::spec::{Array, Arrays, Cell, RecurrentSpec, Role, padded};

/// Initial bias of the LSTM's forget gate and the GRU's update gate: most of the state is kept at first, so gradients
/// reach far back.
const KEEP_GATE_BIAS: f32 = 1.0;
/// Maximum number of units per layer.
pub const MAX_UNITS: usize = 4096;
/// Maximum number of layers.
pub const MAX_LAYERS: usize = 16;

/// Offsets of a layer's arrays.
#[derive(Clone, Debug)]
struct Layer {
    /// Number of inputs.
    inputs: usize,
    /// Input weights.
    input: usize,
    /// Hidden weights.
    hidden: usize,
    /// Biases of the gates.
    bias: usize,
    /// Hidden bias of the GRU's candidate.
    hidden_bias: Option<usize>,
    /// Offsets of the transposed input and hidden weights.
    transposed: (usize, usize),
}

/// The recurrent layers of a network.
#[derive(Clone, Debug)]
pub struct RecurrentLayers {
    /// Spec.
    pub spec: RecurrentSpec,
    layers: Vec<Layer>,
    transposed_len: usize,
    /// Rows per tile.
    tile: usize,
}

/// Workspace of one layer, for a tile of rows at one step.
struct LayerWork {
    /// `h` and `c` before the step; the GRU has no `c`.
    before: [Buffer; 2],
    /// `h` and `c` after the step.
    after: [Buffer; 2],
    /// Panels of gates; after the backward pass, their gradients.
    gates: Buffer,
    /// Hyperbolic tangent of `c` after the step.
    tanh: Buffer,
}

/// Workspace of a tile of rows at one step.
pub struct RecurrentWork {
    width: usize,
    layers: Vec<LayerWork>,
}

/// Gradient of the state, propagated back through the steps.
pub struct StateGradient {
    width: usize,
    layers: Vec<[Buffer; 2]>,
    /// Gradient of the outputs of the layer below the current one.
    out: Buffer,
}

/// Arguments of a cell: one step of one layer. Rows of state are `width` apart.
pub struct Step {
    pub(super) rows: usize,
    pub(super) size: usize,
    pub(super) width: usize,
    pub(super) inputs: usize,
    pub(super) x: *const f32,
    pub(super) x_row: usize,
    pub(super) h: *const f32,
    pub(super) c: *const f32,
    pub(super) h_out: *mut f32,
    pub(super) c_out: *mut f32,
    pub(super) input: *const f32,
    pub(super) hidden: *const f32,
    pub(super) bias: *const f32,
    pub(super) hidden_bias: *const f32,
    /// Whether gates and `tanh` are saved for the backward pass.
    pub(super) training: bool,
    pub(super) gates: *mut f32,
    pub(super) tanh: *mut f32,
    /// Distance between panels of gates.
    pub(super) panel: usize,
}

/// Arguments of a cell's backward pass.
pub struct BackwardStep<'a> {
    pub(super) step: &'a Step,
    /// Rows that decided.
    pub(super) valid: &'a [bool],
    /// Gradient of the outputs.
    pub(super) out: *const f32,
    /// Gradient of `h` after the step; replaced by that of `h` before it.
    pub(super) dh: *mut f32,
    /// Gradient of `c`, likewise.
    pub(super) dc: *mut f32,
}

impl RecurrentLayers {
    /// Lay out layers whose arrays are named `prefix.k...`.
    pub fn new(arrays: &mut Arrays, spec: RecurrentSpec, inputs: usize, prefix: &str, tile: usize) -> Self {
        let (gates, size) = (spec.cell.gates(), spec.size);
        let units = gates * padded(size);
        let mut transposed_len = 0;
        let mut transposed = |inputs: usize| {
            transposed_len += units * padded(inputs);
            transposed_len - units * padded(inputs)
        };
        let layers = (0..spec.layers).map(|k| {
            let inputs = if k == 0 { inputs } else { size };
            let name = |what: &str| format!("{prefix}.{k}.{what}");
            Layer {
                inputs,
                input: arrays.add(name("input.weight"), Role::Gates(gates), inputs, gates * size),
                hidden: arrays.add(name("hidden.weight"), Role::Gates(gates), size, gates * size),
                bias: arrays.add(name("bias"), Role::GateBias(gates), 1, gates * size),
                hidden_bias: (spec.cell == Cell::Gru).then(|| arrays.add(name("hidden.bias"), Role::Vector, 1, size)),
                transposed: (transposed(inputs), transposed(size)),
            }
        });
        Self { layers: layers.collect(), spec, transposed_len, tile }
    }

    /// Size of the transposed weights.
    pub fn transposed_len(&self) -> usize {
        self.transposed_len
    }

    /// Copy the weights that the backward pass needs transposed: a row of inputs for each gate of each unit.
    pub fn transpose(&self, params: &[f32], transposed: &mut [f32]) {
        let stride = self.spec.cell.gates() * BLOCK;
        for layer in &self.layers {
            for (from, to, inputs) in
                [(layer.input, layer.transposed.0, layer.inputs), (layer.hidden, layer.transposed.1, self.spec.size)]
            {
                let width = padded(inputs);
                for panel in 0..padded(self.spec.size) / BLOCK {
                    let weights = &params[from + panel * inputs * stride..][..inputs * stride];
                    let panel = &mut transposed[to + panel * stride * width..][..stride * width];
                    for (input, row) in weights.chunks_exact(stride).enumerate() {
                        row.iter().enumerate().for_each(|(gate, x)| panel[gate * width + input] = *x);
                    }
                }
            }
        }
    }

    /// Buffers for a tile at one step; with those of the backward pass if `training`.
    pub fn workspace(&self, training: bool) -> RecurrentWork {
        let width = padded(self.spec.size);
        let lstm = self.spec.cell == Cell::Lstm;
        let rows = |wanted: bool| Buffer::new(if wanted { self.tile * width } else { 0 });
        let layer = |_: &Layer| LayerWork {
            before: [rows(true), rows(lstm)],
            after: [rows(true), rows(lstm)],
            gates: Buffer::new(if training { self.tile * width / BLOCK * SAVED } else { 0 }),
            tanh: rows(training && lstm),
        };
        RecurrentWork { width, layers: self.layers.iter().map(layer).collect() }
    }

    /// Buffers for the gradient of a tile's state.
    pub fn state_gradient(&self) -> StateGradient {
        let width = padded(self.spec.size);
        let buffer = || Buffer::new(self.tile * width);
        StateGradient { width, layers: self.layers.iter().map(|_| [buffer(), buffer()]).collect(), out: buffer() }
    }

    fn step(&self, params: &[f32], work: &mut RecurrentWork, k: usize, x: (*const f32, usize), rows: usize) -> Step {
        let layer = &self.layers[k];
        let at = |offset: usize| params[offset..].as_ptr();
        let work = &mut work.layers[k];
        Step {
            rows,
            size: self.spec.size,
            width: padded(self.spec.size),
            inputs: layer.inputs,
            x: x.0,
            x_row: x.1,
            h: work.before[0].as_ptr(),
            c: work.before[1].as_ptr(),
            h_out: work.after[0].as_mut_ptr(),
            c_out: work.after[1].as_mut_ptr(),
            input: at(layer.input),
            hidden: at(layer.hidden),
            bias: at(layer.bias),
            hidden_bias: layer.hidden_bias.map_or(std::ptr::null(), at),
            training: !work.gates.is_empty(),
            gates: work.gates.as_mut_ptr(),
            tanh: work.tanh.as_mut_ptr(),
            panel: self.tile * SAVED,
        }
    }

    /// Inputs of a layer and the distance between their rows.
    fn inputs(&self, work: &RecurrentWork, k: usize, x: *const f32) -> (*const f32, usize) {
        let below = if k == 0 { x } else { work.layers[k - 1].after[0].as_ptr() };
        (below, padded(self.layers[k].inputs))
    }

    /// Advance a tile by one step with the inputs at `x`.
    ///
    /// # Safety
    /// There are `rows` rows of inputs of the first layer, at most a tile, padded to whole blocks.
    #[inline(always)]
    pub unsafe fn forward<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        x: *const f32,
        work: &mut RecurrentWork,
        rows: usize,
    ) {
        for k in 0..self.layers.len() {
            let x = self.inputs(work, k, x);
            let step = self.step(params, work, k, x, rows);
            match self.spec.cell {
                Cell::Lstm => simd.call(CellForward::<_, 4> { cell: Lstm, step: &step }),
                Cell::Gru => simd.call(CellForward::<_, 3> { cell: Gru, step: &step }),
            }
        }
    }

    /// Propagate the gradient one step back: add that of the weights to `gradient`, and replace `x` by its gradient,
    /// passed through `epilogue`. `state` holds the gradient of the state after the step, then of the state before it;
    /// the workspace's outputs hold their gradient.
    ///
    /// # Safety
    /// As for `forward`, which was called for the same step with a workspace for training.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // the parts of a backward step
    pub unsafe fn backward<S: Simd, F: Epilogue>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        x: *mut f32,
        work: &mut RecurrentWork,
        state: &mut StateGradient,
        valid: &[bool],
        epilogue: F,
        gradient: &mut [f32],
    ) {
        let rows = valid.len();
        let width = padded(self.spec.size);
        for k in (0..self.layers.len()).rev() {
            let layer = &self.layers[k];
            let inputs = self.inputs(work, k, x);
            let top = k + 1 == self.layers.len();
            let out = if top { work.layers[k].after[0].as_ptr() } else { state.out.as_ptr() };
            let step = self.step(params, work, k, inputs, rows);
            let [dh, dc] = &mut state.layers[k];
            let back = BackwardStep { step: &step, valid, out, dh: dh.as_mut_ptr(), dc: dc.as_mut_ptr() };
            // SAFETY: `gradient` is laid out like `params`; all buffers have `rows` rows.
            unsafe {
                match self.spec.cell {
                    Cell::Lstm => simd.call(CellBackward::<_, 4> { cell: Lstm, back: &back }),
                    Cell::Gru => simd.call(CellBackward::<_, 3> { cell: Gru, back: &back }),
                }
                self.add_weights(simd, layer, &step, gradient);
                let (input_spans, hidden_spans) = self.spans();
                let product = |spans, transposed_at: usize, inputs: usize, c, adds| FromPanels {
                    rows,
                    cols: padded(inputs),
                    panels: width / BLOCK,
                    a: step.gates.cast_const(),
                    a_panel: step.panel,
                    a_row: SAVED,
                    spans,
                    b: transposed[transposed_at..].as_ptr(),
                    c: RowMajorMut { at: c, row: padded(inputs) },
                    adds,
                    epilogue: Identity,
                };
                simd.call(product(hidden_spans, layer.transposed.1, self.spec.size, back.dh, true));
                if k > 0 {
                    simd.call(product(input_spans, layer.transposed.0, layer.inputs, state.out.as_mut_ptr(), false));
                } else {
                    let inputs = product(input_spans, layer.transposed.0, layer.inputs, x, false);
                    simd.call(inputs.with(epilogue));
                }
            }
        }
    }

    /// Columns of the gates' gradients that belong to the inputs, and to the hidden state.
    fn spans(&self) -> (&'static [Span], &'static [Span]) {
        match self.spec.cell {
            Cell::Lstm => (&[Span { first: 0, len: SAVED }], &[Span { first: 0, len: SAVED }]),
            Cell::Gru => (
                &[Span { first: 0, len: 3 * BLOCK }],
                &[Span { first: 0, len: 2 * BLOCK }, Span { first: 3 * BLOCK, len: BLOCK }],
            ),
        }
    }

    /// Add the gradient of a layer's weights and biases.
    #[inline(always)]
    unsafe fn add_weights<S: Simd>(&self, simd: S, layer: &Layer, step: &Step, gradient: &mut [f32]) {
        let width = self.spec.cell.gates() * BLOCK;
        for panel in 0..step.width / BLOCK {
            // SAFETY: the caller's promise.
            unsafe {
                let gradients = step.gates.add(panel * step.panel).cast_const();
                let sources = [
                    (step.x, step.x_row, layer.inputs, layer.input, [0, BLOCK, 2 * BLOCK]),
                    (step.h, step.width, step.size, layer.hidden, [0, BLOCK, 3 * BLOCK]),
                ];
                for (a, a_row, cols, at, vectors) in sources {
                    let c = gradient[at + panel * cols * width..].as_mut_ptr();
                    let (rows, b, b_row) = (step.rows, gradients, SAVED);
                    match self.spec.cell {
                        Cell::Lstm => {
                            let vectors = [0, BLOCK, 2 * BLOCK, 3 * BLOCK];
                            simd.call(IntoPanel { rows, cols, a, a_row, b, b_row, vectors, c });
                        }
                        Cell::Gru => simd.call(IntoPanel { rows, cols, a, a_row, b, b_row, vectors, c }),
                    }
                }
                add_rows(simd, gradients, width, step.rows, gradient[layer.bias + panel * width..].as_mut_ptr());
                if let Some(at) = layer.hidden_bias {
                    let to = gradient[at + panel * BLOCK..].as_mut_ptr();
                    add_rows(simd, gradients.add(3 * BLOCK), BLOCK, step.rows, to);
                }
            }
        }
    }
}

/// Add rows of saved gates to a row, one after the other.
#[inline(always)]
unsafe fn add_rows<S: Simd>(simd: S, from: *const f32, width: usize, rows: usize, to: *mut f32) {
    for col in (0..width).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = simd.load(to.add(col));
            for row in 0..rows {
                sum = sum + simd.load(from.add(row * SAVED + col));
            }
            sum.store(to.add(col));
        }
    }
}

impl RecurrentWork {
    /// Outputs, rows padded to whole blocks; before the backward pass, their gradient.
    pub fn outputs(&mut self) -> &mut Buffer {
        &mut self.layers.last_mut().expect("there is at least one layer").after[0]
    }

    /// Set the state of a row before the step: `h` and `c` of each layer.
    pub fn load_state(&mut self, spec: &RecurrentSpec, row: usize, numbers: &[f32]) {
        let parts = numbers.chunks_exact(spec.size);
        let buffers = self.layers.iter_mut().flat_map(|layer| layer.before.iter_mut()).filter(|b| !b.is_empty());
        for (buffer, part) in buffers.zip(parts) {
            buffer[row * padded(spec.size)..][..spec.size].copy_from_slice(part);
        }
    }

    /// Copy the state of a row after the step.
    pub fn store_state(&self, spec: &RecurrentSpec, row: usize, numbers: &mut [f32]) {
        let parts = numbers.chunks_exact_mut(spec.size);
        let buffers = self.layers.iter().flat_map(|layer| layer.after.iter()).filter(|b| !b.is_empty());
        for (buffer, part) in buffers.zip(parts) {
            part.copy_from_slice(&buffer[row * padded(spec.size)..][..spec.size]);
        }
    }

    /// Set the states before the step from those of the step before: zeros if the row's episode ended, unchanged if the
    /// row did not decide.
    pub fn carry_state(&mut self, previous: &Self, decided: &[bool], ended: &[bool]) {
        for (layer, last) in self.layers.iter_mut().zip(&previous.layers) {
            for (i, to) in layer.before.iter_mut().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
                let width = self.width;
                for (row, (decided, ended)) in decided.iter().zip(ended).enumerate() {
                    let from = if *decided { &last.after[i] } else { &last.before[i] };
                    let range = row * width..(row + 1) * width;
                    if *ended {
                        to[range].fill(0.0);
                    } else {
                        to[range.clone()].copy_from_slice(&from[range]);
                    }
                }
            }
        }
    }
}

impl StateGradient {
    /// Start at the last step: nothing is propagated from beyond it.
    pub fn clear(&mut self) {
        self.layers.iter_mut().flatten().for_each(|buffer| buffer.fill(0.0));
    }

    /// Clear the gradient of rows whose episode ended: nothing is propagated across episodes.
    pub fn cut(&mut self, ended: &[bool]) {
        for buffer in self.layers.iter_mut().flatten() {
            let width = self.width;
            for (row, _) in ended.iter().enumerate().filter(|(_, ended)| **ended) {
                buffer[row * width..(row + 1) * width].fill(0.0);
            }
        }
    }
}

/// Initialise the biases of gates: zero except the gate that keeps the state.
pub fn init_biases(array: &Array, params: &mut [f32]) {
    let Role::GateBias(gates) = array.role else { return };
    let units = array.cols / gates;
    // f of i, f, g, o; z of r, z, n.
    (0..units).for_each(|unit| params[array.index(units + unit, 0)] = KEEP_GATE_BIAS);
}

/// Check the sizes; the message says what is wrong.
pub fn check(spec: &RecurrentSpec) -> Result<(), String> {
    if spec.size == 0 || spec.size > MAX_UNITS {
        return Err(format!("memory_size is {}: expected 1 to {MAX_UNITS}", spec.size));
    }
    if spec.layers == 0 || spec.layers > MAX_LAYERS {
        return Err(format!("memory_layers is {}: expected 1 to {MAX_LAYERS}", spec.layers));
    }
    Ok(())
}
