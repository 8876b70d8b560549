//! Vector arithmetic with one source for every width: scalar, AVX2 and AVX-512 give the same bits.
//!
//! Code is written once, generic over [`Simd`], and handed to [`Isa::run`], which compiles it once per instruction set
//! and picks at run time. Only operations with one IEEE result are offered: no reciprocal estimates, no horizontal sums
//! whose order would depend on the width.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

pub use isa::{Isa, Kernel};
pub use scalar::Scalar;

/// Prefetches the cache line at `at` into the second-level cache, where it evicts nothing that is in use; any address is
/// allowed.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// As [`prefetch`], for memory that will be changed: no other core keeps the line.
// A hint neither reads nor writes.
#[allow(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub fn prefetch_to_change<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that changes nothing; where a CPU does not know it, it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Lanes that a block of rows always has, whatever the CPU: vectors are 1, 8 or 16 wide and tile it exactly.
pub const BLOCK: usize = 16;

/// An instruction set: the proof that the CPU has it, and the way to make vectors.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Number of lanes of a vector; divides [`BLOCK`].
    const LANES: usize;
    /// A vector of f32.
    type F: Floats<I = Self::I, M = Self::M>;
    /// A vector of u32 (with signed conversions where named so).
    type I: Ints<F = Self::F, M = Self::M>;
    /// One truth value per lane.
    type M: Mask;

    /// Runs a kernel as a function of its own, compiled for this instruction set once for all its callers.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;
    /// All lanes hold `x`.
    fn f(self, x: f32) -> Self::F;
    /// All lanes hold `x`.
    fn u(self, x: u32) -> Self::I;
    /// No lane, or every lane.
    fn m(self, x: bool) -> Self::M;
    /// Lane `i` is bit `i`.
    fn mask(self, bits: u32) -> Self::M;
    /// Lane `i` holds `i`.
    fn lane_index(self) -> Self::I;
    /// # Safety
    /// `LANES` values must be readable at `from`; any alignment will do.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// # Safety
    /// `LANES` values must be readable at `from`; any alignment will do.
    unsafe fn load_u32(self, from: *const u32) -> Self::I;

    /// Copies a square of [`BLOCK`] x [`BLOCK`] numbers, rows becoming columns.
    ///
    /// # Safety
    /// `BLOCK` rows of `BLOCK` numbers must be readable at `from` and writable at `to`, the given strides apart.
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for row in 0..BLOCK {
            for col in 0..BLOCK {
                // SAFETY: the caller's promise.
                unsafe { *to.add(col * to_stride + row) = *from.add(row * from_stride + col) };
            }
        }
    }

    /// Writes lane `i` of each column to row `i`: columns become rows of `N` numbers.
    ///
    /// # Safety
    /// `LANES * N` values must be writable at `to`; any alignment will do.
    #[inline(always)]
    unsafe fn store_rows<const N: usize>(self, columns: &[Self::F; N], to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { store_rows_by_element(self, columns, to) };
    }
}

/// [`Simd::store_rows`] for any number of columns, through memory.
#[inline(always)]
unsafe fn store_rows_by_element<S: Simd, const N: usize>(_simd: S, columns: &[S::F; N], to: *mut f32) {
    let mut block = [[0.0_f32; BLOCK]; N];
    for (column, x) in block.iter_mut().zip(columns) {
        // SAFETY: a vector has at most BLOCK lanes.
        unsafe { x.store(column.as_mut_ptr()) };
    }
    for lane in 0..S::LANES {
        for (i, column) in block.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(lane * N + i).write_unaligned(column[lane]) };
        }
    }
}

/// A vector of f32.
pub trait Floats:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The integer vector of the same width.
    type I;
    /// The mask of the same width.
    type M;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once.
    fn fnma(self, b: Self, c: Self) -> Self;
    /// The correctly rounded square root.
    fn sqrt(self) -> Self;
    /// `self < b ? self : b` (so `b` if either is NaN).
    fn min(self, b: Self) -> Self;
    /// `self > b ? self : b` (so `b` if either is NaN).
    fn max(self, b: Self) -> Self;
    /// The sign bit cleared.
    fn abs(self) -> Self;
    /// The nearest integer, ties to even.
    fn round(self) -> Self;
    /// The largest integer not above.
    fn floor(self) -> Self;
    /// Ordered comparison: false for NaN.
    fn lt(self, b: Self) -> Self::M;
    /// Ordered comparison: false for NaN.
    fn le(self, b: Self) -> Self::M;
    /// Ordered comparison: false for NaN.
    fn eq(self, b: Self) -> Self::M;
    /// `self` where the mask is set, else `other`.
    fn select(self, mask: Self::M, other: Self) -> Self;
    /// The same bits as integers.
    fn to_bits(self) -> Self::I;
    /// The nearest i32, ties to even; the value must fit.
    fn to_i32(self) -> Self::I;
    /// # Safety
    /// `LANES` values must be writable at `to`; any alignment will do.
    unsafe fn store(self, to: *mut f32);
}

/// A vector of u32.
pub trait Ints:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The f32 vector of the same width.
    type F;
    /// The mask of the same width.
    type M;
    /// Shift left by a constant, zeros in.
    fn shl<const N: u32>(self) -> Self;
    /// Shift right by a constant, zeros in.
    fn shr<const N: u32>(self) -> Self;
    /// Shift right by up to 31, zeros in.
    fn shr_by(self, count: u32) -> Self;
    /// The number in `table` that the three lowest bits of each lane name.
    fn pick(self, table: &[f32; 8]) -> Self::F;
    /// Equality.
    fn eq(self, b: Self) -> Self::M;
    /// `self < b` as signed numbers.
    fn lt_i32(self, b: Self) -> Self::M;
    /// `self` where the mask is set, else `other`.
    fn select(self, mask: Self::M, other: Self) -> Self;
    /// The same bits as floats.
    fn to_f32_bits(self) -> Self::F;
    /// Signed conversion; exact below 2^24.
    fn i32_to_f32(self) -> Self::F;
    /// # Safety
    /// `LANES` values must be writable at `to`; any alignment will do.
    unsafe fn store(self, to: *mut u32);
}

/// One truth value per lane.
pub trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// Bit `i` is lane `i`; bits past the last lane are zero.
    fn bits(self) -> u32;
    /// Whether any lane is set.
    fn any(self) -> bool;
    /// # Safety
    /// `LANES` values must be writable at `to`.
    unsafe fn store_bools(self, to: *mut bool);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Turn<'a> {
        from: &'a [f32],
        to: &'a mut [f32],
    }

    impl Kernel for Turn<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            // SAFETY: the caller gives 16 rows of 20 and of 24.
            unsafe { simd.transpose(self.from.as_ptr(), 20, self.to.as_mut_ptr(), 24) };
        }
    }

    struct Rows<'a, const N: usize> {
        from: &'a [[f32; BLOCK]; N],
        to: &'a mut [[f32; N]; BLOCK],
    }

    impl<const N: usize> Kernel for Rows<'_, N> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            for at in (0..BLOCK).step_by(S::LANES) {
                let mut columns = [simd.f(0.0); N];
                for (x, column) in columns.iter_mut().zip(self.from) {
                    // SAFETY: a vector fits the block at `at`.
                    *x = unsafe { simd.load(column.as_ptr().add(at)) };
                }
                // SAFETY: as above.
                unsafe { simd.store_rows(&columns, self.to[at].as_mut_ptr()) };
            }
        }
    }

    fn rows_hold_one_number_of_each_column<const N: usize>() {
        let from: [[f32; BLOCK]; N] = std::array::from_fn(|i| std::array::from_fn(|j| (i * BLOCK + j) as f32));
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            let mut to = [[0.0; N]; BLOCK];
            isa.run(Rows { from: &from, to: &mut to });
            for (j, row) in to.iter().enumerate() {
                for (i, x) in row.iter().enumerate() {
                    assert_eq!(*x, from[i][j], "{isa} {i} {j}");
                }
            }
        }
    }

    #[test]
    fn columns_become_rows_at_every_width() {
        rows_hold_one_number_of_each_column::<1>();
        rows_hold_one_number_of_each_column::<3>();
        rows_hold_one_number_of_each_column::<4>();
        rows_hold_one_number_of_each_column::<6>();
    }

    #[test]
    fn transpose_turns_rows_into_columns_at_every_width() {
        let from: Vec<f32> = (0..16 * 20).map(|i| i as f32).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            let mut to = vec![0.0; 16 * 24];
            isa.run(Turn { from: &from, to: &mut to });
            for row in 0..BLOCK {
                for col in 0..BLOCK {
                    assert_eq!(to[col * 24 + row], from[row * 20 + col], "{isa} {row} {col}");
                }
            }
        }
    }
}
