//! A policy: one network (shared trunk) or two, the spread of continuous actions, and all their parameters.

use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::Simd;

use super::buffer::Buffer;
use super::init::{orthogonal, orthogonal_gates};
use super::memory;
use super::memory::StateGradient;
use super::net::{Net, Workspace};
use super::spec::{Array, Arrays, Head, Input, PolicySpec, Role};

/// A policy and its value function.
#[derive(Clone)]
pub struct Policy {
    /// What it was built from.
    pub spec: PolicySpec,
    /// Its arrays.
    pub arrays: Vec<Array>,
    /// All parameters.
    pub params: Buffer,
    /// Where the logarithms of the standard deviations lie, for continuous actions.
    pub log_std: Option<usize>,
    nets: Vec<Net>,
    mirrors: Vec<Buffer>,
}

/// Room for a tile on its way through a policy.
pub struct PolicyWork {
    nets: Vec<Workspace>,
}

impl PolicyWork {
    /// The numbers fed to the networks: to the first one; `forward` copies them to the other.
    pub fn input(&mut self) -> &mut [f32] {
        &mut self.nets[0].input
    }

    /// The states fed to the networks.
    pub fn states(&mut self) -> &mut [u32] {
        &mut self.nets[0].states
    }

    /// Sets the memory of a row before the step; without memory, nothing.
    pub fn recall(&mut self, spec: &PolicySpec, row: usize, numbers: &[f32]) {
        let Some(kind) = &spec.memory else { return };
        for (net, part) in self.nets.iter_mut().zip(numbers.chunks_exact(kind.len())) {
            net.memory.iter_mut().for_each(|tile| tile.recall(kind, row, part));
        }
    }

    /// Writes the memory of a row after the step.
    pub fn keep(&self, spec: &PolicySpec, row: usize, numbers: &mut [f32]) {
        let Some(kind) = &spec.memory else { return };
        for (net, part) in self.nets.iter().zip(numbers.chunks_exact_mut(kind.len())) {
            net.memory.iter().for_each(|tile| tile.keep(kind, row, part));
        }
    }

    /// Sets the memory before the step from what the step before left of each row.
    pub fn follow(&mut self, earlier: &Self, decided: &[bool], ended: &[bool]) {
        for (net, last) in self.nets.iter_mut().zip(&earlier.nets) {
            if let (Some(tile), Some(last)) = (&mut net.memory, &last.memory) {
                tile.follow(last, decided, ended);
            }
        }
    }

    fn share_input(&mut self) {
        if let [first, second] = &mut self.nets[..] {
            second.input.copy_from_slice(&first.input);
            second.states = first.states;
        }
    }

    /// The action outputs and the value, `TILE` rows each; after the loss, their gradients.
    pub fn outputs(&mut self, actions: usize) -> (&mut [f32], &mut [f32]) {
        match &mut self.nets[..] {
            [one] => one.outputs.split_at_mut(actions * super::net::TILE),
            [policy, value] => (&mut policy.outputs, &mut value.outputs),
            _ => unreachable!("a policy has one or two networks"),
        }
    }
}

impl Policy {
    /// Builds it, with weights that depend on the description and the seed alone.
    pub fn new(spec: &PolicySpec, seed: u64, attempt: u32) -> Result<Self, String> {
        check(spec)?;
        let mut arrays = Arrays::default();
        let outputs = spec.head.outputs();
        let nets = if spec.shared {
            vec![Net::new(&mut arrays, spec, ["trunk", "memory", "heads"], outputs + 1)]
        } else {
            vec![
                Net::new(&mut arrays, spec, ["policy", "policy.memory", "policy.head"], outputs),
                Net::new(&mut arrays, spec, ["value", "value.memory", "value.head"], 1),
            ]
        };
        let log_std = match spec.head {
            Head::Gaussian { dims, .. } => Some(arrays.add("log_std".into(), Role::Vector, 1, dims)),
            _ => None,
        };
        let mut policy = Self {
            spec: spec.clone(),
            params: Buffer::new(arrays.total),
            mirrors: nets.iter().map(|net| Buffer::new(net.mirror_len())).collect(),
            arrays: arrays.list,
            log_std,
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
                Role::GateBias(_) => memory::first_biases(array, &mut self.params),
                Role::Outputs => {
                    // Small first preferences, so that all actions are tried; a value of ordinary size.
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
        if let (Some(at), Head::Gaussian { dims, log_std }) = (self.log_std, &self.spec.head) {
            self.params[at..at + dims].fill(*log_std);
        }
    }

    /// To be called when the parameters have changed.
    pub fn refresh(&mut self) {
        for (net, mirror) in self.nets.iter().zip(&mut self.mirrors) {
            net.mirror(&self.params, mirror);
        }
    }

    /// Room for a tile; `returns` if it will go back.
    pub fn workspace(&self, returns: bool) -> PolicyWork {
        PolicyWork { nets: self.nets.iter().map(|net| net.workspace(returns)).collect() }
    }

    /// Room for the gradient of a tile's memory.
    pub fn returning(&self) -> Vec<StateGradient> {
        self.nets.iter().filter_map(|net| Some(net.memory.as_ref()?.returning())).collect()
    }

    /// How many numbers one row's memory has: for each network and layer `h`, then the LSTM's `c`.
    pub fn memory_len(&self) -> usize {
        self.nets.len() * self.spec.memory.map_or(0, |memory| memory.len())
    }

    /// The logarithms of the standard deviations; empty for discrete actions.
    pub fn log_std(&self) -> &[f32] {
        match (self.log_std, &self.spec.head) {
            (Some(at), Head::Gaussian { dims, .. }) => &self.params[at..at + dims],
            _ => &[],
        }
    }

    /// Feeds the rows that were put into `work` forward.
    #[inline(always)]
    pub fn forward<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize) {
        work.share_input();
        for (net, work) in self.nets.iter().zip(&mut work.nets) {
            net.forward(simd, &self.params, work, rows);
        }
    }

    /// Adds the gradient of the rows to `gradient`; the outputs hold theirs.
    #[inline(always)]
    pub fn backward<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize, gradient: &mut [f32]) {
        for ((net, mirror), work) in self.nets.iter().zip(&self.mirrors).zip(&mut work.nets) {
            net.backward(simd, &self.params, mirror, work, rows, gradient);
        }
    }

    /// The way back of a policy with memory begins here: adds the gradient of the last weights of these rows to
    /// `gradient`; the outputs hold theirs.
    #[inline(always)]
    pub fn outputs_back<S: Simd>(&self, simd: S, work: &mut PolicyWork, rows: usize, gradient: &mut [f32]) {
        for (net, work) in self.nets.iter().zip(&mut work.nets) {
            net.outputs_back_to_memory(simd, &self.params, work, rows, gradient);
        }
    }

    /// Takes the gradient of rows one step back, once `outputs_back` was called for that step.
    #[inline(always)]
    pub fn step_back<S: Simd>(
        &self,
        simd: S,
        work: &mut PolicyWork,
        decides: &[bool],
        returning: &mut [StateGradient],
        gradient: &mut [f32],
    ) {
        let nets = self.nets.iter().zip(&self.mirrors).zip(&mut work.nets).zip(returning);
        for (((net, mirror), work), returning) in nets {
            net.step_back(simd, &self.params, mirror, work, decides, returning, gradient);
        }
    }

    /// Multiply-adds of one row forward.
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
    if let Some(kind) = &spec.memory {
        memory::check(kind)?;
    }
    let fed = match &spec.input {
        Input::Real { len } | Input::Bytes { len, .. } => *len,
        Input::OneHot { n } => *n,
        Input::Embedding { n, dim } => (*n).min(*dim),
    };
    if fed == 0 || spec.head.outputs() == 0 {
        return Err("a policy needs something to see and something to do".into());
    }
    Ok(())
}
