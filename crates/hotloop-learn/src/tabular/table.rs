//! Tables of values: a row per state, a number per action, rows padded to whole blocks of sixteen numbers.
//!
//! A dense table has a row for every state; a sparse one a row for every state that was seen, found by its hash. Numbers
//! have 32 or 16 bits. All are kept in atomic cells, so that threads may share a table without locks.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::half;
use super::rule::{INITIAL_LIMIT, TABLE_LIMIT};

/// Numbers of a block.
pub const BLOCK: usize = 16;
/// The key of a slot of a sparse table that holds no state.
pub const FREE: u64 = u64::MAX;
const FIRST_SLOTS: usize = 1 << 10;

/// Sixteen numbers of 32 bits: one line of the cache.
#[repr(align(64))]
pub struct Line(pub [AtomicU32; BLOCK]);

/// Sixteen numbers of 16 bits: half a line.
#[repr(align(32))]
pub struct HalfLine(pub [AtomicU16; BLOCK]);

/// The numbers of a table.
pub enum Cells {
    /// With 32 bits.
    Full(Vec<Line>),
    /// With 16 bits.
    Half(Vec<HalfLine>),
}

/// How many bits a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32.
    Full,
    /// 16.
    Half,
}

impl Width {
    /// Narrow an initial value to f32; an error if a table of this width cannot learn from it.
    pub fn initial_value(self, value: f64) -> Result<f32, String> {
        let limit = if self == Self::Full { INITIAL_LIMIT } else { f64::from(half::MOST) };
        if value.abs() <= limit {
            return Ok(value as f32);
        }
        let storage = if self == Self::Full { "f32" } else { "f16" };
        Err(format!("initial_value is {value:e}: a table of {storage} values takes {:e} to {limit:e}", -limit))
    }
}

/// Check a value that comes from outside, such as a file.
pub fn check_value(value: f32) -> Result<(), String> {
    if value.abs() <= TABLE_LIMIT {
        return Ok(());
    }
    Err(format!("the table has a value of {value:e}: expected finite numbers of at most {TABLE_LIMIT:e}"))
}

/// What a table is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// States of a dense table; 0 for a sparse one.
    pub states: usize,
    /// Actions of every state.
    pub actions: usize,
    /// Values per action: two for double Q-learning.
    pub planes: usize,
    /// Bits of a value.
    pub width: Width,
    /// What a value is before anything was learned.
    pub initial: f32,
    /// Whether visits to each state and action are counted.
    pub visits: bool,
    /// Whether visits since the last exchange are counted, and rows noted that changed.
    pub fresh: bool,
}

impl Shape {
    /// Blocks of a row in one plane.
    pub fn blocks(&self) -> usize {
        self.actions.div_ceil(BLOCK)
    }

    /// Bytes of so many rows.
    pub fn bytes(&self, rows: usize) -> u128 {
        let number = if self.width == Width::Full { 4 } else { 2 };
        let counts = 4 * (usize::from(self.visits) + 2 * usize::from(self.fresh));
        let key = if self.states == 0 { 8 } else { 0 };
        let row = self.blocks() * BLOCK * (self.planes * number + counts) + key;
        row as u128 * rows as u128
    }
}

/// A table.
pub struct Table {
    /// What it is like.
    pub shape: Shape,
    /// The state of every slot of a sparse table; empty for a dense one.
    pub keys: Vec<AtomicU64>,
    /// How many slots of a sparse table hold a state.
    pub used: AtomicUsize,
    /// Values: by row, plane and action.
    pub cells: Cells,
    /// Visits of each state and action, where they are counted.
    pub visits: Vec<Line>,
    /// Visits since the last exchange, where they are counted.
    pub fresh: Vec<Line>,
    /// Weights that the last exchange left, where they are counted.
    pub settled: Vec<Line>,
    /// A bit per row that changed since the last exchange.
    pub touched: Vec<AtomicU64>,
}

impl Table {
    /// An empty table.
    pub fn new(shape: Shape) -> Self {
        let slots = if shape.states == 0 { FIRST_SLOTS } else { shape.states };
        Self::with_slots(shape, slots)
    }

    fn with_slots(shape: Shape, slots: usize) -> Self {
        let blocks = slots * shape.blocks();
        let first = shape.initial.to_bits();
        // Rounded down and up in equal parts would show as ties that are none.
        let half = half::encode(shape.initial, 0x1000);
        let lines = |number: usize, bits: u32| -> Vec<Line> {
            (0..number).map(|_| Line(std::array::from_fn(|_| AtomicU32::new(bits)))).collect()
        };
        Self {
            keys: if shape.states == 0 { (0..slots).map(|_| AtomicU64::new(FREE)).collect() } else { Vec::new() },
            used: AtomicUsize::new(0),
            cells: match shape.width {
                Width::Full => Cells::Full(lines(blocks * shape.planes, first)),
                Width::Half => {
                    let line = |_| HalfLine(std::array::from_fn(|_| AtomicU16::new(half)));
                    Cells::Half((0..blocks * shape.planes).map(line).collect())
                }
            },
            visits: lines(if shape.visits { blocks } else { 0 }, 0),
            fresh: lines(if shape.fresh { blocks } else { 0 }, 0),
            settled: lines(if shape.fresh { blocks } else { 0 }, 0),
            touched: (0..if shape.fresh { slots.div_ceil(64) } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            shape,
        }
    }

    /// Whether rows are found by hash.
    pub fn is_sparse(&self) -> bool {
        self.shape.states == 0
    }

    /// Rows that there is memory for.
    pub fn slots(&self) -> usize {
        if self.is_sparse() { self.keys.len() } else { self.shape.states }
    }

    /// States that have a row.
    pub fn rows(&self) -> usize {
        if self.is_sparse() { self.used.load(Relaxed) } else { self.shape.states }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u128 {
        self.shape.bytes(self.slots())
    }

    /// Whether so many more states may come before it must grow; three of four slots are taken at most.
    pub fn has_room(&self, more: usize) -> bool {
        !self.is_sparse() || self.used.load(Relaxed) + more <= self.slots() / 4 * 3
    }

    /// Twice the room. Rows get other places.
    pub fn grow(&mut self) {
        let mut larger = Self::with_slots(self.shape, 2 * self.slots());
        for (row, state) in self.states() {
            let place = larger.find(state);
            larger.copy_row(place, self, row);
        }
        *self = larger;
    }

    /// The state of each row that has one, with the row.
    pub fn states(&self) -> Vec<(usize, u64)> {
        if !self.is_sparse() {
            return (0..self.shape.states).map(|row| (row, row as u64)).collect();
        }
        let keys = self.keys.iter().map(|key| key.load(Relaxed)).enumerate();
        keys.filter(|(_, key)| *key != FREE).collect()
    }

    /// The row of a state, made if there is none. There must be room.
    #[inline(always)]
    pub fn find(&self, state: u64) -> usize {
        if self.is_sparse() { find(&self.keys, &self.used, state) } else { state as usize }
    }

    /// The row of a state, if it has one.
    pub fn look_up(&self, state: u64) -> Option<usize> {
        if !self.is_sparse() {
            return (state < self.shape.states as u64).then_some(state as usize);
        }
        let mask = self.keys.len() - 1;
        let mut slot = place(state, self.keys.len());
        loop {
            match self.keys[slot].load(Relaxed) {
                FREE => return None,
                key if key == state => return Some(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// One value.
    #[inline(always)]
    pub fn get(&self, row: usize, plane: usize, action: usize) -> f32 {
        let block = (row * self.shape.planes + plane) * self.shape.blocks() + action / BLOCK;
        match &self.cells {
            Cells::Full(lines) => f32::from_bits(lines[block].0[action % BLOCK].load(Relaxed)),
            Cells::Half(lines) => half::decode(lines[block].0[action % BLOCK].load(Relaxed)),
        }
    }

    /// Changes one value.
    #[inline(always)]
    pub fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32) {
        let block = (row * self.shape.planes + plane) * self.shape.blocks() + action / BLOCK;
        match &self.cells {
            Cells::Full(lines) => lines[block].0[action % BLOCK].store(value.to_bits(), Relaxed),
            Cells::Half(lines) => lines[block].0[action % BLOCK].store(half::encode(value, dither), Relaxed),
        }
    }

    /// What an agent goes by: the value, or the mean of the two.
    pub fn value(&self, row: usize, action: usize) -> f32 {
        if self.shape.planes == 1 {
            return self.get(row, 0, action);
        }
        f32::midpoint(self.get(row, 0, action), self.get(row, 1, action))
    }

    /// The count of a state and action in one of the arrays of counts; 0 where nobody counts.
    pub fn count(&self, lines: &[Line], row: usize, action: usize) -> u32 {
        let line = row * self.shape.blocks() + action / BLOCK;
        lines.get(line).map_or(0, |line| line.0[action % BLOCK].load(Relaxed))
    }

    fn copy_row(&mut self, row: usize, from: &Self, other: usize) {
        for plane in 0..self.shape.planes {
            for action in 0..self.shape.actions {
                // What is a half already comes back as it was.
                self.set(row, plane, action, from.get(other, plane, action), 0);
            }
        }
        let blocks = self.shape.blocks();
        for (own, theirs) in [(&self.visits, &from.visits), (&self.fresh, &from.fresh), (&self.settled, &from.settled)]
        {
            if !theirs.is_empty() {
                for block in 0..blocks {
                    for (to, count) in own[row * blocks + block].0.iter().zip(&theirs[other * blocks + block].0) {
                        to.store(count.load(Relaxed), Relaxed);
                    }
                }
            }
        }
        if self.shape.fresh && from.touched[other / 64].load(Relaxed) >> (other % 64) & 1 == 1 {
            self.touched[row / 64].fetch_or(1 << (row % 64), Relaxed);
        }
    }

    /// A copy in another kind of table; visits are kept where both count them.
    pub fn converted(&self, shape: Shape) -> Self {
        let mut other = Self::new(shape);
        for (row, state) in self.states() {
            if !other.has_room(1) {
                other.grow();
            }
            let place = other.find(state);
            for action in 0..shape.actions {
                for plane in 0..shape.planes {
                    let value = if self.shape.planes == shape.planes {
                        self.get(row, plane, action)
                    } else {
                        self.value(row, action)
                    };
                    other.set(place, plane, action, value, 0x1000);
                }
                if shape.visits {
                    let line = &other.visits[place * shape.blocks() + action / BLOCK];
                    line.0[action % BLOCK].store(self.count(&self.visits, row, action), Relaxed);
                }
            }
        }
        other
    }
}

/// Where the search for a state begins.
#[inline(always)]
fn place(state: u64, slots: usize) -> usize {
    (state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - slots.trailing_zeros())) as usize
}

/// The slot of a state, taken if it has none yet. A free slot must be left, or the search never ends.
#[inline(always)]
pub fn find(keys: &[AtomicU64], used: &AtomicUsize, state: u64) -> usize {
    let mask = keys.len() - 1;
    let mut slot = place(state, keys.len());
    loop {
        let key = keys[slot].load(Relaxed);
        if key == state {
            return slot;
        }
        if key == FREE {
            return take(keys, used, state, slot);
        }
        slot = (slot + 1) & mask;
    }
}

/// Takes a free slot, or finds the state in one that another thread has just taken for it.
#[cold]
fn take(keys: &[AtomicU64], used: &AtomicUsize, state: u64, mut slot: usize) -> usize {
    loop {
        match keys[slot].compare_exchange(FREE, state, Relaxed, Relaxed) {
            Ok(_) => {
                used.fetch_add(1, Relaxed);
                return slot;
            }
            Err(key) if key == state => return slot,
            Err(_) => slot = (slot + 1) & (keys.len() - 1),
        }
    }
}
