//! A policy at work: observations in, actions out. Collecting, evaluating and playing all come through here.

use hotloop_core::rng::Stream;
use hotloop_core::simd::{BLOCK, Floats, Ints, Simd};

use crate::distribution::{Choices, Kept, Normals};
use crate::features::Features;
use crate::nn::net::TILE;
use crate::nn::policy::{Policy, PolicyWork};

/// A policy and how it sees.
#[derive(Clone)]
pub struct Player {
    /// The policy.
    pub policy: Policy,
    /// How observations become its input.
    pub features: Features,
}

/// What rows see.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Observations, row after row.
    pub obs: &'a [u8],
    /// Bytes of one.
    pub row_bytes: usize,
    /// Permissions, row after row; empty if there are none.
    pub mask: &'a [bool],
    /// Entries of one row's.
    pub mask_len: usize,
}

/// What rows decide, row after row; only rows that were asked for are written.
pub struct Decided<'a> {
    /// Choices; empty for continuous actions.
    pub choices: &'a mut [i32],
    /// Amounts as drawn; empty for discrete actions.
    pub amounts: &'a mut [f32],
    /// Logarithms of their probabilities.
    pub log_prob: &'a mut [f32],
    /// Values.
    pub value: &'a mut [f32],
}

/// What rows remember, row after row; empty for policies without memory.
pub struct Remembered<'a> {
    /// The numbers, as [`Policy::memory_len`] has them.
    pub numbers: &'a mut [f32],
    /// Whether a row decides: the others keep what they remember.
    pub decides: &'a [bool],
}

/// How actions are drawn.
#[derive(Clone, Copy)]
pub enum Draw {
    /// By the distribution, with the random numbers of each row and step.
    Sample {
        /// The stream of all rows.
        stream: Stream,
        /// The index of row 0 among all rows of a run.
        first_row: u32,
        /// Which step it is.
        step: u32,
    },
    /// The most probable.
    Mode,
}

/// Room for a tile of rows.
pub struct ActWork {
    net: PolicyWork,
    mask: Vec<[f32; TILE]>,
    kept: Kept,
    ids: [u32; TILE],
    taken: Vec<[u32; TILE]>,
    amounts: Vec<[f32; TILE]>,
    log_prob: [f32; TILE],
}

impl ActWork {
    /// For this policy; `masked` if rows have permissions.
    pub fn new(policy: &Policy, masked: bool) -> Self {
        let head = &policy.spec.head;
        Self {
            net: policy.workspace(false),
            mask: vec![[1.0; TILE]; if masked { head.outputs() } else { 0 }],
            kept: Kept::new(head.sets()),
            ids: [0; TILE],
            taken: vec![[0; TILE]; head.sets().len()],
            amounts: vec![[0.0; TILE]; policy.log_std().len()],
            log_prob: [0.0; TILE],
        }
    }
}

impl Player {
    /// Decides for these rows, and remembers.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // all that deciding involves
    pub fn act<S: Simd>(
        &self,
        simd: S,
        work: &mut ActWork,
        seen: Seen<'_>,
        rows: &[u32],
        draw: Draw,
        remembered: &mut Remembered<'_>,
        decided: &mut Decided<'_>,
    ) {
        let len = self.policy.memory_len();
        let head = &self.policy.spec.head;
        let (outputs, width) = (head.outputs(), head.width());
        for tile in rows.chunks(TILE) {
            self.features.load(seen.obs, seen.row_bytes, tile, &mut work.net);
            self.recall(work, remembered.numbers, tile);
            self.policy.forward(simd, &mut work.net, tile.len());
            if len > 0 {
                for (i, row) in tile.iter().enumerate().filter(|(_, row)| remembered.decides[**row as usize]) {
                    let numbers = &mut remembered.numbers[*row as usize * len..][..len];
                    work.net.keep(&self.policy.spec, i, numbers);
                }
            }
            for (i, row) in tile.iter().enumerate() {
                if let Draw::Sample { first_row, .. } = draw {
                    work.ids[i] = first_row.wrapping_add(*row);
                }
                for (choice, column) in work.mask.iter_mut().enumerate() {
                    column[i] = f32::from(u8::from(seen.mask[*row as usize * seen.mask_len + choice]));
                }
            }
            self.draw(simd, work, tile.len(), draw);
            let (_, values) = work.net.outputs(outputs);
            for (i, row) in tile.iter().enumerate() {
                let row = *row as usize;
                decided.value[row] = values[i];
                decided.log_prob[row] = work.log_prob[i];
                for (set, column) in work.taken.iter().enumerate() {
                    decided.choices[row * width + set] = column[i] as i32;
                }
                for (dim, column) in work.amounts.iter().enumerate() {
                    decided.amounts[row * width + dim] = column[i];
                }
            }
        }
    }

    #[inline(always)]
    fn recall(&self, work: &mut ActWork, numbers: &[f32], tile: &[u32]) {
        let len = self.policy.memory_len();
        if len > 0 {
            for (i, row) in tile.iter().enumerate() {
                work.net.recall(&self.policy.spec, i, &numbers[*row as usize * len..][..len]);
            }
        }
    }

    /// Draws the actions of a tile whose outputs are there.
    #[inline(always)]
    fn draw<S: Simd>(&self, simd: S, work: &mut ActWork, rows: usize, draw: Draw) {
        let head = &self.policy.spec.head;
        let log_std = self.policy.log_std();
        let (logits, _) = work.net.outputs(head.outputs());
        for row in (0..rows.next_multiple_of(BLOCK)).step_by(S::LANES) {
            // SAFETY: vectors tile a block, and blocks the tile; there is a column for each output.
            unsafe {
                let stream = match draw {
                    Draw::Sample { stream, step, .. } => {
                        let ids = simd.load_u32(work.ids.as_ptr().add(row));
                        stream.lanes(simd).fold(simd, ids).fold(simd, simd.u(step))
                    }
                    Draw::Mode => Stream { lo: 0, hi: 0 }.lanes(simd),
                };
                let mut log_prob = simd.f(0.0);
                let mut first = 0;
                for (set, n) in head.sets().iter().enumerate() {
                    let mask = work.mask.get(first).map_or(std::ptr::null(), |column| column[row..].as_ptr());
                    let weights = work.kept.weights[first][row..].as_mut_ptr();
                    let choices = Choices { logits: logits[first * TILE + row..].as_ptr(), mask, weights, n: *n };
                    let soft = choices.softmax(simd);
                    let taken = match draw {
                        Draw::Sample { .. } => choices.sample(simd, soft, stream.uniform(simd, set as u32)),
                        Draw::Mode => choices.mode(simd),
                    };
                    log_prob = log_prob + choices.log_prob(simd, soft, taken);
                    taken.store(work.taken[set].as_mut_ptr().add(row));
                    first += n;
                }
                let normals = Normals { means: logits[row..].as_ptr(), log_std };
                for i in 0..log_std.len() {
                    let amount = match draw {
                        Draw::Sample { .. } => normals.sample(simd, i, stream),
                        Draw::Mode => normals.mean(simd, i),
                    };
                    log_prob = log_prob + normals.log_prob(simd, i, amount);
                    amount.store(work.amounts[i].as_mut_ptr().add(row));
                }
                log_prob.store(work.log_prob.as_mut_ptr().add(row));
            }
        }
    }

    /// The values of these rows, in their order; `recalled` says whose memory each has.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as above
    pub fn values<S: Simd>(
        &self,
        simd: S,
        work: &mut ActWork,
        seen: Seen<'_>,
        rows: &[u32],
        (numbers, recalled): (&[f32], &[u32]),
        values: &mut [f32],
    ) {
        let outputs = self.policy.spec.head.outputs();
        let tiles = rows.chunks(TILE).zip(recalled.chunks(TILE));
        for ((tile, recalled), values) in tiles.zip(values.chunks_mut(TILE)) {
            self.features.load(seen.obs, seen.row_bytes, tile, &mut work.net);
            self.recall(work, numbers, recalled);
            self.policy.forward(simd, &mut work.net, tile.len());
            values.copy_from_slice(&work.net.outputs(outputs).1[..tile.len()]);
        }
    }
}
