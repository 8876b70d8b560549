//! Numbers in memory that starts on a cache line.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    /// Read through the buffer's pointer only.
    _numbers: [f32; 16],
}

/// A fixed number of f32, zero at first.
#[derive(Clone)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub fn new(len: usize) -> Self {
        Self { lines: vec![Line { _numbers: [0.0; 16] }; len.div_ceil(16)], len }
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: the lines are contiguous f32, at least `len` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
