//! IEEE half precision with stochastic rounding, which keeps many small updates from being lost.

const SHRINK: f32 = f32::from_bits((127 - 112) << 23);
const GROW: f32 = f32::from_bits((127 + 112) << 23);
/// Largest finite value.
pub const MAX: f32 = 65_504.0;

/// Decode half-precision bits.
#[inline(always)]
pub fn decode(bits: u16) -> f32 {
    let size = f32::from_bits(u32::from(bits & 0x7fff) << 13) * GROW;
    f32::from_bits(size.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// Whether these bits are finite: not an infinity, not NaN.
pub fn is_finite(bits: u16) -> bool {
    bits & 0x7fff <= 0x7bff
}

/// Decode a block.
#[inline(always)]
pub fn decode_all(bits: &[u16; 16]) -> [f32; 16] {
    let mut numbers = [0.0; 16];
    for (number, bits) in numbers.iter_mut().zip(bits) {
        *number = decode(*bits);
    }
    numbers
}

/// Round to one of the two nearest values with random bits: the nearer one is the more probable, so the mean is exact.
#[inline(always)]
pub fn encode(x: f32, dither: u32) -> u16 {
    let size = (x.abs().min(MAX) * SHRINK).to_bits();
    let rounded = (size + (dither & 0x1fff)) >> 13;
    (rounded.min(0x7bff) | (x.to_bits() >> 16 & 0x8000)) as u16
}
