//! Eight lanes: AVX2 with FMA. The types can only be made from a token, and a token only by
//! [`super::Isa::run`] after the CPU was asked, so the operations are safe to call.

// The intrinsics' names are their own prefix.
#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::x86::{binary, vector};
use super::{Floats, Ints, Kernel, Mask, Simd, isa};

/// AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(pub(super) ());

vector!(F8, __m256);
vector!(I8, __m256i);
vector!(M8, __m256);
binary!(F8, Add, add, _mm256_add_ps);
binary!(F8, Sub, sub, _mm256_sub_ps);
binary!(F8, Mul, mul, _mm256_mul_ps);
binary!(F8, Div, div, _mm256_div_ps);
binary!(I8, Add, add, _mm256_add_epi32);
binary!(I8, Sub, sub, _mm256_sub_epi32);
binary!(I8, Mul, mul, _mm256_mullo_epi32);
binary!(I8, BitAnd, bitand, _mm256_and_si256);
binary!(I8, BitOr, bitor, _mm256_or_si256);
binary!(I8, BitXor, bitxor, _mm256_xor_si256);
binary!(M8, BitAnd, bitand, _mm256_and_ps);
binary!(M8, BitOr, bitor, _mm256_or_ps);
binary!(M8, BitXor, bitxor, _mm256_xor_ps);

impl Not for M8 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(unsafe { _mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1))) })
    }
}

impl Neg for F8 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
    }
}

impl Mask for M8 {
    #[inline(always)]
    fn bits(self) -> u32 {
        (unsafe { _mm256_movemask_ps(self.0) }) as u32
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.bits() != 0
    }
    #[inline(always)]
    unsafe fn store_bools(self, to: *mut bool) {
        // Byte i keeps bit i of its copy of the bits, and becomes 1 if that is set.
        let own = (u64::from(self.bits()) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let bytes = ((own + 0x7F7F_7F7F_7F7F_7F7F) >> 7) & 0x0101_0101_0101_0101;
        unsafe { to.cast::<u64>().write_unaligned(bytes) }
    }
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    type F = F8;
    type I = I8;
    type M = M8;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: the token proves that the CPU has the features.
        unsafe { isa::avx2(kernel) }
    }
    #[inline(always)]
    fn f(self, x: f32) -> F8 {
        F8(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    fn u(self, x: u32) -> I8 {
        I8(unsafe { _mm256_set1_epi32(x as i32) })
    }
    #[inline(always)]
    fn m(self, x: bool) -> M8 {
        M8(unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(x))) })
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M8 {
        unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let hit = _mm256_and_si256(_mm256_set1_epi32(bits as i32), lane);
            M8(_mm256_castsi256_ps(_mm256_cmpeq_epi32(hit, lane)))
        }
    }
    #[inline(always)]
    fn lane_index(self) -> I8 {
        I8(unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) })
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> F8 {
        F8(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn load_u32(self, from: *const u32) -> I8 {
        I8(unsafe { _mm256_loadu_si256(from.cast()) })
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // Four squares of eight.
        unsafe {
            for (down, across) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
                transpose_eight(
                    from.add(down * from_stride + across),
                    from_stride,
                    to.add(across * to_stride + down),
                    to_stride,
                );
            }
        }
    }
}

#[inline(always)]
unsafe fn transpose_eight(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    // SAFETY: the caller's promise: eight rows of eight on both sides.
    unsafe {
        let mut a = [_mm256_setzero_ps(); 8];
        for (row, x) in a.iter_mut().enumerate() {
            *x = _mm256_loadu_ps(from.add(row * from_stride));
        }
        let mut b = [_mm256_setzero_ps(); 8];
        for i in 0..4 {
            b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
            b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
        }
        for i in 0..2 {
            a[4 * i] = _mm256_shuffle_ps::<0b01_00_01_00>(b[4 * i], b[4 * i + 2]);
            a[4 * i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(b[4 * i], b[4 * i + 2]);
            a[4 * i + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(b[4 * i + 1], b[4 * i + 3]);
            a[4 * i + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(b[4 * i + 1], b[4 * i + 3]);
        }
        for i in 0..4 {
            _mm256_storeu_ps(to.add(i * to_stride), _mm256_permute2f128_ps::<0x20>(a[i], a[4 + i]));
            _mm256_storeu_ps(to.add((4 + i) * to_stride), _mm256_permute2f128_ps::<0x31>(a[i], a[4 + i]));
        }
    }
}

impl Floats for F8 {
    type I = I8;
    type M = M8;

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn fnma(self, b: Self, c: Self) -> Self {
        Self(unsafe { _mm256_fnmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(unsafe { _mm256_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        Self(unsafe { _mm256_min_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        Self(unsafe { _mm256_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(unsafe { _mm256_floor_ps(self.0) })
    }
    #[inline(always)]
    fn lt(self, b: Self) -> M8 {
        M8(unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn le(self, b: Self) -> M8 {
        M8(unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M8 {
        M8(unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn select(self, mask: M8, other: Self) -> Self {
        Self(unsafe { _mm256_blendv_ps(other.0, self.0, mask.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> I8 {
        I8(unsafe { _mm256_castps_si256(self.0) })
    }
    #[inline(always)]
    fn to_i32(self) -> I8 {
        I8(unsafe { _mm256_cvtps_epi32(self.0) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
}

impl Ints for I8 {
    type F = F8;
    type M = M8;

    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(unsafe { _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(N as i32)) })
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(unsafe { _mm256_srl_epi32(self.0, _mm_cvtsi32_si128(N as i32)) })
    }
    #[inline(always)]
    fn shr_by(self, count: u32) -> Self {
        Self(unsafe { _mm256_srl_epi32(self.0, _mm_cvtsi32_si128(count as i32)) })
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> F8 {
        // SAFETY: a table has as many numbers as a vector.
        F8(unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), self.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M8 {
        M8(unsafe { _mm256_castsi256_ps(_mm256_cmpeq_epi32(self.0, b.0)) })
    }
    #[inline(always)]
    fn lt_i32(self, b: Self) -> M8 {
        M8(unsafe { _mm256_castsi256_ps(_mm256_cmpgt_epi32(b.0, self.0)) })
    }
    #[inline(always)]
    fn select(self, mask: M8, other: Self) -> Self {
        Self(unsafe { _mm256_blendv_epi8(other.0, self.0, _mm256_castps_si256(mask.0)) })
    }
    #[inline(always)]
    fn to_f32_bits(self) -> F8 {
        F8(unsafe { _mm256_castsi256_ps(self.0) })
    }
    #[inline(always)]
    fn i32_to_f32(self) -> F8 {
        F8(unsafe { _mm256_cvtepi32_ps(self.0) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }
}
