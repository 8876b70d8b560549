//! Bringing together what was learned apart: every value becomes the mean of the tables, weighted by how often each of
//! them has tried that action in that state since they last met.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::error::{Result, input};

use super::table::{BLOCK, Table};

/// Merges tables that were equal after the last merge; all are equal again.
pub fn merge(tables: &mut [Table]) {
    let mut states: Vec<u64> =
        tables.iter().flat_map(|table| touched(table).into_iter().map(|(_, state)| state)).collect();
    states.sort_unstable();
    states.dedup();
    for table in &mut *tables {
        while !table.has_room(states.len()) {
            table.grow();
        }
    }
    let shape = tables[0].shape;
    for state in states {
        let rows: Vec<usize> = tables.iter().map(|table| table.find(state)).collect();
        for action in 0..shape.actions {
            let weight = |i: usize| tables[i].count(&tables[i].fresh, rows[i], action);
            let total: u32 = (0..rows.len()).map(weight).sum();
            if total == 0 {
                continue;
            }
            for plane in 0..shape.planes {
                let part = |i: usize| f64::from(weight(i)) * f64::from(tables[i].get(rows[i], plane, action));
                let mean = ((0..rows.len()).map(part).sum::<f64>() / f64::from(total)) as f32;
                tables.iter().zip(&rows).for_each(|(table, row)| table.set(*row, plane, action, mean, 0x1000));
            }
            let place = |row: usize| (row * shape.blocks() + action / BLOCK, action % BLOCK);
            for (table, row) in tables.iter().zip(&rows) {
                let (line, at) = place(*row);
                let own = table.fresh[line].0[at].swap(0, Relaxed);
                if shape.visits {
                    table.visits[line].0[at].fetch_add(total - own, Relaxed);
                }
            }
        }
    }
    for table in tables {
        table.touched.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// Rows that changed since the last exchange, with their states.
fn touched(table: &Table) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    for (index, word) in table.touched.iter().enumerate() {
        let mut bits = word.load(Relaxed);
        while bits != 0 {
            let row = index * 64 + bits.trailing_zeros() as usize;
            let state = if table.is_sparse() { table.keys[row].load(Relaxed) } else { row as u64 };
            found.push((row, state));
            bits &= bits - 1;
        }
    }
    found
}

/// What changed in some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The states, in order.
    pub states: Vec<u64>,
    /// Their values: by state, plane and action.
    pub values: Vec<f32>,
    /// Visits since the last exchange: by state and action.
    pub visits: Vec<u32>,
}

/// Takes what changed since the last call. What was taken stays the weight of this side until the next call.
pub fn changes(table: &Table) -> Changes {
    let mut rows = touched(table);
    rows.sort_unstable_by_key(|(_, state)| *state);
    table.settled.iter().flat_map(|line| &line.0).for_each(|count| count.store(0, Relaxed));
    let mut found = Changes::default();
    let shape = table.shape;
    for (row, state) in rows {
        found.states.push(state);
        for plane in 0..shape.planes {
            found.values.extend((0..shape.actions).map(|action| table.get(row, plane, action)));
        }
        for action in 0..shape.actions {
            let (line, at) = (row * shape.blocks() + action / BLOCK, action % BLOCK);
            let count = table.fresh[line].0[at].swap(0, Relaxed);
            table.settled[line].0[at].store(count, Relaxed);
            found.visits.push(count);
        }
    }
    table.touched.iter().for_each(|word| word.store(0, Relaxed));
    found
}

/// Takes over what another side has learned, weighted against what this side has learned since the last exchange.
pub fn absorb(table: &mut Table, changes: &Changes) -> Result<()> {
    let shape = table.shape;
    let count = changes.states.len();
    if changes.values.len() != count * shape.planes * shape.actions || changes.visits.len() != count * shape.actions {
        return input("the changed rows have another shape than this table");
    }
    while !table.has_room(count) {
        table.grow();
    }
    for (index, state) in changes.states.iter().enumerate() {
        if !table.is_sparse() && *state >= shape.states as u64 {
            return input(format!("state {state} is not one of the {} states of this table", shape.states));
        }
        let row = table.find(*state);
        for action in 0..shape.actions {
            let theirs = changes.visits[index * shape.actions + action];
            if theirs == 0 {
                continue;
            }
            let (line, at) = (row * shape.blocks() + action / BLOCK, action % BLOCK);
            let own = table.settled[line].0[at].load(Relaxed).saturating_add(table.fresh[line].0[at].load(Relaxed));
            let weight = f64::from(theirs) / (f64::from(theirs) + f64::from(own));
            for plane in 0..shape.planes {
                let value = f64::from(table.get(row, plane, action));
                let other = f64::from(changes.values[(index * shape.planes + plane) * shape.actions + action]);
                table.set(row, plane, action, (value + weight * (other - value)) as f32, 0x1000);
            }
            let settled = &table.settled[line].0[at];
            settled.store(settled.load(Relaxed).saturating_add(theirs), Relaxed);
            if shape.visits {
                let visits = &table.visits[line].0[at];
                visits.store(visits.load(Relaxed).saturating_add(theirs), Relaxed);
            }
        }
    }
    Ok(())
}
