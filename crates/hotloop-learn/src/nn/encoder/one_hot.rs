//! One-hot states: the product of the first dense layer is a row of its weights, which replaces that layer.

use hotloop_core::simd::{Floats, Simd};

use super::super::activation::ActivationFn;
use super::super::rows::add_rows;
use super::super::spec::{Arrays, Role};
use super::LookupWork;

/// The first dense layer of a network that reads one-hot states.
#[derive(Clone, Debug)]
pub struct OneHot {
    table: usize,
    bias: usize,
    pub(super) outputs: usize,
}

impl OneHot {
    pub(super) fn new(arrays: &mut Arrays, prefix: &str, n: usize, outputs: usize) -> Self {
        let table = arrays.add(format!("{prefix}.0.weight"), Role::Table, n, outputs);
        let bias = arrays.add(format!("{prefix}.0.bias"), Role::Vector, 1, outputs);
        Self { table, bias, outputs }
    }

    #[inline(always)]
    pub(super) fn forward<S: Simd, A: ActivationFn>(
        &self,
        simd: S,
        params: &[f32],
        work: &mut LookupWork,
        rows: usize,
    ) {
        let (bias, sums) = (params[self.bias..].as_ptr(), work.sums.as_mut_ptr());
        work.fill(simd, params, self.table, rows, |weight, col, index| {
            // SAFETY: biases, and sums where they are needed, have the layout of rows of features.
            unsafe {
                let sum = weight + simd.load(bias.add(col));
                if A::NEEDS_INPUT {
                    sum.store(sums.add(index));
                }
                A::value(simd, sum)
            }
        });
    }

    #[inline(always)]
    pub(super) fn backward<S: Simd>(&self, simd: S, work: &LookupWork, rows: usize, gradient: &mut [f32]) {
        work.add_entries(simd, self.table, rows, gradient);
        // SAFETY: `gradient` is laid out like the parameters.
        unsafe { add_rows(simd, work.features.as_ptr(), work.stride, rows, gradient[self.bias..].as_mut_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use hotloop_core::simd::Scalar;

    use super::super::super::activation::Silu;
    use super::*;

    #[test]
    fn features_are_the_activation_of_weight_and_bias() {
        let mut arrays = Arrays::default();
        let encoder = OneHot::new(&mut arrays, "trunk", 3, 2);
        assert_eq!(
            arrays.list.iter().map(|array| array.name.as_str()).collect::<Vec<_>>(),
            ["trunk.0.weight", "trunk.0.bias"]
        );
        let mut params = vec![0.0; arrays.total];
        (params[32], params[33], params[48], params[49]) = (1.0, -2.0, 0.5, 0.25);
        let mut work = LookupWork::new(2, 16, true);
        work.states[..2].copy_from_slice(&[2, 0]);
        encoder.forward::<_, Silu>(Scalar, &params, &mut work, 2);
        assert_eq!(work.sums[..2], [1.5, -1.75]);
        assert_eq!(work.sums[16..18], [0.5, 0.25]);
        let silu = |x: f32| x / (1.0 + (-x).exp());
        assert!((work.features[0] - silu(1.5)).abs() < 1e-6);
        assert!((work.features[17] - silu(0.25)).abs() < 1e-6);
    }

    #[test]
    fn rows_of_the_same_state_add_up_in_the_gradient() {
        let mut arrays = Arrays::default();
        let encoder = OneHot::new(&mut arrays, "trunk", 3, 1);
        let mut work = LookupWork::new(1, 16, false);
        work.states[..3].copy_from_slice(&[1, 2, 1]);
        (work.features[0], work.features[16], work.features[32]) = (1.0, 10.0, 100.0);
        let mut gradient = vec![0.0; arrays.total];
        encoder.backward(Scalar, &work, 3, &mut gradient);
        assert_eq!([gradient[0], gradient[16], gradient[32], gradient[48]], [0.0, 101.0, 10.0, 111.0]);
    }
}
