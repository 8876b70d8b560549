//! Merging tables that learned separately: every value becomes the mean of the tables', weighted by each table's visits
//! to the state and action since the last exchange.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::error::{Result, input};

use super::table::{BLOCK, Table};

/// Merge tables that were equal after the last merge; all are equal again.
pub fn merge(tables: &mut [Table]) {
    let mut states: Vec<u64> =
        tables.iter().flat_map(|table| changed_rows(table).into_iter().map(|(_, state)| state)).collect();
    states.sort_unstable();
    states.dedup();
    for table in &mut *tables {
        table.reserve(states.len());
    }
    let shape = tables[0].shape;
    for state in states {
        let rows: Vec<usize> = tables.iter().map(|table| table.find(state)).collect();
        for action in 0..shape.actions {
            let weight = |i: usize| tables[i].count(&tables[i].recent_visits, rows[i], action);
            let total: u32 = (0..rows.len()).map(weight).sum();
            if total == 0 {
                continue;
            }
            for plane in 0..shape.planes {
                let weighted = |i: usize| f64::from(weight(i)) * f64::from(tables[i].get(rows[i], plane, action));
                let mean = ((0..rows.len()).map(weighted).sum::<f64>() / f64::from(total)) as f32;
                tables.iter().zip(&rows).for_each(|(table, row)| table.set(*row, plane, action, mean, 0x1000));
            }
            for (table, row) in tables.iter().zip(&rows) {
                let (line, at) = (row * shape.blocks() + action / BLOCK, action % BLOCK);
                let own = table.recent_visits[line].0[at].swap(0, Relaxed);
                if shape.visits {
                    table.visits[line].0[at].fetch_add(total - own, Relaxed);
                }
            }
        }
    }
    for table in tables {
        table.changed_rows.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// Rows that changed since the last exchange, with their states.
fn changed_rows(table: &Table) -> Vec<(usize, u64)> {
    let mut taken = Vec::new();
    for (index, word) in table.changed_rows.iter().enumerate() {
        let mut bits = word.load(Relaxed);
        while bits != 0 {
            let row = index * 64 + bits.trailing_zeros() as usize;
            let state = if table.is_sparse() { table.keys[row].load(Relaxed) } else { row as u64 };
            taken.push((row, state));
            bits &= bits - 1;
        }
    }
    taken
}

/// Changed rows of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// States, in order.
    pub states: Vec<u64>,
    /// Values, by state, plane and action.
    pub values: Vec<f32>,
    /// Visits since the last exchange, by state and action.
    pub visits: Vec<u32>,
}

/// Take the rows that changed since the last call; their visits stay the weight of this table until the next call.
pub fn changes(table: &Table) -> Changes {
    let mut rows = changed_rows(table);
    rows.sort_unstable_by_key(|(_, state)| *state);
    table.exchanged_visits.iter().flat_map(|line| &line.0).for_each(|count| count.store(0, Relaxed));
    let mut taken = Changes::default();
    let shape = table.shape;
    for (row, state) in rows {
        taken.states.push(state);
        for plane in 0..shape.planes {
            taken.values.extend((0..shape.actions).map(|action| table.get(row, plane, action)));
        }
        for action in 0..shape.actions {
            let (line, at) = (row * shape.blocks() + action / BLOCK, action % BLOCK);
            let count = table.recent_visits[line].0[at].swap(0, Relaxed);
            table.exchanged_visits[line].0[at].store(count, Relaxed);
            taken.visits.push(count);
        }
    }
    table.changed_rows.iter().for_each(|word| word.store(0, Relaxed));
    taken
}

/// Merge another table's changes, weighted against the changes of this table since the last exchange.
pub fn absorb(table: &mut Table, changes: &Changes) -> Result<()> {
    let shape = table.shape;
    let count = changes.states.len();
    if changes.values.len() != count * shape.planes * shape.actions || changes.visits.len() != count * shape.actions {
        return input("the changed rows do not have the shape of this table");
    }
    table.reserve(count);
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
            let own = table.exchanged_visits[line].0[at]
                .load(Relaxed)
                .saturating_add(table.recent_visits[line].0[at].load(Relaxed));
            let weight = f64::from(theirs) / (f64::from(theirs) + f64::from(own));
            for plane in 0..shape.planes {
                let value = f64::from(table.get(row, plane, action));
                let other = f64::from(changes.values[(index * shape.planes + plane) * shape.actions + action]);
                table.set(row, plane, action, (value + weight * (other - value)) as f32, 0x1000);
            }
            let exchanged = &table.exchanged_visits[line].0[at];
            exchanged.store(exchanged.load(Relaxed).saturating_add(theirs), Relaxed);
            if shape.visits {
                let visits = &table.visits[line].0[at];
                visits.store(visits.load(Relaxed).saturating_add(theirs), Relaxed);
            }
        }
    }
    Ok(())
}
