//! [`Cpu`] for 64-bit x86. The order of comparisons is that of [`super::epsilon_greedy::Portable`].

use std::arch::x86_64::{
    __m256, _CMP_EQ_OQ, _mm_cvtss_f32, _mm_max_ps, _mm_max_ss, _mm_movehl_ps, _mm_shuffle_ps, _mm256_and_si256,
    _mm256_blendv_ps, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cmpeq_epi32,
    _mm256_extractf128_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_movemask_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setr_epi32, _mm512_castps512_ps256, _mm512_extractf32x8_ps, _mm512_loadu_ps, _mm512_mask_blend_ps,
    _mm512_mask_cmp_ps_mask, _mm512_set1_ps, _pdep_u64,
};

use super::epsilon_greedy::Cpu;
use super::view::Block;

/// AVX2 and BMI2.
#[derive(Clone, Copy)]
pub struct Avx2(());

/// AVX-512 and BMI2.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx2 {
    /// # Safety
    /// The CPU has `avx2` and `bmi2`.
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Avx512 {
    /// # Safety
    /// The CPU has `avx512f`, `avx512dq`, `avx2` and `bmi2`.
    pub unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY of all that follows: the CPU has the instructions, or the token would not exist.

#[inline(always)]
fn nth_bit(bits: u64, n: u32) -> u32 {
    unsafe { _pdep_u64(1 << n, bits) }.trailing_zeros()
}

#[inline(always)]
fn largest(eight: __m256) -> f32 {
    unsafe {
        let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

impl Cpu for Avx2 {
    #[inline(always)]
    fn nth_bit(self, bits: u64, n: u32) -> u32 {
        nth_bit(bits, n)
    }

    #[inline(always)]
    fn best(self, values: &Block, legal: u32) -> (f32, u32) {
        unsafe {
            let low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let high = _mm256_setr_epi32(1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15);
            let bits = _mm256_set1_epi32(legal as i32);
            let none = _mm256_set1_ps(f32::NEG_INFINITY);
            let keep = |places, at: usize| {
                let on = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, places), places));
                _mm256_blendv_ps(none, _mm256_loadu_ps(values.as_ptr().add(at)), on)
            };
            let (first, second) = (keep(low, 0), keep(high, 8));
            let best = largest(_mm256_max_ps(first, second));
            let all = _mm256_set1_ps(best);
            let ties = |kept| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(kept, all)) as u32;
            (best, (ties(first) | ties(second) << 8) & legal)
        }
    }
}

impl Cpu for Avx512 {
    #[inline(always)]
    fn nth_bit(self, bits: u64, n: u32) -> u32 {
        nth_bit(bits, n)
    }

    #[inline(always)]
    fn best(self, values: &Block, legal: u32) -> (f32, u32) {
        unsafe {
            let all = _mm512_loadu_ps(values.as_ptr());
            let kept = _mm512_mask_blend_ps(legal as u16, _mm512_set1_ps(f32::NEG_INFINITY), all);
            let best = largest(_mm256_max_ps(_mm512_castps512_ps256(kept), _mm512_extractf32x8_ps::<1>(kept)));
            let ties = _mm512_mask_cmp_ps_mask::<_CMP_EQ_OQ>(legal as u16, all, _mm512_set1_ps(best));
            (best, u32::from(ties))
        }
    }
}
