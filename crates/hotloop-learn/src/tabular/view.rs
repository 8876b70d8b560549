//! Views of a table, one type per kind, so that the inner loop is compiled for each.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::simd::prefetch_to_change;

use super::half;
use super::table::{BLOCK, Cells, HalfLine, Line, Table, find};

/// Sixteen values.
pub type Block = [f32; BLOCK];

/// A table of a known kind.
pub trait View: Copy {
    /// Table.
    fn table(&self) -> &Table;
    /// Values per action.
    fn planes(&self) -> usize;
    /// Specialise to a table with one plane, which the compiler can see.
    #[must_use]
    fn with_one_plane(self) -> Self;
    /// Blocks per row and plane.
    fn blocks(&self) -> usize;
    /// The row of a state, added if there is none.
    fn find(&self, state: u64) -> usize;
    /// Prefetch a row for reading and writing.
    fn prefetch(&self, row: usize);
    /// Read a block of a plane.
    fn block(&self, row: usize, plane: usize, block: usize) -> Block;
    /// Read a value.
    fn get(&self, row: usize, plane: usize, action: usize) -> f32;
    /// Write a value; `dither` are random bits for stochastic rounding.
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32);
}

/// Storage of a table's values, by type and by who else uses it.
pub trait Store: Copy {
    /// Prefetch a line for reading and writing.
    fn prefetch(&self, line: usize);
    /// Read a line.
    fn block(&self, line: usize) -> Block;
    /// Read one of its values.
    fn get(&self, line: usize, index: usize) -> f32;
    /// Write one of its values.
    fn set(&self, line: usize, index: usize, value: f32, dither: u32);
}

/// 32-bit values that no other thread uses: a line is one vector load.
#[derive(Clone, Copy)]
pub struct Exclusive<'a>(&'a [Line]);

impl Store for Exclusive<'_> {
    #[inline(always)]
    fn prefetch(&self, line: usize) {
        Shared(self.0).prefetch(line);
    }

    #[inline(always)]
    fn block(&self, line: usize) -> Block {
        // SAFETY: an atomic has the layout of its number, and no other thread writes to this table (see `dispatch`).
        unsafe { (&raw const self.0[line]).cast::<Block>().read() }
    }

    #[inline(always)]
    fn get(&self, line: usize, index: usize) -> f32 {
        Shared(self.0).get(line, index)
    }

    #[inline(always)]
    fn set(&self, line: usize, index: usize, value: f32, dither: u32) {
        Shared(self.0).set(line, index, value, dither);
    }
}

/// 32-bit values shared by threads: others may change some of them while a line is read.
#[derive(Clone, Copy)]
pub struct Shared<'a>(&'a [Line]);

impl Store for Shared<'_> {
    #[inline(always)]
    fn prefetch(&self, line: usize) {
        prefetch_to_change(&raw const self.0[line]);
    }

    #[inline(always)]
    fn block(&self, line: usize) -> Block {
        let line = &self.0[line];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an atomic has the layout of its number. On x86, vector loads read each aligned number whole, as sixteen
        // relaxed loads would, and the compiler neither repeats nor splits a volatile read.
        return unsafe { (&raw const *line).cast::<Block>().read_volatile() };
        #[cfg(not(target_arch = "x86_64"))]
        std::array::from_fn(|i| f32::from_bits(line.0[i].load(Relaxed)))
    }

    #[inline(always)]
    fn get(&self, line: usize, index: usize) -> f32 {
        f32::from_bits(self.0[line].0[index].load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, line: usize, index: usize, value: f32, _dither: u32) {
        self.0[line].0[index].store(value.to_bits(), Relaxed);
    }
}

/// 16-bit values, exclusive or shared.
#[derive(Clone, Copy)]
pub struct Half<'a>(&'a [HalfLine]);

impl Store for Half<'_> {
    #[inline(always)]
    fn prefetch(&self, line: usize) {
        prefetch_to_change(&raw const self.0[line]);
    }

    #[inline(always)]
    fn block(&self, line: usize) -> Block {
        let line = &self.0[line];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as for `Shared`.
        let bits = unsafe { (&raw const *line).cast::<[u16; BLOCK]>().read_volatile() };
        #[cfg(target_arch = "x86_64")]
        return half::decode_all(&bits);
        #[cfg(not(target_arch = "x86_64"))]
        std::array::from_fn(|i| half::decode(line.0[i].load(Relaxed)))
    }

    #[inline(always)]
    fn get(&self, line: usize, index: usize) -> f32 {
        half::decode(self.0[line].0[index].load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, line: usize, index: usize, value: f32, dither: u32) {
        self.0[line].0[index].store(half::encode(value, dither), Relaxed);
    }
}

/// View of a table: `SPARSE` if rows are found by hash, `NARROW` if they have one block.
#[derive(Clone, Copy)]
pub struct TableView<'a, S, const SPARSE: bool, const NARROW: bool> {
    table: &'a Table,
    store: S,
    planes: usize,
    blocks: usize,
}

impl<S: Store, const SPARSE: bool, const NARROW: bool> TableView<'_, S, SPARSE, NARROW> {
    #[inline(always)]
    fn line(&self, row: usize, plane: usize, block: usize) -> usize {
        (row * self.planes + plane) * self.blocks() + block
    }
}

impl<S: Store, const SPARSE: bool, const NARROW: bool> View for TableView<'_, S, SPARSE, NARROW> {
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
    fn prefetch(&self, row: usize) {
        self.store.prefetch(self.line(row, 0, 0));
    }

    #[inline(always)]
    fn block(&self, row: usize, plane: usize, block: usize) -> Block {
        self.store.block(self.line(row, plane, block))
    }

    #[inline(always)]
    fn get(&self, row: usize, plane: usize, action: usize) -> f32 {
        self.store.get(self.line(row, plane, block_of::<NARROW>(action)), action % BLOCK)
    }

    #[inline(always)]
    fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32) {
        self.store.set(self.line(row, plane, block_of::<NARROW>(action)), action % BLOCK, value, dither);
    }
}

#[inline(always)]
fn block_of<const NARROW: bool>(action: usize) -> usize {
    if NARROW { 0 } else { action / BLOCK }
}

/// Work on a table, compiled for every kind.
pub trait TableWork {
    /// Result.
    type Output;
    /// Whether it is compiled for rows of one block only.
    const NARROW: bool = false;
    /// Run on a view of the table.
    fn run<V: View>(self, view: V) -> Self::Output;
}

/// Run work on a view of the table's kind; `exclusive` promises that no other thread uses the table meanwhile.
pub fn dispatch<W: TableWork>(table: &Table, exclusive: bool, work: W) -> W::Output {
    match &table.cells {
        Cells::Full(lines) if exclusive => with_store(table, Exclusive(lines), work),
        Cells::Full(lines) => with_store(table, Shared(lines), work),
        Cells::Half(lines) => with_store(table, Half(lines), work),
    }
}

fn with_store<S: Store, W: TableWork>(table: &Table, store: S, work: W) -> W::Output {
    assert!(!W::NARROW || table.shape.blocks() == 1, "rows are too wide for this work");
    match (table.is_sparse(), W::NARROW) {
        (false, false) => work.run(table_view::<_, false, false>(table, store)),
        (false, true) => work.run(table_view::<_, false, true>(table, store)),
        (true, false) => work.run(table_view::<_, true, false>(table, store)),
        (true, true) => work.run(table_view::<_, true, true>(table, store)),
    }
}

fn table_view<S: Store, const SPARSE: bool, const NARROW: bool>(
    table: &Table,
    store: S,
) -> TableView<'_, S, SPARSE, NARROW> {
    TableView { table, store, planes: table.shape.planes, blocks: table.shape.blocks() }
}
