//! The product behind every layer: one chain of fused multiply-adds per element, at every width and for every size.

use hotloop_core::simd::{Isa, Kernel, Simd};
use hotloop_learn::nn::matmul::{Identity, Init, RowMajor, RowMajorMut, Size, Strided, multiply};
use proptest::prelude::*;

struct Product<'a> {
    size: Size,
    a: &'a [f32],
    b: &'a [f32],
    start: &'a [f32],
    c: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Size { cols, inner, .. } = self.size;
        let (a, b) = (Strided { at: self.a.as_ptr(), row: inner, col: 1 }, RowMajor { at: self.b.as_ptr(), row: cols });
        let into = RowMajorMut { at: self.c.as_mut_ptr(), row: cols };
        // SAFETY: the slices have the sizes that `size` says.
        unsafe { multiply(simd, self.size, a, b, into, Init::Row(self.start.as_ptr()), Identity) };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_element_is_one_chain(rows in 1_usize..30, blocks in 1_usize..9, inner in 0_usize..40, seed: u64) {
        let size = Size { rows, cols: blocks * 16, inner };
        let stream = hotloop_core::rng::Stream::new(seed, 0, hotloop_core::rng::Purpose::Init);
        let numbers = |part: u32, len: usize| -> Vec<f32> {
            (0..len).map(|i| stream.fold(part).range(i as u32, -2.0, 2.0)).collect()
        };
        let (a, b, start) = (numbers(0, rows * inner), numbers(1, inner * size.cols), numbers(2, size.cols));
        let mut expected = vec![0.0; rows * size.cols];
        for row in 0..rows {
            for col in 0..size.cols {
                expected[row * size.cols + col] = (0..inner)
                    .fold(start[col], |sum, k| a[row * inner + k].mul_add(b[k * size.cols + col], sum));
            }
        }
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            let mut c = vec![f32::NAN; rows * size.cols];
            isa.run(Product { size, a: &a, b: &b, start: &start, c: &mut c });
            prop_assert_eq!(&c, &expected, "{}", isa);
        }
    }
}
