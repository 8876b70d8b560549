//! How the inner loop sees a table: one type per kind, so that each is compiled for itself.

use std::sync::atomic::Ordering::Relaxed;

use super::half;
use super::table::{BLOCK, Cells, HalfLine, Line, Table, find};

/// Sixteen values.
pub type Block = [f32; BLOCK];

/// A table of a known kind.
pub trait View: Copy {
    /// The table.
    fn table(&self) -> &Table;
    /// The row of a state, made if there is none.
    fn find(&self, state: u64) -> usize;
    /// Sixteen values of a plane at once.
    fn block(&self, row: usize, plane: usize, block: usize) -> Block;
    /// One value.
    fn get(&self, row: usize, plane: usize, action: usize) -> f32;
    /// Changes one value.
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32);
}

/// How the values are kept and who else reads them.
pub trait Store: Copy {
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

/// 32 bits, shared by threads.
#[derive(Clone, Copy)]
pub struct Shared<'a>(&'a [Line]);

impl Store for Shared<'_> {
    #[inline(always)]
    fn block(&self, at: usize) -> Block {
        let line = &self.0[at].0;
        std::array::from_fn(|i| f32::from_bits(line[i].load(Relaxed)))
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
    fn block(&self, at: usize) -> Block {
        let line = &self.0[at].0;
        std::array::from_fn(|i| half::decode(line[i].load(Relaxed)))
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

/// A table whose rows are found by hash, or are the states themselves.
#[derive(Clone, Copy)]
pub struct Rows<'a, S, const SPARSE: bool> {
    table: &'a Table,
    store: S,
    planes: usize,
    blocks: usize,
}

impl<S: Store, const SPARSE: bool> Rows<'_, S, SPARSE> {
    #[inline(always)]
    fn at(&self, row: usize, plane: usize, block: usize) -> usize {
        (row * self.planes + plane) * self.blocks + block
    }
}

impl<S: Store, const SPARSE: bool> View for Rows<'_, S, SPARSE> {
    #[inline(always)]
    fn table(&self) -> &Table {
        self.table
    }

    #[inline(always)]
    fn find(&self, state: u64) -> usize {
        if SPARSE { find(&self.table.keys, &self.table.used, state) } else { state as usize }
    }

    #[inline(always)]
    fn block(&self, row: usize, plane: usize, block: usize) -> Block {
        self.store.block(self.at(row, plane, block))
    }

    #[inline(always)]
    fn get(&self, row: usize, plane: usize, action: usize) -> f32 {
        self.store.get(self.at(row, plane, action / BLOCK), action % BLOCK)
    }

    #[inline(always)]
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32) {
        self.store.set(self.at(row, plane, action / BLOCK), action % BLOCK, value, dither);
    }
}

/// Work that is compiled for every kind of table.
pub trait Work {
    /// What it gives.
    type Output;
    /// Does it.
    fn run<V: View>(self, view: V) -> Self::Output;
}

/// Does the work with the table's kind; `alone` says that no other thread uses the table meanwhile.
pub fn with<W: Work>(table: &Table, alone: bool, work: W) -> W::Output {
    let sparse = table.is_sparse();
    match &table.cells {
        Cells::Full(lines) if alone && !sparse => work.run(rows::<_, false>(table, Own(lines))),
        Cells::Full(lines) if alone => work.run(rows::<_, true>(table, Own(lines))),
        Cells::Full(lines) if !sparse => work.run(rows::<_, false>(table, Shared(lines))),
        Cells::Full(lines) => work.run(rows::<_, true>(table, Shared(lines))),
        Cells::Half(lines) if !sparse => work.run(rows::<_, false>(table, Halves(lines))),
        Cells::Half(lines) => work.run(rows::<_, true>(table, Halves(lines))),
    }
}

fn rows<S: Store, const SPARSE: bool>(table: &Table, store: S) -> Rows<'_, S, SPARSE> {
    Rows { table, store, planes: table.shape.planes, blocks: table.shape.blocks() }
}
