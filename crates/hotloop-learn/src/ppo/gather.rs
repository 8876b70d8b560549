//! Gathering a tile of a minibatch's rows from anywhere in the rollout, column by column.

use hotloop_core::simd::prefetch;

use super::loss::{Batch, Terms};
use super::rollout::Rollout;
use crate::nn::net::TILE;

/// Prefetches the rows of the next tile.
#[inline(always)]
pub(super) fn prefetch_rows(rollout: &Rollout, rows: &[u32], terms: &Terms<'_>) {
    // Prefetching invalid addresses is slow.
    fn lines<T>(array: &[T], width: usize, rows: &[u32]) {
        let bytes = width * size_of::<T>();
        if array.is_empty() {
            return;
        }
        let first = array.as_ptr().cast::<u8>();
        for offset in (0..bytes).step_by(64) {
            rows.iter().for_each(|row| prefetch(first.wrapping_add(*row as usize * bytes + offset)));
        }
        if 64 % bytes != 0 {
            rows.iter().for_each(|row| prefetch(first.wrapping_add((*row as usize + 1) * bytes - 1)));
        }
    }
    lines(&rollout.obs, rollout.obs_bytes, rows);
    lines(&rollout.log_prob, 1, rows);
    lines(&rollout.advantage, 1, rows);
    lines(&rollout.target, 1, rows);
    lines(&rollout.discrete, rollout.sets, rows);
    lines(&rollout.continuous, rollout.dims, rows);
    lines(&rollout.mask, rollout.mask_len, rows);
    if terms.settings.value_clip.is_some() {
        lines(&rollout.value, 1, rows);
    }
    if !terms.uniform {
        lines(&rollout.weight, 1, rows);
    }
}

/// Gathers the rows of a tile into the columns that the loss needs.
pub(super) fn gather(rollout: &Rollout, rows: &[u32], terms: &Terms<'_>, batch: &mut Batch) {
    fn column<T: Copy>(to: &mut [T; TILE], rows: &[u32], value: impl Fn(usize) -> T) {
        for (x, row) in to.iter_mut().zip(rows) {
            *x = value(*row as usize);
        }
    }
    batch.rows = rows.len();
    batch.weight.fill(0.0);
    if terms.uniform {
        batch.weight[..rows.len()].fill(1.0);
    } else {
        column(&mut batch.weight, rows, |row| rollout.weight[row]);
    }
    if terms.settings.value_clip.is_some() {
        column(&mut batch.value, rows, |row| rollout.value[row]);
    }
    column(&mut batch.log_prob, rows, |row| rollout.log_prob[row]);
    column(&mut batch.advantage, rows, |row| rollout.advantage[row]);
    column(&mut batch.target, rows, |row| rollout.target[row]);
    for (set, to) in batch.discrete.iter_mut().enumerate() {
        column(to, rows, |row| rollout.discrete[row * rollout.sets + set] as u32);
    }
    for (dim, to) in batch.continuous.iter_mut().enumerate() {
        column(to, rows, |row| rollout.continuous[row * rollout.dims + dim]);
    }
    for (i, row) in rows.iter().enumerate() {
        let mask = &rollout.mask[*row as usize * rollout.mask_len..][..rollout.mask_len];
        for (to, allowed) in batch.mask.iter_mut().zip(mask) {
            to[i] = f32::from(u8::from(*allowed));
        }
    }
}
