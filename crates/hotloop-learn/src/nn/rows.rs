//! Sums over the rows of a tile, in a fixed order, and the change from rows to columns.

use hotloop_core::simd::{BLOCK, Floats, Simd};

/// Add `rows` rows of `width` numbers to a row, one after the other.
///
/// # Safety
/// There are as many rows, of whole blocks, and `to` is a row that does not overlap them.
#[inline(always)]
pub unsafe fn add_rows<S: Simd>(simd: S, from: *const f32, width: usize, rows: usize, to: *mut f32) {
    let mut col = 0;
    // SAFETY: the caller's promise.
    unsafe {
        // Additions to one column depend on each other; those to several columns overlap.
        while width - col >= 4 * S::LANES {
            add_columns::<S, 4>(simd, from.add(col), width, rows, to.add(col));
            col += 4 * S::LANES;
        }
        while col < width {
            add_columns::<S, 1>(simd, from.add(col), width, rows, to.add(col));
            col += S::LANES;
        }
    }
}

#[inline(always)]
unsafe fn add_columns<S: Simd, const VECS: usize>(simd: S, from: *const f32, width: usize, rows: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums: [S::F; VECS] = std::array::from_fn(|v| simd.load(to.add(v * S::LANES)));
        for row in 0..rows {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = *sum + simd.load(from.add(row * width + v * S::LANES));
            }
        }
        for (v, sum) in sums.iter().enumerate() {
            sum.store(to.add(v * S::LANES));
        }
    }
}

/// Sum of up to a tile of numbers: element i goes to lane i mod 16, and the lanes are added in a fixed tree.
#[inline(always)]
pub fn sum_in_lanes(numbers: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; BLOCK];
    for block in numbers.chunks(BLOCK) {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += x;
        }
    }
    tree(lanes)
}

/// Sum of sixteen lanes in a fixed order.
#[inline(always)]
pub fn tree(mut lanes: [f32; BLOCK]) -> f32 {
    let mut half = BLOCK / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Copy rows of `width` numbers to columns that are `column` apart.
#[inline(always)]
pub fn transpose<S: Simd>(simd: S, from: &[f32], width: usize, rows: usize, to: &mut [f32], column: usize) {
    let blocks = rows.next_multiple_of(BLOCK);
    assert!(from.len() >= blocks * width && to.len() >= column * width && blocks <= column);
    for row in (0..rows).step_by(BLOCK) {
        for col in (0..width).step_by(BLOCK) {
            // SAFETY: whole blocks of both, as the lengths say.
            unsafe {
                let (from, to) = (from.as_ptr().add(row * width + col), to.as_mut_ptr().add(col * column + row));
                simd.transpose(from, width, to, column);
            }
        }
    }
}
