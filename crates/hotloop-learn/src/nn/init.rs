//! Orthogonal initial weights, from keyed normal numbers by Gram and Schmidt's method in f64: only + - * / and roots, so
//! the same bits everywhere.

use hotloop_core::rng::Stream;

use super::spec::{Array, Role};

/// Fills a matrix: the shorter of its sides has orthogonal unit vectors, scaled by each output's gain.
pub fn orthogonal(array: &Array, stream: Stream, gain: impl Fn(usize) -> f64, params: &mut [f32]) {
    // As [outputs, inputs]; a table's rows are inputs.
    let (outputs, inputs) = match array.role {
        Role::Outputs => (array.rows, array.cols),
        _ => (array.cols, array.rows),
    };
    let (count, len) = (outputs.min(inputs), outputs.max(inputs));
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
        // Twice is enough to be orthogonal to the last bit.
        for other in done.iter().chain(done.iter()) {
            let along = dot(vector, other);
            vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
        }
        let length = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
    }
    let entry = |output: usize, input: usize| {
        if outputs <= inputs { vectors[output][input] } else { vectors[input][output] }
    };
    for output in 0..outputs {
        for input in 0..inputs {
            let place = match array.role {
                Role::Outputs => output * array.stride + input,
                _ => input * array.stride + output,
            };
            params[array.offset + place] = (entry(output, input) * gain(output)) as f32;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y)
}
