//! The matrix product behind all layers: `C = start + A B`, with lanes over the columns of B and C.
//!
//! Every element of C is one chain of fused multiply-adds in the order of the inner index, whatever the vector width
//! and however the rows and columns are blocked: the blocking is free to suit the CPU.

use hotloop_core::simd::{BLOCK, Floats, Kernel, Simd};

/// A matrix that is read one element at a time, in any layout.
#[derive(Clone, Copy)]
pub struct Strided {
    /// The first element.
    pub at: *const f32,
    /// Distance between rows.
    pub row: usize,
    /// Distance between columns.
    pub col: usize,
}

/// A matrix with contiguous rows.
#[derive(Clone, Copy)]
pub struct RowMajor {
    /// The first element.
    pub at: *const f32,
    /// Distance between rows.
    pub row: usize,
}

/// A matrix to write to, with contiguous rows.
#[derive(Clone, Copy)]
pub struct RowMajorMut {
    /// The first element.
    pub at: *mut f32,
    /// Distance between rows.
    pub row: usize,
}

/// Initial value of each sum.
#[derive(Clone, Copy)]
pub enum Init {
    /// Zero.
    Zero,
    /// The same row for every row of C.
    Row(*const f32),
    /// One number for every row of C.
    Column(*const f32),
    /// The existing element of C.
    Existing,
}

/// A function applied to each sum before it is stored.
pub trait Epilogue: Copy {
    /// The value to store at `at`, which still holds the previous one.
    ///
    /// # Safety
    /// `at` points to a whole vector of C.
    unsafe fn apply<S: Simd>(self, simd: S, sum: S::F, at: *mut f32) -> S::F;
}

/// The sum itself.
#[derive(Clone, Copy)]
pub struct Identity;

impl Epilogue for Identity {
    #[inline(always)]
    unsafe fn apply<S: Simd>(self, _: S, sum: S::F, _: *mut f32) -> S::F {
        sum
    }
}

/// Sizes of a product: C has `rows` x `cols`, A has `rows` x `inner`. `cols` is a multiple of [`BLOCK`].
#[derive(Clone, Copy)]
pub struct Size {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub cols: usize,
    /// Columns of A, rows of B.
    pub inner: usize,
}

/// `C = epilogue(start + A B)`.
///
/// # Safety
/// The matrices have the sizes that `size` says, and C overlaps neither A nor B.
#[inline(always)]
pub unsafe fn multiply<S: Simd, F: Epilogue>(
    simd: S,
    size: Size,
    a: Strided,
    b: RowMajor,
    c: RowMajorMut,
    start: Init,
    epilogue: F,
) {
    debug_assert!(size.cols.is_multiple_of(BLOCK));
    simd.call(Multiply { size, a, b, c, start, epilogue });
}

/// A product as a kernel, compiled once per epilogue instead of once per caller.
struct Multiply<F> {
    size: Size,
    a: Strided,
    b: RowMajor,
    c: RowMajorMut,
    start: Init,
    epilogue: F,
}

impl<F: Epilogue> Kernel for Multiply<F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { size, a, b, c, start, epilogue } = self;
        // SAFETY: the promise of `multiply`'s caller.
        unsafe { panels(simd, size, a, b, c, start, epilogue) };
    }
}

#[inline(always)]
unsafe fn panels<S: Simd, F: Epilogue>(
    simd: S,
    size: Size,
    a: Strided,
    b: RowMajor,
    c: RowMajorMut,
    start: Init,
    epilogue: F,
) {
    let mut col = 0;
    // SAFETY: the caller's promise, column by column.
    unsafe {
        if S::LANES == 16 {
            while size.cols - col >= 64 {
                panel::<S, F, 4, 4>(simd, size, a, b, c, start, epilogue, col);
                col += 64;
            }
            if size.cols - col >= 32 {
                panel::<S, F, 8, 2>(simd, size, a, b, c, start, epilogue, col);
                col += 32;
            }
            if size.cols - col >= 16 {
                panel::<S, F, 8, 1>(simd, size, a, b, c, start, epilogue, col);
            }
        } else if S::LANES == 8 {
            while col < size.cols {
                panel::<S, F, 4, 2>(simd, size, a, b, c, start, epilogue, col);
                col += 16;
            }
        } else {
            while col < size.cols {
                panel::<S, F, 2, 4>(simd, size, a, b, c, start, epilogue, col);
                col += 4;
            }
        }
    }
}

/// All rows of `VECS` vectors of columns.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the parts of a product
unsafe fn panel<S: Simd, F: Epilogue, const ROWS: usize, const VECS: usize>(
    simd: S,
    size: Size,
    a: Strided,
    b: RowMajor,
    c: RowMajorMut,
    start: Init,
    epilogue: F,
    col: usize,
) {
    let mut row = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while size.rows - row >= ROWS {
            tile::<S, F, ROWS, VECS>(simd, size.inner, a, b, c, start, epilogue, row, col);
            row += ROWS;
        }
        while size.rows - row >= 2 {
            tile::<S, F, 2, VECS>(simd, size.inner, a, b, c, start, epilogue, row, col);
            row += 2;
        }
        if row < size.rows {
            tile::<S, F, 1, VECS>(simd, size.inner, a, b, c, start, epilogue, row, col);
        }
    }
}

/// A block of C that stays in registers.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // as above
unsafe fn tile<S: Simd, F: Epilogue, const ROWS: usize, const VECS: usize>(
    simd: S,
    inner: usize,
    a: Strided,
    b: RowMajor,
    c: RowMajorMut,
    start: Init,
    epilogue: F,
    row: usize,
    col: usize,
) {
    let mut sums = [[simd.f(0.0); VECS]; ROWS];
    // SAFETY: the caller's promise.
    unsafe {
        match start {
            Init::Zero => {}
            Init::Row(bias) => {
                for v in 0..VECS {
                    let x = simd.load(bias.add(col + v * S::LANES));
                    for sum in &mut sums {
                        sum[v] = x;
                    }
                }
            }
            Init::Column(bias) => {
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = [simd.f(*bias.add(row + r)); VECS];
                }
            }
            Init::Existing => {
                for (r, sum) in sums.iter_mut().enumerate() {
                    for (v, x) in sum.iter_mut().enumerate() {
                        *x = simd.load(c.at.add((row + r) * c.row + col + v * S::LANES));
                    }
                }
            }
        }
        let mut left = a.at.add(row * a.row);
        let mut right = b.at.add(col);
        for _ in 0..inner {
            let mut vectors = [simd.f(0.0); VECS];
            for (v, x) in vectors.iter_mut().enumerate() {
                *x = simd.load(right.add(v * S::LANES));
            }
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = simd.f(*left.add(r * a.row));
                for v in 0..VECS {
                    sum[v] = x.fma(vectors[v], sum[v]);
                }
            }
            left = left.add(a.col);
            right = right.add(b.row);
        }
        for (r, sum) in sums.iter().enumerate() {
            for (v, x) in sum.iter().enumerate() {
                let at = c.at.add((row + r) * c.row + col + v * S::LANES);
                epilogue.apply(simd, *x, at).store(at);
            }
        }
    }
}
