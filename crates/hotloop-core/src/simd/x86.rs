//! Code shared by the vector types of x86.

/// A vector that wraps a register.
macro_rules! vector {
    ($name:ident, $raw:ty) => {
        #[doc = concat!("A ", stringify!($raw), ".")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name($raw);
    };
}

/// An operator that is one instruction.
macro_rules! binary {
    ($type:ident, $trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(unsafe { $intrinsic(self.0, other.0) })
            }
        }
    };
}

pub(super) use {binary, vector};
