//! Tables of action values: a row per state, a value per action, rows padded to blocks of sixteen values.
//!
//! A dense table has a row for every state; a sparse one is a hash table with a row for every visited state. Values have
//! 32 or 16 bits and are atomic, so threads may share a table without locks.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::algorithm::{INITIAL_LIMIT, TABLE_LIMIT};
use super::half;

/// Values per block.
pub const BLOCK: usize = 16;
/// Key of an unused slot of a sparse table.
pub const FREE: u64 = u64::MAX;
const FIRST_SLOTS: usize = 1 << 10;

/// A block of 32-bit values: one cache line.
#[repr(align(64))]
pub struct Line(pub [AtomicU32; BLOCK]);

/// A block of 16-bit values: half a cache line.
#[repr(align(32))]
pub struct HalfLine(pub [AtomicU16; BLOCK]);

/// Values of a table.
pub enum Cells {
    /// 32-bit values.
    Full(Vec<Line>),
    /// 16-bit values.
    Half(Vec<HalfLine>),
}

/// Storage type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// f32.
    Full,
    /// f16 with stochastic rounding.
    Half,
}

impl Width {
    /// Narrow an initial value to f32; an error if a table of this width cannot learn from it.
    pub fn initial_value(self, value: f64) -> Result<f32, String> {
        let limit = if self == Self::Full { INITIAL_LIMIT } else { f64::from(half::MAX) };
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

/// Size and kind of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// States of a dense table; 0 for a sparse one.
    pub states: usize,
    /// Actions of every state.
    pub actions: usize,
    /// Values per action: two for double Q-learning.
    pub planes: usize,
    /// Storage type of values.
    pub width: Width,
    /// Initial value.
    pub initial: f32,
    /// Whether visits to each state and action are counted.
    pub visits: bool,
    /// Whether changes since the last exchange with other tables are tracked.
    pub exchange: bool,
}

impl Shape {
    /// Blocks per row and plane.
    pub fn blocks(&self) -> usize {
        self.actions.div_ceil(BLOCK)
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: usize) -> u128 {
        let number = if self.width == Width::Full { 4 } else { 2 };
        let counts = 4 * (usize::from(self.visits) + 2 * usize::from(self.exchange));
        let key = if self.states == 0 { 8 } else { 0 };
        let row = self.blocks() * BLOCK * (self.planes * number + counts) + key;
        row as u128 * rows as u128
    }
}

/// A table of action values.
pub struct Table {
    /// Size and kind.
    pub shape: Shape,
    /// The state of every slot of a sparse table; empty for a dense one.
    pub keys: Vec<AtomicU64>,
    /// Number of used slots of a sparse table.
    pub used: AtomicUsize,
    /// Values: by row, plane and action.
    pub cells: Cells,
    /// Visits of each state and action, if counted.
    pub visits: Vec<Line>,
    /// Visits since the last exchange, if tracked.
    pub recent_visits: Vec<Line>,
    /// Visits behind the values of the last exchange, if tracked.
    pub exchanged_visits: Vec<Line>,
    /// Rows changed since the last exchange, a bit each.
    pub changed_rows: Vec<AtomicU64>,
}

impl Table {
    /// Create a table of initial values.
    pub fn new(shape: Shape) -> Self {
        let slots = if shape.states == 0 { FIRST_SLOTS } else { shape.states };
        Self::with_slots(shape, slots)
    }

    fn with_slots(shape: Shape, slots: usize) -> Self {
        let blocks = slots * shape.blocks();
        let initial = shape.initial.to_bits();
        // Rounded to nearest: stochastic rounding would break ties between equal values.
        let half = half::encode(shape.initial, 0x1000);
        let lines = |number: usize, bits: u32| -> Vec<Line> {
            (0..number).map(|_| Line(std::array::from_fn(|_| AtomicU32::new(bits)))).collect()
        };
        Self {
            keys: if shape.states == 0 { (0..slots).map(|_| AtomicU64::new(FREE)).collect() } else { Vec::new() },
            used: AtomicUsize::new(0),
            cells: match shape.width {
                Width::Full => Cells::Full(lines(blocks * shape.planes, initial)),
                Width::Half => {
                    let line = |_| HalfLine(std::array::from_fn(|_| AtomicU16::new(half)));
                    Cells::Half((0..blocks * shape.planes).map(line).collect())
                }
            },
            visits: lines(if shape.visits { blocks } else { 0 }, 0),
            recent_visits: lines(if shape.exchange { blocks } else { 0 }, 0),
            exchanged_visits: lines(if shape.exchange { blocks } else { 0 }, 0),
            changed_rows: (0..if shape.exchange { slots.div_ceil(64) } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            shape,
        }
    }

    /// Whether rows are found by hash.
    pub fn is_sparse(&self) -> bool {
        self.shape.states == 0
    }

    /// Number of rows that are allocated.
    pub fn slots(&self) -> usize {
        if self.is_sparse() { self.keys.len() } else { self.shape.states }
    }

    /// Number of states that have a row.
    pub fn rows(&self) -> usize {
        if self.is_sparse() { self.used.load(Relaxed) } else { self.shape.states }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u128 {
        self.shape.bytes(self.slots())
    }

    /// Whether `more` states fit at a load factor of at most 3/4.
    pub fn has_room(&self, more: usize) -> bool {
        !self.is_sparse() || self.used.load(Relaxed) + more <= self.slots() / 4 * 3
    }

    /// Grow until `more` states fit; rows move. Returns whether it grew.
    pub fn reserve(&mut self, more: usize) -> bool {
        let fits = self.has_room(more);
        while !self.has_room(more) {
            self.grow();
        }
        !fits
    }

    fn grow(&mut self) {
        let mut larger = Self::with_slots(self.shape, 2 * self.slots());
        for (row, state) in self.states() {
            let to = larger.find(state);
            larger.copy_row(to, self, row);
        }
        *self = larger;
    }

    /// Rows in use, with their states.
    pub fn states(&self) -> Vec<(usize, u64)> {
        if !self.is_sparse() {
            return (0..self.shape.states).map(|row| (row, row as u64)).collect();
        }
        let keys = self.keys.iter().map(|key| key.load(Relaxed)).enumerate();
        keys.filter(|(_, key)| *key != FREE).collect()
    }

    /// The row of a state, added if there is none. There must be room.
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
        let mut slot = home_slot(state, self.keys.len());
        loop {
            match self.keys[slot].load(Relaxed) {
                FREE => return None,
                key if key == state => return Some(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Read a value.
    #[inline(always)]
    pub fn get(&self, row: usize, plane: usize, action: usize) -> f32 {
        let block = (row * self.shape.planes + plane) * self.shape.blocks() + action / BLOCK;
        match &self.cells {
            Cells::Full(lines) => f32::from_bits(lines[block].0[action % BLOCK].load(Relaxed)),
            Cells::Half(lines) => half::decode(lines[block].0[action % BLOCK].load(Relaxed)),
        }
    }

    /// Write a value; `dither` are random bits for stochastic rounding.
    #[inline(always)]
    pub fn set(&self, row: usize, plane: usize, action: usize, value: f32, dither: u32) {
        let block = (row * self.shape.planes + plane) * self.shape.blocks() + action / BLOCK;
        match &self.cells {
            Cells::Full(lines) => lines[block].0[action % BLOCK].store(value.to_bits(), Relaxed),
            Cells::Half(lines) => lines[block].0[action % BLOCK].store(half::encode(value, dither), Relaxed),
        }
    }

    /// The value that a policy acts on: the mean of both planes if there are two.
    pub fn value(&self, row: usize, action: usize) -> f32 {
        if self.shape.planes == 1 {
            return self.get(row, 0, action);
        }
        f32::midpoint(self.get(row, 0, action), self.get(row, 1, action))
    }

    /// The count of a state and action in one of the arrays of visits; 0 if they are not counted.
    pub fn count(&self, lines: &[Line], row: usize, action: usize) -> u32 {
        let line = row * self.shape.blocks() + action / BLOCK;
        lines.get(line).map_or(0, |line| line.0[action % BLOCK].load(Relaxed))
    }

    fn copy_row(&mut self, row: usize, from: &Self, other: usize) {
        for plane in 0..self.shape.planes {
            for action in 0..self.shape.actions {
                // Values that are halves already are not rounded.
                self.set(row, plane, action, from.get(other, plane, action), 0);
            }
        }
        let blocks = self.shape.blocks();
        let counts = [
            (&self.visits, &from.visits),
            (&self.recent_visits, &from.recent_visits),
            (&self.exchanged_visits, &from.exchanged_visits),
        ];
        for (own, theirs) in counts {
            if !theirs.is_empty() {
                for block in 0..blocks {
                    for (to, count) in own[row * blocks + block].0.iter().zip(&theirs[other * blocks + block].0) {
                        to.store(count.load(Relaxed), Relaxed);
                    }
                }
            }
        }
        if self.shape.exchange && from.changed_rows[other / 64].load(Relaxed) >> (other % 64) & 1 == 1 {
            self.changed_rows[row / 64].fetch_or(1 << (row % 64), Relaxed);
        }
    }

    /// Copy to another kind of table, with visits where both count them.
    pub fn converted(&self, shape: Shape) -> Self {
        let mut other = Self::new(shape);
        for (row, state) in self.states() {
            other.reserve(1);
            let to = other.find(state);
            for action in 0..shape.actions {
                for plane in 0..shape.planes {
                    let value = if self.shape.planes == shape.planes {
                        self.get(row, plane, action)
                    } else {
                        self.value(row, action)
                    };
                    other.set(to, plane, action, value, 0x1000);
                }
                if shape.visits {
                    let line = &other.visits[to * shape.blocks() + action / BLOCK];
                    line.0[action % BLOCK].store(self.count(&self.visits, row, action), Relaxed);
                }
            }
        }
        other
    }
}

/// Slot at which probing for a state begins.
#[inline(always)]
fn home_slot(state: u64, slots: usize) -> usize {
    (state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - slots.trailing_zeros())) as usize
}

/// The slot of a state, added if it has none. There must be an unused slot, or probing never ends.
#[inline(always)]
pub fn find(keys: &[AtomicU64], used: &AtomicUsize, state: u64) -> usize {
    let mask = keys.len() - 1;
    let mut slot = home_slot(state, keys.len());
    loop {
        let key = keys[slot].load(Relaxed);
        if key == state {
            return slot;
        }
        if key == FREE {
            return insert(keys, used, state, slot);
        }
        slot = (slot + 1) & mask;
    }
}

/// Claim an unused slot, or find the one that another thread has just claimed for the state.
#[cold]
fn insert(keys: &[AtomicU64], used: &AtomicUsize, state: u64, mut slot: usize) -> usize {
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
