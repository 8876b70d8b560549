//! A network of dense layers: a tile of rows forward, and its gradient back.
//!
//! Activations are row-major; only the outputs are kept column by column (rows in lanes), which is how losses and
//! sampling want them. Gradients overwrite activations on the way back.

use hotloop_core::simd::{BLOCK, Floats, Simd};

use super::activation::{Activate, Activation, Curve, Descend, Gelu, Relu, Silu, Tanh};
use super::buffer::Buffer;
use super::matmul::{Finish, Into, Left, Plain, Right, Size, Start, multiply};
use super::memory::{Memory, MemoryTile, StateGradient};
use super::spec::{Arrays, Input, PolicySpec, Role, padded};

/// Rows that go through a network together.
pub const TILE: usize = 64;

/// A layer: `inputs` numbers in, `outputs` out.
#[derive(Clone, Debug)]
struct Dense {
    inputs: usize,
    outputs: usize,
    weights: usize,
    bias: usize,
    /// Where the transposed weights lie, if the gradient of the inputs is needed.
    mirror: Option<usize>,
}

/// How states become the first layer's numbers.
#[derive(Clone, Copy, Debug)]
enum First {
    /// The numbers are there.
    Given,
    /// A row of a table is the sum of the first layer's products.
    OneHot { table: usize, bias: usize, outputs: usize },
    /// A row of a table is what the first layer is fed.
    Embedding { table: usize, dim: usize },
}

/// A network.
#[derive(Clone, Debug)]
pub struct Net {
    first: First,
    layers: Vec<Dense>,
    /// What it remembers, if it does.
    pub memory: Option<Memory>,
    head: Dense,
    activation: Activation,
    mirror_len: usize,
    /// How many numbers it puts out.
    pub outputs: usize,
}

/// What a tile of rows needs on its way.
pub struct Workspace {
    /// Numbers fed to the first layer, `inputs` per row.
    pub input: Buffer,
    /// States fed to a table.
    pub states: [u32; TILE],
    activations: Vec<Buffer>,
    sums: Vec<Buffer>,
    /// What it remembers, if it does.
    pub memory: Option<MemoryTile>,
    turned: Buffer,
    /// What the network puts out, `TILE` per output; before going back, the gradient of it.
    pub outputs: Buffer,
}

impl Net {
    /// Lays out a network whose dense layers, memory and outputs are called by these names.
    pub fn new(arrays: &mut Arrays, spec: &PolicySpec, names: [&str; 3], outputs: usize) -> Self {
        let [prefix, memory, head] = names;
        let (input, hidden) = (&spec.input, &spec.hidden[..]);
        let mut mirror_len = 0;
        let (mut width, first, skip) = match *input {
            Input::Real { len } | Input::Bytes { len, .. } => (len, First::Given, 0),
            Input::OneHot { n } => {
                let size = hidden[0];
                let table = arrays.add(format!("{prefix}.0.weight"), Role::Table, n, size);
                let bias = arrays.add(format!("{prefix}.0.bias"), Role::Vector, 1, size);
                (size, First::OneHot { table, bias, outputs: size }, 1)
            }
            Input::Embedding { n, dim } => {
                let table = arrays.add(format!("{prefix}.embedding.weight"), Role::Table, n, dim);
                (dim, First::Embedding { table, dim }, 0)
            }
        };
        let mut layers = Vec::new();
        for (i, size) in hidden.iter().enumerate().skip(skip) {
            let weights = arrays.add(format!("{prefix}.{i}.weight"), Role::Dense, width, *size);
            let bias = arrays.add(format!("{prefix}.{i}.bias"), Role::Vector, 1, *size);
            let goes_back = i > 0 || matches!(first, First::Embedding { .. });
            let mirror = goes_back.then_some(mirror_len);
            mirror_len += if goes_back { size * padded(width) } else { 0 };
            layers.push(Dense { inputs: width, outputs: *size, weights, bias, mirror });
            width = *size;
        }
        let memory = spec.memory.map(|kind| Memory::new(arrays, kind, width, memory));
        width = memory.as_ref().map_or(width, |memory| memory.spec.size);
        let weights = arrays.add(format!("{head}.weight"), Role::Outputs, outputs, width);
        let bias = arrays.add(format!("{head}.bias"), Role::Vector, 1, outputs);
        let head = Dense { inputs: width, outputs, weights, bias, mirror: None };
        Self { first, layers, memory, head, activation: spec.activation, mirror_len, outputs }
    }

    /// How many numbers the transposed weights take.
    pub fn mirror_len(&self) -> usize {
        self.mirror_len + self.memory.as_ref().map_or(0, Memory::mirror_len)
    }

    /// Room for a tile on its way; `returns` if it will go back.
    pub fn workspace(&self, returns: bool) -> Workspace {
        let first = match self.first {
            First::Given => self.layers[0].inputs,
            First::OneHot { outputs, .. } => outputs,
            First::Embedding { dim, .. } => dim,
        };
        let wide = |n: usize| Buffer::new(TILE * padded(n));
        let store_sums = self.activation.needs_input();
        let mut widths: Vec<usize> = self.layers.iter().map(|layer| layer.outputs).collect();
        if !matches!(self.first, First::Given) {
            widths.insert(0, first);
        }
        Workspace {
            input: Buffer::new(TILE * first),
            states: [0; TILE],
            sums: widths.iter().map(|n| if store_sums { wide(*n) } else { Buffer::new(0) }).collect(),
            activations: widths.iter().map(|n| wide(*n)).collect(),
            memory: self.memory.as_ref().map(|memory| memory.tile(returns)),
            turned: Buffer::new(padded(self.head.inputs) * TILE),
            outputs: Buffer::new(self.outputs * TILE),
        }
    }

    /// Copies the weights that the way back needs transposed.
    pub fn mirror(&self, params: &[f32], mirror: &mut [f32]) {
        for layer in &self.layers {
            if let Some(at) = layer.mirror {
                let (from, to) = (padded(layer.outputs), padded(layer.inputs));
                for i in 0..layer.inputs {
                    let row = &params[layer.weights + i * from..][..layer.outputs];
                    for (o, weight) in row.iter().enumerate() {
                        mirror[at + o * to + i] = *weight;
                    }
                }
            }
        }
        if let Some(memory) = &self.memory {
            memory.mirror(params, &mut mirror[self.mirror_len..]);
        }
    }

    /// Feeds `rows` rows forward; the outputs are in `work.outputs`.
    #[inline(always)]
    pub fn forward<S: Simd>(&self, simd: S, params: &[f32], work: &mut Workspace, rows: usize) {
        match self.activation {
            Activation::Tanh => self.forward_with::<S, Tanh>(simd, params, work, rows),
            Activation::Relu => self.forward_with::<S, Relu>(simd, params, work, rows),
            Activation::Silu => self.forward_with::<S, Silu>(simd, params, work, rows),
            Activation::Gelu => self.forward_with::<S, Gelu>(simd, params, work, rows),
        }
    }

    /// Adds the gradient of `rows` rows to `gradient`; `work.outputs` holds that of the outputs.
    #[inline(always)]
    pub fn backward<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        mirror: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        match self.activation {
            Activation::Tanh => self.backward_with::<S, Tanh>(simd, params, mirror, work, rows, gradient),
            Activation::Relu => self.backward_with::<S, Relu>(simd, params, mirror, work, rows, gradient),
            Activation::Silu => self.backward_with::<S, Silu>(simd, params, mirror, work, rows, gradient),
            Activation::Gelu => self.backward_with::<S, Gelu>(simd, params, mirror, work, rows, gradient),
        }
    }

    /// Takes the gradient of `rows` rows with memory one step back; `work.outputs` holds that of the outputs.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as for `backward`, and what memory adds
    pub fn step_back<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        mirror: &[f32],
        work: &mut Workspace,
        decides: &[bool],
        returning: &mut StateGradient,
        gradient: &mut [f32],
    ) {
        match self.activation {
            Activation::Tanh => {
                self.step_back_with::<S, Tanh>(simd, params, mirror, work, decides, returning, gradient);
            }
            Activation::Relu => {
                self.step_back_with::<S, Relu>(simd, params, mirror, work, decides, returning, gradient);
            }
            Activation::Silu => {
                self.step_back_with::<S, Silu>(simd, params, mirror, work, decides, returning, gradient);
            }
            Activation::Gelu => {
                self.step_back_with::<S, Gelu>(simd, params, mirror, work, decides, returning, gradient);
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as above
    fn step_back_with<S: Simd, C: Curve>(
        &self,
        simd: S,
        params: &[f32],
        mirror: &[f32],
        work: &mut Workspace,
        decides: &[bool],
        returning: &mut StateGradient,
        gradient: &mut [f32],
    ) {
        let (Some(memory), Some(tile)) = (&self.memory, &mut work.memory) else { return };
        let last = work.activations.len() - 1;
        let to = work.activations[last].as_mut_ptr();
        let input = if C::NEEDS_INPUT { distance(to, work.sums[last].as_mut_ptr()) } else { 0 };
        let finish = Descend { curve: C::default(), input };
        let turned = &mirror[self.mirror_len..];
        // SAFETY: the last layer's rows are what the memory was fed.
        unsafe { memory.backward(simd, params, turned, to, tile, returning, decides, finish, gradient) };
        self.dense_back::<S, C>(simd, mirror, work, decides.len(), gradient);
    }

    #[inline(always)]
    fn forward_with<S: Simd, C: Curve>(&self, simd: S, params: &[f32], work: &mut Workspace, rows: usize) {
        self.look_up::<S, C>(simd, params, work, rows);
        let looked_up = usize::from(!matches!(self.first, First::Given));
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, after) = work.activations.split_at_mut(i + looked_up);
            let (fed, row) = match before.last() {
                Some(buffer) => (buffer.as_ptr(), padded(layer.inputs)),
                None => (work.input.as_ptr(), layer.inputs),
            };
            let to = after[0].as_mut_ptr();
            let input = if C::NEEDS_INPUT { distance(to, work.sums[i + looked_up].as_mut_ptr()) } else { 0 };
            let stride = padded(layer.outputs);
            // SAFETY: the buffers have TILE rows of these strides, and `params` holds the layer's arrays.
            unsafe {
                multiply(
                    simd,
                    Size { rows, cols: stride, inner: layer.inputs },
                    Left { at: fed, row, col: 1 },
                    Right { at: params.as_ptr().add(layer.weights), row: stride },
                    Into { at: to, row: stride },
                    Start::Row(params.as_ptr().add(layer.bias)),
                    Activate { curve: C::default(), input },
                );
            }
        }
        let mut last = work.activations.last().expect("a policy has a dense layer");
        if let (Some(memory), Some(tile)) = (&self.memory, &mut work.memory) {
            // SAFETY: the last layer's rows have the width that the memory was built for.
            unsafe { memory.forward(simd, params, last.as_ptr(), tile, rows) };
            last = tile.out();
        }
        turn(simd, last, padded(self.head.inputs), rows, &mut work.turned);
        // SAFETY: as above; `turned` and `outputs` have TILE numbers per row.
        unsafe {
            multiply(
                simd,
                Size { rows: self.outputs, cols: padded(rows), inner: self.head.inputs },
                Left { at: params.as_ptr().add(self.head.weights), row: padded(self.head.inputs), col: 1 },
                Right { at: work.turned.as_ptr(), row: TILE },
                Into { at: work.outputs.as_mut_ptr(), row: TILE },
                Start::Column(params.as_ptr().add(self.head.bias)),
                Plain,
            );
        }
    }

    #[inline(always)]
    fn look_up<S: Simd, C: Curve>(&self, simd: S, params: &[f32], work: &mut Workspace, rows: usize) {
        let (table, width, bias) = match self.first {
            First::Given => return,
            First::OneHot { table, bias, outputs } => (table, outputs, Some(bias)),
            First::Embedding { table, dim } => (table, dim, None),
        };
        let stride = padded(width);
        for row in 0..rows {
            let entry = table + work.states[row] as usize * stride;
            for col in (0..stride).step_by(S::LANES) {
                // SAFETY: tables, vectors and activations have rows of whole blocks; states were checked against `n`.
                unsafe {
                    let x = simd.load(params.as_ptr().add(entry + col));
                    let value = if let Some(bias) = bias {
                        let sum = x + simd.load(params.as_ptr().add(bias + col));
                        if C::NEEDS_INPUT {
                            sum.store(work.sums[0].as_mut_ptr().add(row * stride + col));
                        }
                        C::value(simd, sum)
                    } else {
                        x
                    };
                    value.store(work.activations[0].as_mut_ptr().add(row * stride + col));
                }
            }
        }
    }

    #[inline(always)]
    fn backward_with<S: Simd, C: Curve>(
        &self,
        simd: S,
        params: &[f32],
        mirror: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let last = work.activations.len() - 1;
        let to = work.activations[last].as_mut_ptr();
        let input = if C::NEEDS_INPUT { distance(to, work.sums[last].as_mut_ptr()) } else { 0 };
        self.outputs_back(simd, params, &work.outputs, to, Descend { curve: C::default(), input }, rows, gradient);
        self.dense_back::<S, C>(simd, mirror, work, rows, gradient);
    }

    /// From the gradient of the outputs to that of what they were made from, which it replaces, as `finish` has it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as for `backward`
    fn outputs_back<S: Simd, F: Finish>(
        &self,
        simd: S,
        params: &[f32],
        outputs: &[f32],
        from: *mut f32,
        finish: F,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let stride = padded(self.head.inputs);
        // SAFETY: as in `forward_with`; `gradient` is laid out like `params`.
        unsafe {
            let slopes = Left { at: outputs.as_ptr(), row: TILE, col: 1 };
            multiply(
                simd,
                Size { rows: self.outputs, cols: stride, inner: rows },
                slopes,
                Right { at: from, row: stride },
                Into { at: gradient.as_mut_ptr().add(self.head.weights), row: stride },
                Start::Sum,
                Plain,
            );
            for output in 0..self.outputs {
                let column = &outputs[output * TILE..][..rows];
                gradient[self.head.bias + output] += sum_in_lanes(column);
            }
            let size = Size { rows, cols: stride, inner: self.outputs };
            let a = Left { at: outputs.as_ptr(), row: 1, col: TILE };
            let b = Right { at: params.as_ptr().add(self.head.weights), row: stride };
            multiply(simd, size, a, b, Into { at: from, row: stride }, Start::Zero, finish);
        }
    }

    /// The same for what a memory put out; going back through the memory comes later.
    #[inline(always)]
    pub fn outputs_back_to_memory<S: Simd>(
        &self,
        simd: S,
        params: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let Some(tile) = &mut work.memory else { return };
        self.outputs_back(simd, params, &work.outputs, tile.out().as_mut_ptr(), Plain, rows, gradient);
    }

    /// Back through the dense layers; the last one's rows hold the gradient of its sums.
    #[inline(always)]
    fn dense_back<S: Simd, C: Curve>(
        &self,
        simd: S,
        mirror: &[f32],
        work: &mut Workspace,
        rows: usize,
        gradient: &mut [f32],
    ) {
        let embedded = matches!(self.first, First::Embedding { .. });
        let looked_up = usize::from(!matches!(self.first, First::Given));
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (before, after) = work.activations.split_at_mut(i + looked_up);
            let slopes = after[0].as_ptr();
            let (outputs, inputs) = (padded(layer.outputs), padded(layer.inputs));
            let (fed, row) = match before.last() {
                Some(buffer) => (buffer.as_ptr(), inputs),
                None => (work.input.as_ptr(), layer.inputs),
            };
            // SAFETY: as above.
            unsafe {
                multiply(
                    simd,
                    Size { rows: layer.inputs, cols: outputs, inner: rows },
                    Left { at: fed, row: 1, col: row },
                    Right { at: slopes, row: outputs },
                    Into { at: gradient.as_mut_ptr().add(layer.weights), row: outputs },
                    Start::Sum,
                    Plain,
                );
                add_rows(simd, slopes, outputs, rows, gradient.as_mut_ptr().add(layer.bias));
                let (Some(at), Some(buffer)) = (layer.mirror, before.last_mut()) else { continue };
                let size = Size { rows, cols: inputs, inner: layer.outputs };
                let a = Left { at: slopes, row: outputs, col: 1 };
                let b = Right { at: mirror.as_ptr().add(at), row: inputs };
                let to = buffer.as_mut_ptr();
                let into = Into { at: to, row: inputs };
                if i == 0 && embedded {
                    multiply(simd, size, a, b, into, Start::Zero, Plain);
                } else {
                    let sums = work.sums[i + looked_up - 1].as_mut_ptr();
                    let input = if C::NEEDS_INPUT { distance(to, sums) } else { 0 };
                    multiply(simd, size, a, b, into, Start::Zero, Descend { curve: C::default(), input });
                }
            }
        }
        self.give_back(simd, work, rows, gradient);
    }

    /// The gradient of the table's rows that were looked up.
    #[inline(always)]
    fn give_back<S: Simd>(&self, simd: S, work: &Workspace, rows: usize, gradient: &mut [f32]) {
        let (table, width, bias) = match self.first {
            First::Given => return,
            First::OneHot { table, bias, outputs } => (table, outputs, Some(bias)),
            First::Embedding { table, dim } => (table, dim, None),
        };
        let stride = padded(width);
        let slopes = work.activations[0].as_ptr();
        for row in 0..rows {
            let entry = table + work.states[row] as usize * stride;
            // SAFETY: as above.
            unsafe { add_rows(simd, slopes.add(row * stride), stride, 1, gradient.as_mut_ptr().add(entry)) };
        }
        if let Some(bias) = bias {
            // SAFETY: as above.
            unsafe { add_rows(simd, slopes, stride, rows, gradient.as_mut_ptr().add(bias)) };
        }
    }
}

fn distance(from: *mut f32, to: *mut f32) -> isize {
    (to as isize - from as isize) / size_of::<f32>() as isize
}

/// Adds `rows` rows of `width` numbers to a row, one after the other.
#[inline(always)]
unsafe fn add_rows<S: Simd>(simd: S, from: *const f32, width: usize, rows: usize, to: *mut f32) {
    let mut col = 0;
    // SAFETY: the caller's promise: rows of whole blocks.
    unsafe {
        // Additions of one column wait for each other; those of several columns need not.
        while width - col >= 4 * S::LANES {
            add_columns::<S, 4>(simd, from.add(col), width, rows, to.add(col));
            col += 4 * S::LANES;
        }
        while col < width {
            add_columns::<S, 1>(simd, from.add(col), width, rows, to.add(col));
            col += S::LANES;
        }
    }
}

#[inline(always)]
unsafe fn add_columns<S: Simd, const VECS: usize>(simd: S, from: *const f32, width: usize, rows: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums: [S::F; VECS] = std::array::from_fn(|v| simd.load(to.add(v * S::LANES)));
        for row in 0..rows {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = *sum + simd.load(from.add(row * width + v * S::LANES));
            }
        }
        for (v, sum) in sums.iter().enumerate() {
            sum.store(to.add(v * S::LANES));
        }
    }
}

/// The sum of up to a tile of numbers: element i goes to lane i mod 16, and the lanes meet in a fixed tree.
#[inline(always)]
pub fn sum_in_lanes(numbers: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; BLOCK];
    for block in numbers.chunks(BLOCK) {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += x;
        }
    }
    tree(lanes)
}

/// Sixteen lanes in a fixed order.
#[inline(always)]
pub fn tree(mut lanes: [f32; BLOCK]) -> f32 {
    let mut half = BLOCK / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Copies rows of `width` numbers to columns of TILE.
#[inline(always)]
fn turn<S: Simd>(simd: S, from: &[f32], width: usize, rows: usize, to: &mut [f32]) {
    assert!(from.len() >= TILE * width && to.len() >= TILE * width && rows <= TILE);
    for row in (0..rows).step_by(BLOCK) {
        for col in (0..width).step_by(BLOCK) {
            // SAFETY: whole blocks of both, as the lengths say.
            unsafe {
                simd.transpose(
                    from.as_ptr().add(row * width + col),
                    width,
                    to.as_mut_ptr().add(col * TILE + row),
                    TILE,
                );
            }
        }
    }
}
