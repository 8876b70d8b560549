//! Sixteen lanes: AVX-512. The types can only be made from a token, and a token only by
//! [`super::Isa::run`] after the CPU was asked, so the operations are safe to call.

// The intrinsics' names are their own prefix.
#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::x86::{binary, vector};
use super::{Floats, Ints, Kernel, Mask, Simd, isa, store_rows_by_element};

/// AVX-512 F, DQ, BW, VL.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) ());

vector!(F16, __m512);
vector!(I16, __m512i);
vector!(M16, __mmask16);
binary!(F16, Add, add, _mm512_add_ps);
binary!(F16, Sub, sub, _mm512_sub_ps);
binary!(F16, Mul, mul, _mm512_mul_ps);
binary!(F16, Div, div, _mm512_div_ps);
binary!(I16, Add, add, _mm512_add_epi32);
binary!(I16, Sub, sub, _mm512_sub_epi32);
binary!(I16, Mul, mul, _mm512_mullo_epi32);
binary!(I16, BitAnd, bitand, _mm512_and_si512);
binary!(I16, BitOr, bitor, _mm512_or_si512);
binary!(I16, BitXor, bitxor, _mm512_xor_si512);

macro_rules! mask16 {
    ($trait:ident, $method:ident, |$a:ident, $b:ident| $value:expr) => {
        impl $trait for M16 {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                Self($value)
            }
        }
    };
}

mask16!(BitAnd, bitand, |a, b| a & b);
mask16!(BitOr, bitor, |a, b| a | b);
mask16!(BitXor, bitxor, |a, b| a ^ b);

impl Not for M16 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Neg for F16 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(unsafe { _mm512_xor_ps(self.0, _mm512_set1_ps(-0.0)) })
    }
}

impl Mask for M16 {
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }
    #[inline(always)]
    unsafe fn store_bools(self, to: *mut bool) {
        unsafe { _mm_storeu_si128(to.cast(), _mm_maskz_set1_epi8(self.0, 1)) }
    }
}

/// Sixteen rows of four: pairs of columns, pairs of pairs, then the quarters in order.
#[inline(always)]
unsafe fn store_rows_of_four(a: __m512, b: __m512, c: __m512, d: __m512, to: *mut f32) {
    // SAFETY: the caller's promise: room for 64 numbers.
    unsafe {
        let (ab_low, ab_high) =
            (_mm512_castps_pd(_mm512_unpacklo_ps(a, b)), _mm512_castps_pd(_mm512_unpackhi_ps(a, b)));
        let (cd_low, cd_high) =
            (_mm512_castps_pd(_mm512_unpacklo_ps(c, d)), _mm512_castps_pd(_mm512_unpackhi_ps(c, d)));
        // Quarter q of row r holds row 4 q + r.
        let row0 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
        let row1 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
        let row2 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
        let row3 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
        let low01 = _mm512_shuffle_f32x4::<0b01_00_01_00>(row0, row1);
        let low23 = _mm512_shuffle_f32x4::<0b01_00_01_00>(row2, row3);
        let high01 = _mm512_shuffle_f32x4::<0b11_10_11_10>(row0, row1);
        let high23 = _mm512_shuffle_f32x4::<0b11_10_11_10>(row2, row3);
        _mm512_storeu_ps(to, _mm512_shuffle_f32x4::<0b10_00_10_00>(low01, low23));
        _mm512_storeu_ps(to.add(16), _mm512_shuffle_f32x4::<0b11_01_11_01>(low01, low23));
        _mm512_storeu_ps(to.add(32), _mm512_shuffle_f32x4::<0b10_00_10_00>(high01, high23));
        _mm512_storeu_ps(to.add(48), _mm512_shuffle_f32x4::<0b11_01_11_01>(high01, high23));
    }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    type F = F16;
    type I = I16;
    type M = M16;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { isa::avx512(kernel) }
    }
    #[inline(always)]
    fn f(self, x: f32) -> F16 {
        F16(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    fn u(self, x: u32) -> I16 {
        I16(unsafe { _mm512_set1_epi32(x as i32) })
    }
    #[inline(always)]
    fn m(self, x: bool) -> M16 {
        M16(0u16.wrapping_sub(u16::from(x)))
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M16 {
        M16(bits as u16)
    }
    #[inline(always)]
    fn lane_index(self) -> I16 {
        I16(unsafe { _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) })
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> F16 {
        F16(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn load_u32(self, from: *const u32) -> I16 {
        I16(unsafe { _mm512_loadu_si512(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store_rows<const N: usize>(self, columns: &[F16; N], to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            if N == 4 {
                store_rows_of_four(columns[0].0, columns[1].0, columns[2].0, columns[3].0, to);
            } else {
                store_rows_by_element(self, columns, to);
            }
        }
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // Pairs of rows, pairs of pairs, and twice quarters of vectors: sixteen rows become sixteen columns.
        unsafe {
            let mut a = [_mm512_setzero_ps(); 16];
            for (row, x) in a.iter_mut().enumerate() {
                *x = _mm512_loadu_ps(from.add(row * from_stride));
            }
            let mut b = [_mm512_setzero_pd(); 16];
            for i in 0..8 {
                b[2 * i] = _mm512_castps_pd(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]));
                b[2 * i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
            }
            for i in 0..4 {
                a[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(b[4 * i], b[4 * i + 2]));
                a[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(b[4 * i], b[4 * i + 2]));
                a[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b[4 * i + 1], b[4 * i + 3]));
                a[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b[4 * i + 1], b[4 * i + 3]));
            }
            for i in 0..4 {
                let low01 = _mm512_shuffle_f32x4::<0b10_00_10_00>(a[i], a[4 + i]);
                let low23 = _mm512_shuffle_f32x4::<0b10_00_10_00>(a[8 + i], a[12 + i]);
                let high01 = _mm512_shuffle_f32x4::<0b11_01_11_01>(a[i], a[4 + i]);
                let high23 = _mm512_shuffle_f32x4::<0b11_01_11_01>(a[8 + i], a[12 + i]);
                let column = |k: usize| to.add((4 * k + i) * to_stride);
                _mm512_storeu_ps(column(0), _mm512_shuffle_f32x4::<0b10_00_10_00>(low01, low23));
                _mm512_storeu_ps(column(2), _mm512_shuffle_f32x4::<0b11_01_11_01>(low01, low23));
                _mm512_storeu_ps(column(1), _mm512_shuffle_f32x4::<0b10_00_10_00>(high01, high23));
                _mm512_storeu_ps(column(3), _mm512_shuffle_f32x4::<0b11_01_11_01>(high01, high23));
            }
        }
    }
}

impl Floats for F16 {
    type I = I16;
    type M = M16;

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn fnma(self, b: Self, c: Self) -> Self {
        Self(unsafe { _mm512_fnmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        Self(unsafe { _mm512_min_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        Self(unsafe { _mm512_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(unsafe { _mm512_abs_ps(self.0) })
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn lt(self, b: Self) -> M16 {
        M16(unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn le(self, b: Self) -> M16 {
        M16(unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M16 {
        M16(unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn select(self, mask: M16, other: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_ps(mask.0, other.0, self.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> I16 {
        I16(unsafe { _mm512_castps_si512(self.0) })
    }
    #[inline(always)]
    fn to_i32(self) -> I16 {
        I16(unsafe { _mm512_cvtps_epi32(self.0) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
}

impl Ints for I16 {
    type F = F16;
    type M = M16;

    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(unsafe { _mm512_slli_epi32::<N>(self.0) })
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(unsafe { _mm512_srli_epi32::<N>(self.0) })
    }
    #[inline(always)]
    fn shr_by(self, count: u32) -> Self {
        Self(unsafe { _mm512_srl_epi32(self.0, _mm_cvtsi32_si128(count as i32)) })
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> F16 {
        // SAFETY: a table has as many numbers as half a vector; it is there twice, so the fourth bit does not matter.
        F16(unsafe { _mm512_permutexvar_ps(self.0, _mm512_broadcast_f32x8(_mm256_loadu_ps(table.as_ptr()))) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M16 {
        M16(unsafe { _mm512_cmpeq_epi32_mask(self.0, b.0) })
    }
    #[inline(always)]
    fn lt_i32(self, b: Self) -> M16 {
        M16(unsafe { _mm512_cmplt_epi32_mask(self.0, b.0) })
    }
    #[inline(always)]
    fn select(self, mask: M16, other: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_epi32(mask.0, other.0, self.0) })
    }
    #[inline(always)]
    fn to_f32_bits(self) -> F16 {
        F16(unsafe { _mm512_castsi512_ps(self.0) })
    }
    #[inline(always)]
    fn i32_to_f32(self) -> F16 {
        F16(unsafe { _mm512_cvtepi32_ps(self.0) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
}
