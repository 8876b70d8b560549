//! Orthogonal initial weights: keyed normal numbers, orthogonalised by the Gram-Schmidt process in f64 with + - * / and
//! square roots only, so the bits are the same on every machine.

use hotloop_core::rng::Stream;

use super::spec::{Array, Role};

/// Initialise the weights of gates: each gate's are orthogonal, with gain 1.
pub fn orthogonal_gates(array: &Array, gates: usize, stream: Stream, params: &mut [f32]) {
    let units = array.cols / gates;
    for gate in 0..gates {
        let vectors = Vectors::new(units, array.rows, stream.fold(gate as u32));
        for unit in 0..units {
            for input in 0..array.rows {
                params[array.index(gate * units + unit, input)] = vectors.entry(unit, input) as f32;
            }
        }
    }
}

/// Initialise a matrix: orthogonal unit vectors along its shorter side, scaled by each output's gain.
pub fn orthogonal(array: &Array, stream: Stream, gain: impl Fn(usize) -> f64, params: &mut [f32]) {
    // As `[outputs, inputs]`; rows of a table are inputs.
    let (outputs, inputs) = match array.role {
        Role::Outputs => (array.rows, array.cols),
        _ => (array.cols, array.rows),
    };
    let vectors = Vectors::new(outputs, inputs, stream);
    for output in 0..outputs {
        for input in 0..inputs {
            let index = match array.role {
                Role::Outputs => output * array.stride + input,
                _ => input * array.stride + output,
            };
            params[array.offset + index] = (vectors.entry(output, input) * gain(output)) as f32;
        }
    }
}

/// A matrix whose rows or columns, whichever are fewer, are orthogonal unit vectors.
struct Vectors {
    vectors: Vec<Vec<f64>>,
    wide: bool,
}

impl Vectors {
    fn new(outputs: usize, inputs: usize, stream: Stream) -> Self {
        Self { vectors: unit_vectors(outputs.min(inputs), outputs.max(inputs), stream), wide: outputs <= inputs }
    }

    fn entry(&self, output: usize, input: usize) -> f64 {
        if self.wide { self.vectors[output][input] } else { self.vectors[input][output] }
    }
}

fn unit_vectors(count: usize, len: usize, stream: Stream) -> Vec<Vec<f64>> {
    let mut vectors = vec![vec![0.0_f64; len]; count];
    for (i, vector) in vectors.iter_mut().enumerate() {
        let row = stream.fold(i as u32);
        for (j, pair) in vector.chunks_mut(2).enumerate() {
            let (x, y) = row.normals(j as u32);
            pair[0] = f64::from(x);
            if let Some(second) = pair.get_mut(1) {
                *second = f64::from(y);
            }
        }
    }
    for i in 0..count {
        let (done, rest) = vectors.split_at_mut(i);
        let vector = &mut rest[0];
        // A second pass makes the vectors orthogonal to the last bit.
        for other in done.iter().chain(done.iter()) {
            let along = dot(vector, other);
            vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
        }
        let length = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vectors
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y)
}
