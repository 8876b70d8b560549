//! A policy: one network (shared trunk) or two, the standard deviations of continuous actions, and all their parameters.

use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::{BLOCK, Simd};

use super::buffer::Buffer;
use super::encoder::EncoderWork;
use super::init::{orthogonal, orthogonal_gates};
use super::net::{Net, TILE, Workspace};
use super::recurrent::{self, StateGradient};
use super::spec::{Array, Arrays, PolicySpec, Role};

/// A policy and its value function.
#[derive(Clone)]
pub struct Policy {
    /// Spec.
    pub spec: PolicySpec,
    /// Layout of the parameters.
    pub arrays: Vec<Array>,
    /// All parameters.
    pub params: Buffer,
    /// Offset of the log standard deviations of continuous actions.
    pub log_std: Option<usize>,
    /// Rows per tile.
    pub tile: usize,
    nets: Vec<Net>,
    /// Transposed weights of each network, for the backward pass.
    transposed: Vec<Buffer>,
}

/// Workspace of a policy for a tile of rows.
pub struct PolicyWork {
    nets: Vec<Workspace>,
}

impl PolicyWork {
    /// Destination of the input: the first network's encoder; `forward` copies it to the second's.
    pub fn encoder(&mut self) -> &mut EncoderWork {
        &mut self.nets[0].encoder
    }

    /// Set the recurrent state of a row before the step.
    pub fn load_state(&mut self, spec: &PolicySpec, row: usize, numbers: &[f32]) {
        let Some(spec) = &spec.recurrent else { return };
        for (net, part) in self.nets.iter_mut().zip(numbers.chunks_exact(spec.state_len())) {
            net.recurrent.iter_mut().for_each(|work| work.load_state(spec, row, part));
        }
    }

    /// Copy the recurrent state of a row after the step.
    pub fn store_state(&self, spec: &PolicySpec, row: usize, numbers: &mut [f32]) {
        let Some(spec) = &spec.recurrent else { return };
        for (net, part) in self.nets.iter().zip(numbers.chunks_exact_mut(spec.state_len())) {
            net.recurrent.iter().for_each(|work| work.store_state(spec, row, part));
        }
    }

    /// Set the recurrent states before the step from those of the step before.
    pub fn carry_state(&mut self, previous: &Self, decided: &[bool], ended: &[bool]) {
        for (net, last) in self.nets.iter_mut().zip(&previous.nets) {
            if let (Some(work), Some(last)) = (&mut net.recurrent, &last.recurrent) {
                work.carry_state(last, decided, ended);
            }
        }
    }

    fn share_input(&mut self) {
        if let [first, second] = &mut self.nets[..] {
            second.encoder.copy_input(&first.encoder);
        }
    }

    /// The action outputs and the value, `TILE` rows each; after the loss, their gradients.
    pub fn outputs(&mut self, actions: usize) -> (&mut [f32], &mut [f32]) {
        match &mut self.nets[..] {
            [one] => one.outputs.split_at_mut(actions * TILE),
            [policy, value] => (&mut policy.outputs, &mut value.outputs),
            _ => unreachable!("a policy has one or two networks"),
        }
    }
}

impl Policy {
    /// Build a policy; its weights depend on the spec and the seed only.
    pub fn new(spec: &PolicySpec, seed: u64, attempt: u32) -> Result<Self, String> {
        Self::with_tile(spec, seed, attempt, spec.encoder.tile())
    }

    /// As `new`, with another number of rows per tile: whole blocks, at most [`TILE`].
    fn with_tile(spec: &PolicySpec, seed: u64, attempt: u32, tile: usize) -> Result<Self, String> {
        assert!(tile.is_multiple_of(BLOCK) && (BLOCK..=TILE).contains(&tile));
        check(spec)?;
        let mut arrays = Arrays::default();
        let outputs = spec.head.outputs();
        let nets = if spec.shared {
            vec![Net::new(&mut arrays, spec, ["trunk", "memory", "heads"], outputs + 1, tile)]
        } else {
            vec![
                Net::new(&mut arrays, spec, ["policy", "policy.memory", "policy.head"], outputs, tile),
                Net::new(&mut arrays, spec, ["value", "value.memory", "value.head"], 1, tile),
            ]
        };
        let dims = spec.head.dims;
        let log_std = (dims > 0).then(|| arrays.add("log_std".into(), Role::Vector, 1, dims));
        let mut policy = Self {
            spec: spec.clone(),
            params: Buffer::new(arrays.total),
            transposed: nets.iter().map(|net| Buffer::new(net.transposed_len())).collect(),
            arrays: arrays.list,
            log_std,
            tile,
            nets,
        };
        policy.initialise(Stream::new(seed, attempt, Purpose::Init));
        policy.refresh();
        Ok(policy)
    }

    fn initialise(&mut self, stream: Stream) {
        let actions = self.spec.head.outputs();
        for (index, array) in self.arrays.iter().enumerate() {
            let stream = stream.fold(index as u32);
            match array.role {
                Role::Vector => {}
                Role::Gates(gates) => orthogonal_gates(array, gates, stream, &mut self.params),
                Role::GateBias(_) => recurrent::init_biases(array, &mut self.params),
                Role::Outputs => {
                    // A nearly uniform initial policy; a value of ordinary size.
                    let gain = |row: usize| match (self.spec.shared, array.name.starts_with("value")) {
                        (true, _) if row == actions => 1.0,
                        (false, true) => 1.0,
                        _ => 0.01,
                    };
                    orthogonal(array, stream, gain, &mut self.params);
                }
                Role::Dense | Role::Table => orthogonal(array, stream, |_| std::f64::consts::SQRT_2, &mut self.params),
            }
        }
        if let Some(at) = self.log_std {
            self.params[at..at + self.spec.head.dims].fill(self.spec.head.log_std);
        }
    }

    /// Update derived weights; must be called after the parameters have changed.
    pub fn refresh(&mut self) {
        for (net, transposed) in self.nets.iter().zip(&mut self.transposed) {
            net.transpose(&self.params, transposed);
        }
    }

    /// Buffers for a tile; with those of the backward pass if `training`.
    pub fn workspace(&self, training: bool) -> PolicyWork {
        PolicyWork { nets: self.nets.iter().map(|net| net.workspace(training)).collect() }
    }

    /// Buffers for the gradient of a tile's recurrent state.
    pub fn state_gradients(&self) -> Vec<StateGradient> {
        self.nets.iter().filter_map(|net| Some(net.recurrent.as_ref()?.state_gradient())).collect()
    }

    /// Numbers of recurrent state per row: for each network and layer `h`, then the LSTM's `c`.
    pub fn state_len(&self) -> usize {
        self.nets.len() * self.spec.recurrent.map_or(0, |spec| spec.state_len())
    }

    /// Log standard deviations; empty for discrete actions.
    pub fn log_std(&self) -> &[f32] {
        self.log_std.map_or(&[], |at| &self.params[at..at + self.spec.head.dims])
    }

    /// Compute the outputs of the rows in `work`.
    #[inline(always)]
    pub fn forward<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize) {
        work.share_input();
        for (net, work) in self.nets.iter().zip(&mut work.nets) {
            net.forward(simd, &self.params, work, rows);
        }
    }

    /// Add the gradient of the rows to `gradient`; the outputs hold theirs.
    #[inline(always)]
    pub fn backward<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize, gradient: &mut [f32]) {
        for ((net, transposed), work) in self.nets.iter().zip(&self.transposed).zip(&mut work.nets) {
            net.backward(simd, &self.params, transposed, work, rows, gradient);
        }
    }

    /// Propagate the gradient of the outputs to the recurrent layers: the first half of a recurrent policy's backward
    /// step.
    #[inline(always)]
    pub fn outputs_back<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize, gradient: &mut [f32]) {
        for (net, work) in self.nets.iter().zip(&mut work.nets) {
            net.outputs_back_to_recurrent(simd, &self.params, work, rows, gradient);
        }
    }

    /// Propagate the gradient of rows one step back in time, after `outputs_back` for that step.
    #[inline(always)]
    pub fn step_back<S: Simd>(
        &self,
        simd: S,
        work: &mut PolicyWork,
        valid: &[bool],
        states: &mut [StateGradient],
        gradient: &mut [f32],
    ) {
        let nets = self.nets.iter().zip(&self.transposed).zip(&mut work.nets).zip(states);
        for (((net, transposed), work), states) in nets {
            net.step_back(simd, &self.params, transposed, work, valid, states, gradient);
        }
    }

    /// Multiply-adds of one row's forward pass.
    pub fn products(&self) -> usize {
        let dense = |array: &&Array| matches!(array.role, Role::Dense | Role::Outputs | Role::Gates(_));
        self.arrays.iter().filter(dense).map(|array| array.rows * array.cols).sum()
    }
}

fn check(spec: &PolicySpec) -> Result<(), String> {
    if spec.hidden.is_empty() {
        return Err("hidden is empty: a policy has at least one dense layer".into());
    }
    if let Some(size) = spec.hidden.iter().find(|size| **size == 0 || **size > 1 << 16) {
        return Err(format!("hidden has a layer of {size}: expected 1 to 65536"));
    }
    if let Some(spec) = &spec.recurrent {
        recurrent::check(spec)?;
    }
    spec.encoder.check()?;
    if spec.head.outputs() == 0 {
        return Err("the action space is empty: a policy needs an action".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotloop_core::simd::Scalar;

    use super::super::activation::Activation;
    use super::super::encoder::{Normalization, Observations};
    use super::super::spec::{Cell, EncoderSpec, Head, RecurrentSpec};
    use super::*;

    const ROWS: usize = 70;

    fn observations(encoder: &EncoderSpec) -> (Vec<u8>, usize) {
        match encoder {
            EncoderSpec::Real { len } => {
                let numbers = (0..ROWS * len).map(|i| (i as f32 * 0.37).fract() - 0.5);
                (numbers.flat_map(f32::to_ne_bytes).collect(), 4 * len)
            }
            EncoderSpec::Bytes { len, .. } => ((0..ROWS * len).map(|i| (i * 7 % 5) as u8).collect(), *len),
            EncoderSpec::OneHot { n } | EncoderSpec::Embedding { n, .. } => {
                ((0..ROWS).flat_map(|i| ((i * 7 % n) as i64).to_ne_bytes()).collect(), 8)
            }
        }
    }

    /// Outputs of all rows, and the gradient of half the sum of their squares.
    fn outputs_and_gradient(spec: &PolicySpec, tile: usize) -> (Vec<f32>, Vec<f32>) {
        let policy = Policy::with_tile(spec, 5, 0, tile).unwrap();
        let (bytes, row_bytes) = observations(&spec.encoder);
        let (mut outputs, mut gradient) = (vec![], vec![0.0; policy.params.len()]);
        let rows: Vec<u32> = (0..ROWS as u32).collect();
        let mut work = policy.workspace(true);
        let mut state = policy.state_gradients();
        for rows in rows.chunks(policy.tile) {
            let (count, none) = (rows.len(), Normalization { mean: &[], scale: &[] });
            spec.encoder.load(Observations { bytes: &bytes, row_bytes, rows }, none, work.encoder());
            policy.forward(Scalar, &mut work, count);
            let (actions, values) = work.outputs(spec.head.outputs());
            for row in 0..count {
                outputs.extend(actions.chunks(TILE).map(|column| column[row]));
                outputs.push(values[row]);
            }
            if spec.recurrent.is_some() {
                state.iter_mut().for_each(StateGradient::clear);
                policy.outputs_back(Scalar, &mut work, count, &mut gradient);
                policy.step_back(Scalar, &mut work, &[true; TILE][..count], &mut state, &mut gradient);
            } else {
                policy.backward(Scalar, &mut work, count, &mut gradient);
            }
        }
        (outputs, gradient)
    }

    #[test]
    fn outputs_and_gradient_do_not_depend_on_the_tile() {
        let lstm = RecurrentSpec { cell: Cell::Lstm, size: 5, layers: 2 };
        let gru = RecurrentSpec { cell: Cell::Gru, size: 20, layers: 1 };
        let cases = [
            (EncoderSpec::Real { len: 5 }, true, None),
            (EncoderSpec::Bytes { len: 3, high: 4 }, false, Some(lstm)),
            (EncoderSpec::OneHot { n: 9 }, true, Some(gru)),
            (EncoderSpec::Embedding { n: 9, dim: 3 }, false, None),
        ];
        for (encoder, shared, recurrent) in cases {
            for hidden in [vec![18], vec![7, 18]] {
                let head = Head { sets: vec![3], dims: 0, log_std: 0.0 };
                let activation = Activation::Silu;
                let spec = PolicySpec { encoder: encoder.clone(), hidden, activation, shared, recurrent, head };
                let (outputs, gradient) = outputs_and_gradient(&spec, TILE);
                assert!(gradient.iter().any(|x| *x != 0.0));
                for tile in [16, 32, 48] {
                    let (found, slopes) = outputs_and_gradient(&spec, tile);
                    assert_eq!(found, outputs, "{spec:?} {tile}");
                    for (x, y) in slopes.iter().zip(&gradient) {
                        // Biases of the outputs are summed tile by tile.
                        assert!((x - y).abs() <= 1e-4 * (1.0 + y.abs()), "{spec:?} {tile}: {x} {y}");
                    }
                }
            }
        }
    }
}
