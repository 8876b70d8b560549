//! One lane: the reference every other width must equal, and the fallback for any CPU.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::{Floats, Ints, Isa, Kernel, Mask, Simd};

/// The instruction set that every CPU has.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// One f32.
#[derive(Clone, Copy, Debug)]
pub struct F1(pub f32);
/// One u32.
#[derive(Clone, Copy, Debug)]
pub struct I1(pub u32);
/// One truth value.
#[derive(Clone, Copy, Debug)]
pub struct M1(pub bool);

impl Simd for Scalar {
    const LANES: usize = 1;
    type F = F1;
    type I = I1;
    type M = M1;

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        Isa::Scalar.run(kernel)
    }
    #[inline(always)]
    fn f(self, x: f32) -> F1 {
        F1(x)
    }
    #[inline(always)]
    fn u(self, x: u32) -> I1 {
        I1(x)
    }
    #[inline(always)]
    fn m(self, x: bool) -> M1 {
        M1(x)
    }
    #[inline(always)]
    fn mask(self, bits: u32) -> M1 {
        M1(bits & 1 != 0)
    }
    #[inline(always)]
    fn lane_index(self) -> I1 {
        I1(0)
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> F1 {
        F1(unsafe { from.read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_u32(self, from: *const u32) -> I1 {
        I1(unsafe { from.read_unaligned() })
    }
}

macro_rules! binary {
    ($type:ident, $trait:ident, $method:ident, |$a:ident, $b:ident| $value:expr) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                Self($value)
            }
        }
    };
}
binary!(F1, Add, add, |a, b| a + b);
binary!(F1, Sub, sub, |a, b| a - b);
binary!(F1, Mul, mul, |a, b| a * b);
binary!(F1, Div, div, |a, b| a / b);
binary!(I1, Add, add, |a, b| a.wrapping_add(b));
binary!(I1, Sub, sub, |a, b| a.wrapping_sub(b));
binary!(I1, Mul, mul, |a, b| a.wrapping_mul(b));
binary!(I1, BitAnd, bitand, |a, b| a & b);
binary!(I1, BitOr, bitor, |a, b| a | b);
binary!(I1, BitXor, bitxor, |a, b| a ^ b);
binary!(M1, BitAnd, bitand, |a, b| a & b);
binary!(M1, BitOr, bitor, |a, b| a | b);
binary!(M1, BitXor, bitxor, |a, b| a ^ b);

impl Neg for F1 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}
impl Not for M1 {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Floats for F1 {
    type I = I1;
    type M = M1;

    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        Self(self.0.mul_add(b.0, c.0))
    }
    #[inline(always)]
    fn fnma(self, b: Self, c: Self) -> Self {
        Self((-self.0).mul_add(b.0, c.0))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.sqrt())
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        if self.0 < b.0 { self } else { b }
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        if self.0 > b.0 { self } else { b }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.abs())
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(self.0.round_ties_even())
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(self.0.floor())
    }
    #[inline(always)]
    fn lt(self, b: Self) -> M1 {
        M1(self.0 < b.0)
    }
    #[inline(always)]
    fn le(self, b: Self) -> M1 {
        M1(self.0 <= b.0)
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M1 {
        M1(self.0 == b.0)
    }
    #[inline(always)]
    fn select(self, mask: M1, other: Self) -> Self {
        if mask.0 { self } else { other }
    }
    #[inline(always)]
    fn to_bits(self) -> I1 {
        I1(self.0.to_bits())
    }
    #[inline(always)]
    fn to_i32(self) -> I1 {
        I1(self.0.round_ties_even() as i32 as u32)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.write_unaligned(self.0) }
    }
}

impl Ints for I1 {
    type F = F1;
    type M = M1;

    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        Self(self.0 << N)
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        Self(self.0 >> N)
    }
    #[inline(always)]
    fn shr_by(self, count: u32) -> Self {
        Self(self.0 >> count)
    }
    #[inline(always)]
    fn pick(self, table: &[f32; 8]) -> F1 {
        F1(table[(self.0 & 7) as usize])
    }
    #[inline(always)]
    fn eq(self, b: Self) -> M1 {
        M1(self.0 == b.0)
    }
    #[inline(always)]
    fn lt_i32(self, b: Self) -> M1 {
        M1((self.0 as i32) < (b.0 as i32))
    }
    #[inline(always)]
    fn select(self, mask: M1, other: Self) -> Self {
        if mask.0 { self } else { other }
    }
    #[inline(always)]
    fn to_f32_bits(self) -> F1 {
        F1(f32::from_bits(self.0))
    }
    #[inline(always)]
    fn i32_to_f32(self) -> F1 {
        F1(self.0 as i32 as f32)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { to.write_unaligned(self.0) }
    }
}

impl Mask for M1 {
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0
    }
    #[inline(always)]
    unsafe fn store_bools(self, to: *mut bool) {
        unsafe { to.write(self.0) }
    }
}
