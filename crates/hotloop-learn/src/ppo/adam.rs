//! Adam (Kingma and Ba 2015), over the sum of the chunks' gradients in a fixed order.

use hotloop_core::simd::{BLOCK, Floats, Isa, Kernel, Simd};

use crate::nn::buffer::Buffer;
use crate::nn::net::tree;

/// Adam's state.
#[derive(Clone)]
pub struct Adam {
    /// First moment of the gradient.
    pub mean: Buffer,
    /// Second moment of the gradient.
    pub square: Buffer,
    /// Steps taken.
    pub steps: u64,
}

/// Hyperparameters of one step.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Learning rate.
    pub learning_rate: f64,
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the divisor.
    pub epsilon: f32,
    /// Maximum gradient norm (clipping threshold).
    pub max_norm: f32,
}

impl Adam {
    /// For `len` parameters.
    pub fn new(len: usize) -> Self {
        Self { mean: Buffer::new(len), square: Buffer::new(len), steps: 0 }
    }

    /// Takes one step and returns the gradient's norm. A gradient that is not finite changes nothing.
    pub fn step(&mut self, isa: Isa, params: &mut [f32], gradient: &[f32], step: &AdamStep) -> f32 {
        let norm = isa.run(SquareSum { numbers: gradient }).sqrt();
        if !norm.is_finite() {
            return norm;
        }
        self.steps += 1;
        let correct1 = 1.0 - power(step.beta1, self.steps);
        let correct2 = 1.0 - power(step.beta2, self.steps);
        isa.run(Move {
            params,
            gradient,
            mean: &mut self.mean,
            square: &mut self.square,
            scale: if norm > step.max_norm { step.max_norm / norm } else { 1.0 },
            beta1: step.beta1 as f32,
            beta2: step.beta2 as f32,
            rate: (step.learning_rate / correct1) as f32,
            // sqrt(square / correct2) + epsilon
            spread: (1.0 / correct2.sqrt()) as f32,
            epsilon: step.epsilon,
        });
        norm
    }
}

/// `base` to the power of `exponent`; the library's function may differ between machines in the last bit.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

/// Adds up the gradients of all chunks, in their order, for the parameters from `first` on.
pub fn add_chunks(isa: Isa, chunks: &[&[f32]], first: usize, sum: &mut [f32]) {
    isa.run(AddChunks { chunks, first, sum });
}

struct AddChunks<'a> {
    chunks: &'a [&'a [f32]],
    first: usize,
    sum: &'a mut [f32],
}

impl Kernel for AddChunks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let own = self.first..self.first + self.sum.len();
        self.sum.copy_from_slice(&self.chunks[0][own.clone()]);
        for chunk in &self.chunks[1..] {
            for (sum, x) in self.sum.iter_mut().zip(&chunk[own.clone()]) {
                *sum += x;
            }
        }
    }
}

struct SquareSum<'a> {
    numbers: &'a [f32],
}

impl Kernel for SquareSum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut lanes = [0.0_f32; BLOCK];
        let blocks = self.numbers.chunks_exact(BLOCK);
        for part in (0..BLOCK).step_by(S::LANES) {
            let mut sum = simd.f(0.0);
            for block in blocks.clone() {
                // SAFETY: a block has BLOCK numbers.
                let x = unsafe { simd.load(block.as_ptr().add(part)) };
                sum = x.fma(x, sum);
            }
            // SAFETY: there are BLOCK lanes.
            unsafe { sum.store(lanes.as_mut_ptr().add(part)) };
        }
        for (lane, x) in lanes.iter_mut().zip(blocks.remainder()) {
            *lane = x.mul_add(*x, *lane);
        }
        tree(lanes)
    }
}

struct Move<'a> {
    params: &'a mut [f32],
    gradient: &'a [f32],
    mean: &'a mut [f32],
    square: &'a mut [f32],
    scale: f32,
    beta1: f32,
    beta2: f32,
    rate: f32,
    spread: f32,
    epsilon: f32,
}

impl Kernel for Move<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        // Element by element: the compiler makes vectors of it, and no sum crosses elements.
        let moments = self.mean.iter_mut().zip(self.square);
        for ((param, gradient), (mean, square)) in self.params.iter_mut().zip(self.gradient).zip(moments) {
            let g = gradient * self.scale;
            *mean = g + self.beta1 * (*mean - g);
            let squared = g * g;
            *square = squared + self.beta2 * (*square - squared);
            *param -= self.rate * *mean / (square.sqrt() * self.spread + self.epsilon);
        }
    }
}
