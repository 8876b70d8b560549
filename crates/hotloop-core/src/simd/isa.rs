//! The instruction set that this process uses, and the compilation of generic code for each.

use std::fmt;

use super::{Scalar, Simd};

/// The instruction sets there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// One lane; hardware FMA where the CPU has it, software FMA elsewhere.
    Scalar,
    /// Eight lanes.
    Avx2,
    /// Sixteen lanes.
    Avx512,
}

/// Work written once for every width. `run` must be `#[inline(always)]`, and so must all vector code it calls: so
/// they are compiled with the instruction set's features.
pub trait Kernel {
    /// Result of the work.
    type Output;
    /// Runs the work with vectors of `S`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Isa {
    /// All of them, narrowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The widest this CPU has, or the one that `HOTLOOP_ISA` asks for.
    pub fn from_env() -> Result<Self, String> {
        match std::env::var("HOTLOOP_ISA") {
            Ok(name) if !name.is_empty() => Self::parse(&name),
            _ => Ok(*Self::ALL.iter().rfind(|isa| isa.available()).unwrap_or(&Self::Scalar)),
        }
    }

    /// Parses a name; an error if this CPU does not have the instruction set.
    pub fn parse(name: &str) -> Result<Self, String> {
        let isa = Self::ALL
            .into_iter()
            .find(|isa| isa.to_string() == name)
            .ok_or_else(|| format!("HOTLOOP_ISA is {name:?}: expected scalar, avx2 or avx512"))?;
        if isa.available() {
            Ok(isa)
        } else {
            let have: Vec<String> = Self::ALL.iter().filter(|i| i.available()).map(ToString::to_string).collect();
            Err(format!("HOTLOOP_ISA is {name:?}, which this CPU does not have: it has {}", have.join(", ")))
        }
    }

    /// Whether this CPU can run it.
    pub fn available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Scalar => true,
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("fma")
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Self::Scalar;
    }

    /// Runs the kernel with this instruction set.
    ///
    /// # Panics
    /// If the CPU does not have it.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        assert!(self.available(), "this CPU does not have {self}");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: each function is called only where the CPU was found to have its features.
        unsafe {
            match self {
                Self::Scalar if is_x86_feature_detected!("fma") => scalar_with_fma(kernel),
                Self::Scalar => kernel.run(Scalar),
                Self::Avx2 => avx2(kernel),
                Self::Avx512 => avx512(kernel),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        kernel.run(Scalar)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
#[inline(never)]
fn scalar_with_fma<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Scalar)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
pub(super) fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(super::avx2::Avx2(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
#[inline(never)]
pub(super) fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(super::avx512::Avx512(()))
}
