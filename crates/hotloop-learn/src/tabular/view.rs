//! How the inner loop sees a table: one type per kind, so that each is compiled for itself.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::simd::prefetch_to_change;

use super::half;
use super::table::{BLOCK, Cells, HalfLine, Line, Table, find};

/// Sixteen values.
pub type Block = [f32; BLOCK];

/// A table of a known kind.
pub trait View: Copy {
    /// The table.
    fn table(&self) -> &Table;
    /// Values per action.
    fn planes(&self) -> usize;
    /// The same of a table with one; says so to the compiler.
    #[must_use]
    fn with_one_plane(self) -> Self;
    /// Blocks of a row in one plane.
    fn blocks(&self) -> usize;
    /// The row of a state, made if there is none.
    fn find(&self, state: u64) -> usize;
    /// Asks for the row's memory, which will be read, then changed.
    fn expect(&self, row: usize);
    /// Sixteen values of a plane at once.
    fn block(&self, row: usize, plane: usize, block: usize) -> Block;
    /// One value.
    fn get(&self, row: usize, plane: usize, action: usize) -> f32;
    /// Changes one value.
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32);
}

/// How the values are kept and who else reads them.
pub trait Store: Copy {
    /// Asks for the memory of sixteen values, which will be read, then changed.
    fn expect(&self, at: usize);
    /// Sixteen values.
    fn block(&self, at: usize) -> Block;
    /// One of them.
    fn get(&self, at: usize, place: usize) -> f32;
    /// Changes one of them.
    fn set(&self, at: usize, place: usize, value: f32, dither: u32);
}

/// 32 bits, used by this thread alone: whole lines are read at once.
#[derive(Clone, Copy)]
pub struct Own<'a>(&'a [Line]);

impl Store for Own<'_> {
    #[inline(always)]
    fn expect(&self, at: usize) {
        Shared(self.0).expect(at);
    }

    #[inline(always)]
    fn block(&self, at: usize) -> Block {
        // SAFETY: an atomic of 32 bits looks like the number, and no other thread writes to this table (see `with`).
        unsafe { (&raw const self.0[at]).cast::<Block>().read() }
    }

    #[inline(always)]
    fn get(&self, at: usize, place: usize) -> f32 {
        Shared(self.0).get(at, place)
    }

    #[inline(always)]
    fn set(&self, at: usize, place: usize, value: f32, dither: u32) {
        Shared(self.0).set(at, place, value, dither);
    }
}

/// 32 bits, shared by threads: others may change some of the numbers while a line is read.
#[derive(Clone, Copy)]
pub struct Shared<'a>(&'a [Line]);

impl Store for Shared<'_> {
    #[inline(always)]
    fn expect(&self, at: usize) {
        prefetch_to_change(&raw const self.0[at]);
    }

    #[inline(always)]
    fn block(&self, at: usize) -> Block {
        let line = &self.0[at];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an atomic of 32 bits looks like the number. Here vectors read each aligned number whole, as sixteen
        // relaxed loads would, and a volatile read is made once, as it stands.
        return unsafe { (&raw const *line).cast::<Block>().read_volatile() };
        #[cfg(not(target_arch = "x86_64"))]
        std::array::from_fn(|i| f32::from_bits(line.0[i].load(Relaxed)))
    }

    #[inline(always)]
    fn get(&self, at: usize, place: usize) -> f32 {
        f32::from_bits(self.0[at].0[place].load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, at: usize, place: usize, value: f32, _dither: u32) {
        self.0[at].0[place].store(value.to_bits(), Relaxed);
    }
}

/// 16 bits, whoever uses them.
#[derive(Clone, Copy)]
pub struct Halves<'a>(&'a [HalfLine]);

impl Store for Halves<'_> {
    #[inline(always)]
    fn expect(&self, at: usize) {
        prefetch_to_change(&raw const self.0[at]);
    }

    #[inline(always)]
    fn block(&self, at: usize) -> Block {
        let line = &self.0[at];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as for `Shared`.
        let bits = unsafe { (&raw const *line).cast::<[u16; BLOCK]>().read_volatile() };
        #[cfg(target_arch = "x86_64")]
        return half::decode_all(&bits);
        #[cfg(not(target_arch = "x86_64"))]
        std::array::from_fn(|i| half::decode(line.0[i].load(Relaxed)))
    }

    #[inline(always)]
    fn get(&self, at: usize, place: usize) -> f32 {
        half::decode(self.0[at].0[place].load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, at: usize, place: usize, value: f32, dither: u32) {
        self.0[at].0[place].store(half::encode(value, dither), Relaxed);
    }
}

/// A table whose rows are found by hash, or are the states themselves, and have one block or any number of them.
#[derive(Clone, Copy)]
pub struct Rows<'a, S, const SPARSE: bool, const NARROW: bool> {
    table: &'a Table,
    store: S,
    planes: usize,
    blocks: usize,
}

impl<S: Store, const SPARSE: bool, const NARROW: bool> Rows<'_, S, SPARSE, NARROW> {
    #[inline(always)]
    fn at(&self, row: usize, plane: usize, block: usize) -> usize {
        (row * self.planes + plane) * self.blocks() + block
    }
}

impl<S: Store, const SPARSE: bool, const NARROW: bool> View for Rows<'_, S, SPARSE, NARROW> {
    #[inline(always)]
    fn table(&self) -> &Table {
        self.table
    }

    #[inline(always)]
    fn planes(&self) -> usize {
        self.planes
    }

    #[inline(always)]
    fn with_one_plane(mut self) -> Self {
        debug_assert_eq!(self.planes, 1);
        self.planes = 1;
        self
    }

    #[inline(always)]
    fn blocks(&self) -> usize {
        if NARROW { 1 } else { self.blocks }
    }

    #[inline(always)]
    fn find(&self, state: u64) -> usize {
        if SPARSE { find(&self.table.keys, &self.table.used, state) } else { state as usize }
    }

    #[inline(always)]
    fn expect(&self, row: usize) {
        self.store.expect(self.at(row, 0, 0));
    }

    #[inline(always)]
    fn block(&self, row: usize, plane: usize, block: usize) -> Block {
        self.store.block(self.at(row, plane, block))
    }

    #[inline(always)]
    fn get(&self, row: usize, plane: usize, action: usize) -> f32 {
        self.store.get(self.at(row, plane, block_of::<NARROW>(action)), action % BLOCK)
    }

    #[inline(always)]
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32) {
        self.store.set(self.at(row, plane, block_of::<NARROW>(action)), action % BLOCK, value, dither);
    }
}

#[inline(always)]
fn block_of<const NARROW: bool>(action: usize) -> usize {
    if NARROW { 0 } else { action / BLOCK }
}

/// Work that is compiled for every kind of table.
pub trait Work {
    /// What it gives.
    type Output;
    /// Whether it is compiled for rows of one block, and for no others.
    const NARROW: bool = false;
    /// Does it.
    fn run<V: View>(self, view: V) -> Self::Output;
}

/// Does the work with the table's kind; `alone` says that no other thread uses the table meanwhile.
pub fn with<W: Work>(table: &Table, alone: bool, work: W) -> W::Output {
    match &table.cells {
        Cells::Full(lines) if alone => with_store(table, Own(lines), work),
        Cells::Full(lines) => with_store(table, Shared(lines), work),
        Cells::Half(lines) => with_store(table, Halves(lines), work),
    }
}

fn with_store<S: Store, W: Work>(table: &Table, store: S, work: W) -> W::Output {
    assert!(!W::NARROW || table.shape.blocks() == 1, "rows are too wide for this work");
    match (table.is_sparse(), W::NARROW) {
        (false, false) => work.run(rows::<_, false, false>(table, store)),
        (false, true) => work.run(rows::<_, false, true>(table, store)),
        (true, false) => work.run(rows::<_, true, false>(table, store)),
        (true, true) => work.run(rows::<_, true, true>(table, store)),
    }
}

fn rows<S: Store, const SPARSE: bool, const NARROW: bool>(table: &Table, store: S) -> Rows<'_, S, SPARSE, NARROW> {
    Rows { table, store, planes: table.shape.planes, blocks: table.shape.blocks() }
}
