//! The epsilon-greedy policy over legal actions; ties between the best are broken at random.

use super::table::BLOCK;
use super::view::{Block, View};

/// Operations of the inner loop for which CPUs have instructions; results do not depend on the implementation.
pub trait Cpu: Copy {
    /// Index of the set bit that has `n` set bits below it.
    fn nth_bit(self, bits: u64, n: u32) -> u32;
    /// The largest of the values whose bits are set in `legal`, and the bits of those equal to it.
    fn best(self, values: &Block, legal: u32) -> (f32, u32);
}

/// Implementation for any CPU.
#[derive(Clone, Copy)]
pub struct Portable;

impl Cpu for Portable {
    #[inline(always)]
    fn nth_bit(self, mut bits: u64, n: u32) -> u32 {
        for _ in 0..n {
            bits &= bits - 1;
        }
        bits.trailing_zeros()
    }

    #[inline(always)]
    fn best(self, values: &Block, legal: u32) -> (f32, u32) {
        let kept: Block = std::array::from_fn(|i| if legal >> i & 1 == 1 { values[i] } else { f32::NEG_INFINITY });
        let best = reduce(kept, |a, b| if a > b { a } else { b });
        let ties = kept.iter().rev().fold(0, |ties, value| ties << 1 | u32::from(*value == best));
        (best, ties & legal)
    }
}

/// The legal actions of a state and the best of them.
#[derive(Clone, Copy, Debug)]
pub struct ActionValues {
    /// Row of the state.
    pub row: usize,
    /// Legal actions, a bit each.
    pub legal: u64,
    /// The best value among them; with two planes, of their sum.
    pub best: f32,
    /// The actions that have it, a bit each.
    pub ties: u64,
}

/// Find the best legal actions of a row.
#[inline(always)]
pub fn action_values<V: View, C: Cpu>(view: V, cpu: C, row: usize, legal: u64) -> ActionValues {
    let (best, ties) = if view.planes() == 1 {
        best_of(view, cpu, legal, |block| view.block(row, 0, block))
    } else {
        best_of(view, cpu, legal, |block| {
            let (a, b) = (view.block(row, 0, block), view.block(row, 1, block));
            std::array::from_fn(|i| a[i] + b[i])
        })
    };
    ActionValues { row, legal, best, ties }
}

/// The best value of one plane, and the actions that have it.
#[inline(always)]
pub fn best_of_plane<V: View, C: Cpu>(view: V, cpu: C, row: usize, plane: usize, legal: u64) -> (f32, u64) {
    best_of(view, cpu, legal, |block| view.block(row, plane, block))
}

/// The mean of the legal values.
#[inline(always)]
pub fn mean<V: View>(view: V, row: usize, legal: u64) -> f32 {
    let mut sum = 0.0;
    for block in 0..view.blocks() {
        let bits = legal >> (BLOCK * block);
        let values = view.block(row, 0, block);
        let kept: Block = std::array::from_fn(|i| if bits >> i & 1 == 1 { values[i] } else { 0.0 });
        sum += reduce(kept, |a, b| a + b);
    }
    sum / legal.count_ones() as f32
}

#[inline(always)]
fn best_of<V: View, C: Cpu>(view: V, cpu: C, legal: u64, load: impl Fn(usize) -> Block) -> (f32, u64) {
    let (mut best, first) = cpu.best(&load(0), legal as u32 & 0xffff);
    let mut ties = u64::from(first);
    for block in 1..view.blocks() {
        let (other, places) = cpu.best(&load(block), (legal >> (BLOCK * block)) as u32 & 0xffff);
        let places = u64::from(places) << (BLOCK * block);
        if other > best {
            (best, ties) = (other, places);
        } else if other == best {
            ties |= places;
        }
    }
    (best, ties)
}

/// Reduce in a fixed tree, whatever the vector width.
#[inline(always)]
fn reduce(mut x: Block, join: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            x[i] = join(x[i], x[i + half]);
        }
    }
    x[0]
}

/// Choose an action: any legal one with probability `epsilon`, otherwise one of the best.
#[inline(always)]
pub fn choose<C: Cpu>(cpu: C, values: &ActionValues, epsilon: f32, explore: u32, pick: u32) -> usize {
    // 24 bits, as in `Stream::uniform`.
    let exploring = ((explore >> 8) as f32) < epsilon * 16_777_216.0;
    let from = if exploring { values.legal } else { values.ties };
    let nth = (u64::from(pick) * u64::from(from.count_ones())) >> 32;
    cpu.nth_bit(from, nth as u32) as usize
}
