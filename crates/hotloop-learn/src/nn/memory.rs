//! What a network remembers from step to step: layers of LSTM or GRU cells between its dense layers and its outputs.
//!
//! A tile of rows takes one step at a time. Its memory before and after the step are buffers of their own, so that what
//! becomes of it (a row that does not decide training it, the end of an episode empties it) is the caller's to say.

use hotloop_core::simd::{BLOCK, Floats, Simd};

use super::buffer::Buffer;
use super::chain::{FromPanels, IntoPanel, Span};
use super::matmul::{Epilogue, Identity, RowMajorMut};
use super::spec::{Array, Arrays, Cell, MemorySpec, Role, padded};
use super::{gru, lstm};

/// What the gate that training the memory starts with (the LSTM's forget gate, the GRU's update gate): at first more is
/// kept than forgotten, so that gradients reach back.
const KEEP_GATE_BIAS: f32 = 1.0;
/// The largest memory that is built.
pub const MAX_UNITS: usize = 4096;
/// The most layers of a memory.
pub const MAX_LAYERS: usize = 16;
/// Numbers kept of a block of units for the way back: the LSTM's four gates, or the GRU's three and a half.
const SAVED: usize = 4 * BLOCK;

/// One layer's arrays.
#[derive(Clone, Debug)]
struct Layer {
    /// Numbers it is fed.
    inputs: usize,
    /// Weights of what it is fed.
    input: usize,
    /// Weights of what it put out one step before.
    hidden: usize,
    /// Biases of the gates.
    bias: usize,
    /// The GRU's second bias of its candidate.
    hidden_bias: Option<usize>,
    /// Where the transposed weights of both kinds lie.
    transposed: (usize, usize),
}

/// A memory's layers.
#[derive(Clone, Debug)]
pub struct Memory {
    /// What it was built from.
    pub spec: MemorySpec,
    layers: Vec<Layer>,
    transposed_len: usize,
    /// Rows of a tile.
    tile: usize,
}

/// A tile of rows in one layer, at one step.
struct LayerTile {
    /// `h` and `c` before the step; the GRU has no `c`.
    before: [Buffer; 2],
    /// The same after it.
    after: [Buffer; 2],
    /// Panels of gates, then of their gradients.
    gates: Buffer,
    /// The hyperbolic tangent of `c` after the step.
    tanh: Buffer,
}

/// A tile of rows at one step.
pub struct MemoryTile {
    width: usize,
    layers: Vec<LayerTile>,
}

/// The gradient of the memory, on its way back through the steps.
pub struct StateGradient {
    width: usize,
    layers: Vec<[Buffer; 2]>,
    /// The gradient of what the layer in question puts out.
    out: Buffer,
}

/// One layer's step, as the cells see it. Rows of memory are `width` apart.
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
    /// Whether what the way back needs is kept: the next two.
    pub(super) training: bool,
    pub(super) gates: *mut f32,
    pub(super) tanh: *mut f32,
    /// From a panel of gates to the next.
    pub(super) panel: usize,
}

/// One layer's step back, as the cells see it.
pub struct BackwardStep<'a> {
    pub(super) step: &'a Step,
    /// Which rows decided.
    pub(super) valid: &'a [bool],
    /// The gradient of what was put out.
    pub(super) out: *const f32,
    /// The gradient of `h` after the step, then that of `h` before it.
    pub(super) dh: *mut f32,
    /// The same for `c`.
    pub(super) dc: *mut f32,
}

impl Memory {
    /// Lays out a memory whose arrays are called `prefix`.`k`...
    pub fn new(arrays: &mut Arrays, spec: MemorySpec, inputs: usize, prefix: &str, tile: usize) -> Self {
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

    /// How many numbers the transposed weights take.
    pub fn transposed_len(&self) -> usize {
        self.transposed_len
    }

    /// Copies the weights that the way back needs transposed: a row of inputs for each gate of each unit.
    pub fn transpose(&self, params: &[f32], transposed: &mut [f32]) {
        let stride = self.spec.cell.gates() * BLOCK;
        for layer in &self.layers {
            for (from, to, inputs) in
                [(layer.input, layer.transposed.0, layer.inputs), (layer.hidden, layer.transposed.1, self.spec.size)]
            {
                let width = padded(inputs);
                for panel in 0..padded(self.spec.size) / BLOCK {
                    let weights = &params[from + panel * inputs * stride..][..inputs * stride];
                    let turned = &mut transposed[to + panel * stride * width..][..stride * width];
                    for (input, row) in weights.chunks_exact(stride).enumerate() {
                        row.iter().enumerate().for_each(|(gate, x)| turned[gate * width + input] = *x);
                    }
                }
            }
        }
    }

    /// Room for a tile at one step; `training` if it will go back.
    pub fn tile(&self, training: bool) -> MemoryTile {
        let width = padded(self.spec.size);
        let lstm = self.spec.cell == Cell::Lstm;
        let rows = |wanted: bool| Buffer::new(if wanted { self.tile * width } else { 0 });
        let layer = |_: &Layer| LayerTile {
            before: [rows(true), rows(lstm)],
            after: [rows(true), rows(lstm)],
            gates: Buffer::new(if training { self.tile * width / BLOCK * SAVED } else { 0 }),
            tanh: rows(training && lstm),
        };
        MemoryTile { width, layers: self.layers.iter().map(layer).collect() }
    }

    /// Room for a tile's gradient.
    pub fn state_gradient(&self) -> StateGradient {
        let width = padded(self.spec.size);
        let buffer = || Buffer::new(self.tile * width);
        StateGradient { width, layers: self.layers.iter().map(|_| [buffer(), buffer()]).collect(), out: buffer() }
    }

    fn step(&self, params: &[f32], tile: &mut MemoryTile, k: usize, x: (*const f32, usize), rows: usize) -> Step {
        let layer = &self.layers[k];
        let at = |offset: usize| params[offset..].as_ptr();
        let tile = &mut tile.layers[k];
        Step {
            rows,
            size: self.spec.size,
            width: padded(self.spec.size),
            inputs: layer.inputs,
            x: x.0,
            x_row: x.1,
            h: tile.before[0].as_ptr(),
            c: tile.before[1].as_ptr(),
            h_out: tile.after[0].as_mut_ptr(),
            c_out: tile.after[1].as_mut_ptr(),
            input: at(layer.input),
            hidden: at(layer.hidden),
            bias: at(layer.bias),
            hidden_bias: layer.hidden_bias.map_or(std::ptr::null(), at),
            training: !tile.gates.is_empty(),
            gates: tile.gates.as_mut_ptr(),
            tanh: tile.tanh.as_mut_ptr(),
            panel: self.tile * SAVED,
        }
    }

    fn fed(&self, tile: &MemoryTile, k: usize, x: *const f32) -> (*const f32, usize) {
        let below = if k == 0 { x } else { tile.layers[k - 1].after[0].as_ptr() };
        (below, padded(self.layers[k].inputs))
    }

    /// Takes a tile one step on, fed with rows of numbers at `x`.
    ///
    /// # Safety
    /// There are `rows` rows, at most a tile, of as many numbers as the first layer is fed, in whole blocks.
    #[inline(always)]
    pub unsafe fn forward<S: Simd>(&self, simd: S, params: &[f32], x: *const f32, tile: &mut MemoryTile, rows: usize) {
        for k in 0..self.layers.len() {
            let x = self.fed(tile, k, x);
            let step = self.step(params, tile, k, x, rows);
            match self.spec.cell {
                Cell::Lstm => simd.call(lstm::Forward(&step)),
                Cell::Gru => simd.call(gru::Forward(&step)),
            }
        }
    }

    /// Takes the gradient one step back: adds the weights' to `gradient`, and replaces `x` by its own, as `epilogue` has
    /// it. `state` holds the gradient of the memory after the step, then that before it; the gradient of what the
    /// memory put out stands where that was.
    ///
    /// # Safety
    /// As for `forward`, which has gone the same step with a tile that training.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // all that a step back involves
    pub unsafe fn backward<S: Simd, F: Epilogue>(
        &self,
        simd: S,
        params: &[f32],
        transposed: &[f32],
        x: *mut f32,
        tile: &mut MemoryTile,
        state: &mut StateGradient,
        valid: &[bool],
        epilogue: F,
        gradient: &mut [f32],
    ) {
        let rows = valid.len();
        let width = padded(self.spec.size);
        for k in (0..self.layers.len()).rev() {
            let layer = &self.layers[k];
            let fed = self.fed(tile, k, x);
            let top = k + 1 == self.layers.len();
            let out = if top { tile.layers[k].after[0].as_ptr() } else { state.out.as_ptr() };
            let step = self.step(params, tile, k, fed, rows);
            let [dh, dc] = &mut state.layers[k];
            let back = BackwardStep { step: &step, valid, out, dh: dh.as_mut_ptr(), dc: dc.as_mut_ptr() };
            // SAFETY: `gradient` is laid out like `params`; all buffers have `rows` rows.
            unsafe {
                match self.spec.cell {
                    Cell::Lstm => simd.call(lstm::Backward(&back)),
                    Cell::Gru => simd.call(gru::Backward(&back)),
                }
                self.add_weights(simd, layer, &step, gradient);
                let (seen, recalled) = self.spans();
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
                simd.call(product(recalled, layer.transposed.1, self.spec.size, back.dh, true));
                if k > 0 {
                    simd.call(product(seen, layer.transposed.0, layer.inputs, state.out.as_mut_ptr(), false));
                } else {
                    let plain = product(seen, layer.transposed.0, layer.inputs, x, false);
                    simd.call(plain.with(epilogue));
                }
            }
        }
    }

    /// Which columns of the gates' gradients belong to what a layer was fed, and which to what it remembered.
    fn spans(&self) -> (&'static [Span], &'static [Span]) {
        match self.spec.cell {
            Cell::Lstm => (&[Span { first: 0, len: SAVED }], &[Span { first: 0, len: SAVED }]),
            Cell::Gru => (
                &[Span { first: 0, len: 3 * BLOCK }],
                &[Span { first: 0, len: 2 * BLOCK }, Span { first: 3 * BLOCK, len: BLOCK }],
            ),
        }
    }

    /// Adds the gradient of a layer's weights and biases.
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

/// Adds rows of kept gates to a row, one after the other.
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

impl MemoryTile {
    /// What the memory puts out, rows in whole blocks; before going back, the gradient of it.
    pub fn out(&mut self) -> &mut Buffer {
        &mut self.layers.last_mut().expect("a memory has a layer").after[0]
    }

    /// Sets the memory of a row before the step from numbers as they are kept: `h` and `c` of each layer.
    pub fn load_state(&mut self, spec: &MemorySpec, row: usize, numbers: &[f32]) {
        let parts = numbers.chunks_exact(spec.size);
        let buffers = self.layers.iter_mut().flat_map(|layer| layer.before.iter_mut()).filter(|b| !b.is_empty());
        for (buffer, part) in buffers.zip(parts) {
            buffer[row * padded(spec.size)..][..spec.size].copy_from_slice(part);
        }
    }

    /// Writes the memory of a row after the step.
    pub fn store_state(&self, spec: &MemorySpec, row: usize, numbers: &mut [f32]) {
        let parts = numbers.chunks_exact_mut(spec.size);
        let buffers = self.layers.iter().flat_map(|layer| layer.after.iter()).filter(|b| !b.is_empty());
        for (buffer, part) in buffers.zip(parts) {
            part.copy_from_slice(&buffer[row * padded(spec.size)..][..spec.size]);
        }
    }

    /// Sets the memory before the step from what `earlier`, the step before, left of each row: nothing if its episode
    /// ended, and the memory before that step if it did not decide.
    pub fn carry_state(&mut self, earlier: &Self, decided: &[bool], ended: &[bool]) {
        for (layer, last) in self.layers.iter_mut().zip(&earlier.layers) {
            for (i, to) in layer.before.iter_mut().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
                let width = self.width;
                for (row, (decided, ended)) in decided.iter().zip(ended).enumerate() {
                    let from = if *decided { &last.after[i] } else { &last.before[i] };
                    let place = row * width..(row + 1) * width;
                    if *ended {
                        to[place].fill(0.0);
                    } else {
                        to[place.clone()].copy_from_slice(&from[place]);
                    }
                }
            }
        }
    }
}

impl StateGradient {
    /// Nothing comes back from beyond the last step.
    pub fn clear(&mut self) {
        self.layers.iter_mut().flatten().for_each(|buffer| buffer.fill(0.0));
    }

    /// Nothing comes back from beyond the end of an episode.
    pub fn cut(&mut self, ended: &[bool]) {
        for buffer in self.layers.iter_mut().flatten() {
            let width = self.width;
            for (row, _) in ended.iter().enumerate().filter(|(_, ended)| **ended) {
                buffer[row * width..(row + 1) * width].fill(0.0);
            }
        }
    }
}

/// Fills a memory's first biases: zero but for the gate that training.
pub fn first_biases(array: &Array, params: &mut [f32]) {
    let Role::GateBias(gates) = array.role else { return };
    let units = array.cols / gates;
    // f of i, f, g, o; z of r, z, n.
    (0..units).for_each(|unit| params[array.place(units + unit, 0)] = KEEP_GATE_BIAS);
}

/// Says what cannot be built.
pub fn check(spec: &MemorySpec) -> Result<(), String> {
    if spec.size == 0 || spec.size > MAX_UNITS {
        return Err(format!("memory_size is {}: expected 1 to {MAX_UNITS}", spec.size));
    }
    if spec.layers == 0 || spec.layers > MAX_LAYERS {
        return Err(format!("memory_layers is {}: expected 1 to {MAX_LAYERS}", spec.layers));
    }
    Ok(())
}
