//! Sums of products that stay in registers while several pairs of matrices are added to them, for recurrent layers.
//!
//! As in `matmul`, every element is one chain of fused multiply-adds in the order of the inner index, whatever the
//! vector width and however rows and columns are blocked.

use hotloop_core::simd::{BLOCK, Floats, Kernel, Simd};

use super::matmul::{Epilogue, RowMajorMut, Strided};

/// Sums of `ROWS` rows and `VECS` vectors of columns.
pub type Sums<S, const ROWS: usize, const VECS: usize> = [[<S as Simd>::F; VECS]; ROWS];

/// Adds `A B` to the sums; vector `v` of row `i` of B lies at `b + i * b_row + vectors[v]`.
///
/// # Safety
/// The matrices have `inner` columns and rows.
#[inline(always)]
pub unsafe fn accumulate<S: Simd, const ROWS: usize, const VECS: usize>(
    simd: S,
    sums: &mut Sums<S, ROWS, VECS>,
    a: Strided,
    (b, b_row): (*const f32, usize),
    vectors: [usize; VECS],
    inner: usize,
) {
    let (mut left, mut right) = (a.at, b);
    for _ in 0..inner {
        // SAFETY: the caller's promise.
        unsafe {
            let row = vectors.map(|offset| simd.load(right.add(offset)));
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = simd.f(*left.add(r * a.row));
                for v in 0..VECS {
                    sum[v] = x.fma(row[v], sum[v]);
                }
            }
            left = left.add(a.col);
            right = right.add(b_row);
        }
    }
}

/// Work on a few rows at a time, their number a compile-time constant.
pub trait Rows {
    /// Process `ROWS` rows from `first` on.
    ///
    /// # Safety
    /// There are that many.
    unsafe fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize);
}

/// Process all rows, as many at a time as the CPU has registers for four vectors each.
///
/// # Safety
/// There are `rows` rows.
#[inline(always)]
pub unsafe fn by_rows<S: Simd>(simd: S, rows: usize, work: &impl Rows) {
    let mut row = 0;
    // SAFETY: the caller's promise.
    unsafe {
        if S::LANES == 16 {
            while rows - row >= 6 {
                work.rows::<S, 6>(simd, row);
                row += 6;
            }
            if rows - row >= 4 {
                work.rows::<S, 4>(simd, row);
                row += 4;
            }
        }
        while rows - row >= 2 {
            work.rows::<S, 2>(simd, row);
            row += 2;
        }
        if row < rows {
            work.rows::<S, 1>(simd, row);
        }
    }
}

/// Contiguous columns of a panel.
#[derive(Clone, Copy)]
pub struct Span {
    /// First column.
    pub first: usize,
    /// Number of columns.
    pub len: usize,
}

/// `C = epilogue(C or 0 + A B)` where A is stored in panels, as gates are, of which only some spans of columns are used.
pub struct FromPanels<'a, F> {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C: whole blocks.
    pub cols: usize,
    /// Number of panels of A.
    pub panels: usize,
    /// The first element of A.
    pub a: *const f32,
    /// Distance between panels of A.
    pub a_panel: usize,
    /// Distance between rows of a panel.
    pub a_row: usize,
    /// Columns of each panel that are used, in this order.
    pub spans: &'a [Span],
    /// The first element of B, which has a row of `cols` for each column that is used, panel by panel.
    pub b: *const f32,
    /// Destination.
    pub c: RowMajorMut,
    /// Whether sums start with the existing elements of C.
    pub adds: bool,
    /// Function applied to each sum.
    pub epilogue: F,
}

impl<'a, F> FromPanels<'a, F> {
    /// The same product with another epilogue.
    pub fn with<G: Epilogue>(self, epilogue: G) -> FromPanels<'a, G> {
        let Self { rows, cols, panels, a, a_panel, a_row, spans, b, c, adds, .. } = self;
        FromPanels { rows, cols, panels, a, a_panel, a_row, spans, b, c, adds, epilogue }
    }
}

impl<F: Epilogue> Kernel for FromPanels<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut col = 0;
        // SAFETY: the fields have the sizes they say.
        unsafe {
            while S::LANES == 16 && self.cols - col >= 4 * BLOCK {
                by_rows(simd, self.rows, &Columns::<F, 4> { product: &self, col });
                col += 4 * BLOCK;
            }
            while self.cols - col >= BLOCK {
                if S::LANES == 16 {
                    by_rows(simd, self.rows, &Columns::<F, 1> { product: &self, col });
                } else {
                    for part in (0..BLOCK).step_by(2 * S::LANES) {
                        by_rows(simd, self.rows, &Columns::<F, 2> { product: &self, col: col + part });
                    }
                }
                col += BLOCK;
            }
        }
    }
}

struct Columns<'a, F, const VECS: usize> {
    product: &'a FromPanels<'a, F>,
    col: usize,
}

impl<F: Epilogue, const VECS: usize> Rows for Columns<'_, F, VECS> {
    #[inline(always)]
    unsafe fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
        let p = self.product;
        let vectors: [usize; VECS] = std::array::from_fn(|v| v * S::LANES);
        let mut sums = [[simd.f(0.0); VECS]; ROWS];
        // SAFETY: the sizes are as promised.
        unsafe {
            let element = |r: usize, v: usize| p.c.at.add((first + r) * p.c.row + self.col + vectors[v]);
            if p.adds {
                for (r, sum) in sums.iter_mut().enumerate() {
                    for (v, x) in sum.iter_mut().enumerate() {
                        *x = simd.load(element(r, v));
                    }
                }
            }
            let mut b = p.b.add(self.col);
            for panel in 0..p.panels {
                let row = p.a.add(panel * p.a_panel + first * p.a_row);
                for span in p.spans {
                    let a = Strided { at: row.add(span.first), row: p.a_row, col: 1 };
                    accumulate(simd, &mut sums, a, (b, p.cols), vectors, span.len);
                    b = b.add(span.len * p.cols);
                }
            }
            for (r, sum) in sums.iter().enumerate() {
                for (v, x) in sum.iter().enumerate() {
                    let at = element(r, v);
                    p.epilogue.apply(simd, *x, at).store(at);
                }
            }
        }
    }
}

/// Adds `A^T B` to a panel of gradients: `VECS` gates' weights of one block of units, for each of A's columns.
pub struct IntoPanel<const VECS: usize> {
    /// Rows of A and B.
    pub rows: usize,
    /// Columns of A, rows of the gradient.
    pub cols: usize,
    /// The first element of A.
    pub a: *const f32,
    /// Distance between rows of A.
    pub a_row: usize,
    /// The first element of B.
    pub b: *const f32,
    /// Distance between rows of B.
    pub b_row: usize,
    /// Offsets of the blocks of B that are used.
    pub vectors: [usize; VECS],
    /// The gradient, a row of `VECS` blocks for each of A's columns.
    pub c: *mut f32,
}

impl<const VECS: usize> Kernel for IntoPanel<VECS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for lane in (0..BLOCK).step_by(S::LANES) {
            // SAFETY: the fields have the sizes they say.
            unsafe { by_rows(simd, self.cols, &Lane { product: &self, lane }) };
        }
    }
}

struct Lane<'a, const VECS: usize> {
    product: &'a IntoPanel<VECS>,
    lane: usize,
}

impl<const VECS: usize> Rows for Lane<'_, VECS> {
    #[inline(always)]
    unsafe fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
        let p = self.product;
        let mut sums = [[simd.f(0.0); VECS]; ROWS];
        // SAFETY: the sizes are as promised.
        unsafe {
            let element = |r: usize, v: usize| p.c.add(((first + r) * VECS + v) * BLOCK + self.lane);
            for (r, sum) in sums.iter_mut().enumerate() {
                for (v, x) in sum.iter_mut().enumerate() {
                    *x = simd.load(element(r, v));
                }
            }
            let a = Strided { at: p.a.add(first), row: 1, col: p.a_row };
            accumulate(simd, &mut sums, a, (p.b.add(self.lane), p.b_row), p.vectors, p.rows);
            for (r, sum) in sums.iter().enumerate() {
                for (v, x) in sum.iter().enumerate() {
                    x.store(element(r, v));
                }
            }
        }
    }
}
