//! Activation functions and their derivatives, fused into the matrix products.

use hotloop_core::math;
use hotloop_core::simd::{Floats, Simd};

use super::matmul::Epilogue;

/// The nonlinearity between dense layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The hyperbolic tangent.
    Tanh,
    /// max(x, 0).
    Relu,
    /// x times the logistic function of x.
    Silu,
    /// x times the normal distribution function of x, in its tanh form.
    Gelu,
}

impl Activation {
    /// Parse a name.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "tanh" => Ok(Self::Tanh),
            "relu" => Ok(Self::Relu),
            "silu" => Ok(Self::Silu),
            "gelu" => Ok(Self::Gelu),
            other => Err(format!("activation is {other:?}: expected tanh, relu, silu or gelu")),
        }
    }

    /// Whether its derivative needs its input, not only its output.
    pub fn needs_input(self) -> bool {
        matches!(self, Self::Silu | Self::Gelu)
    }
}

/// An activation as a type, so that it is inlined into the product.
pub trait ActivationFn: Copy + Default {
    /// Whether `derivative` takes the input instead of the output.
    const NEEDS_INPUT: bool;
    /// The value at `x`.
    fn value<S: Simd>(simd: S, x: S::F) -> S::F;
    /// The derivative, from the output, or from the input if `NEEDS_INPUT`.
    fn derivative<S: Simd>(simd: S, x: S::F) -> S::F;
}

/// [`Activation::Tanh`].
#[derive(Clone, Copy, Default)]
pub struct Tanh;
/// [`Activation::Relu`].
#[derive(Clone, Copy, Default)]
pub struct Relu;
/// [`Activation::Silu`].
#[derive(Clone, Copy, Default)]
pub struct Silu;
/// [`Activation::Gelu`].
#[derive(Clone, Copy, Default)]
pub struct Gelu;

impl ActivationFn for Tanh {
    const NEEDS_INPUT: bool = false;
    #[inline(always)]
    fn value<S: Simd>(simd: S, x: S::F) -> S::F {
        math::tanh(simd, x)
    }
    #[inline(always)]
    fn derivative<S: Simd>(simd: S, y: S::F) -> S::F {
        y.fnma(y, simd.f(1.0))
    }
}

impl ActivationFn for Relu {
    const NEEDS_INPUT: bool = false;
    #[inline(always)]
    fn value<S: Simd>(simd: S, x: S::F) -> S::F {
        x.max(simd.f(0.0))
    }
    #[inline(always)]
    fn derivative<S: Simd>(simd: S, y: S::F) -> S::F {
        simd.f(1.0).select(simd.f(0.0).lt(y), simd.f(0.0))
    }
}

#[inline(always)]
fn logistic<S: Simd>(simd: S, x: S::F) -> S::F {
    simd.f(1.0) / (simd.f(1.0) + math::exp(simd, -x))
}

impl ActivationFn for Silu {
    const NEEDS_INPUT: bool = true;
    #[inline(always)]
    fn value<S: Simd>(simd: S, x: S::F) -> S::F {
        x * logistic(simd, x)
    }
    #[inline(always)]
    fn derivative<S: Simd>(simd: S, x: S::F) -> S::F {
        let p = logistic(simd, x);
        (x * p).fma(simd.f(1.0) - p, p)
    }
}

const GELU_SCALE: f32 = 0.797_884_6; // sqrt(2 / pi)
const GELU_CUBE: f32 = 0.044_715;

impl ActivationFn for Gelu {
    const NEEDS_INPUT: bool = true;
    #[inline(always)]
    fn value<S: Simd>(simd: S, x: S::F) -> S::F {
        let inner = simd.f(GELU_SCALE) * (simd.f(GELU_CUBE) * x * x).fma(x, x);
        let half = simd.f(0.5) * x;
        half.fma(math::tanh(simd, inner), half)
    }
    #[inline(always)]
    fn derivative<S: Simd>(simd: S, x: S::F) -> S::F {
        let square = x * x;
        let t = math::tanh(simd, simd.f(GELU_SCALE) * (simd.f(GELU_CUBE) * square).fma(x, x));
        let inner_slope = simd.f(GELU_SCALE) * simd.f(3.0 * GELU_CUBE).fma(square, simd.f(1.0));
        let half = simd.f(0.5);
        (half * x * t.fnma(t, simd.f(1.0))).fma(inner_slope, half.fma(t, half))
    }
}

/// Stores the activation of a sum; its input goes to a second matrix of the same layout where the derivative needs it.
#[derive(Clone, Copy)]
pub struct ActivationForward<C> {
    /// Activation.
    pub function: C,
    /// Offset from an element of C to its input in the second matrix, in elements.
    pub input: isize,
}

impl<C: ActivationFn> Epilogue for ActivationForward<C> {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, simd: S, sum: S::F, at: *mut f32) -> S::F {
        if C::NEEDS_INPUT {
            // SAFETY: the matrix of inputs has the layout of C.
            unsafe { sum.store(at.offset(self.input)) };
        }
        C::value(simd, sum)
    }
}

/// Multiplies the gradient of an activation's output by the derivative; C holds the output before.
#[derive(Clone, Copy)]
pub struct ActivationBackward<C> {
    /// Activation.
    pub function: C,
    /// Offset as in [`ActivationForward`].
    pub input: isize,
}

impl<C: ActivationFn> Epilogue for ActivationBackward<C> {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, simd: S, sum: S::F, at: *mut f32) -> S::F {
        // SAFETY: as above.
        let known = unsafe { simd.load(if C::NEEDS_INPUT { at.offset(self.input) } else { at }.cast_const()) };
        sum * C::derivative(simd, known)
    }
}
