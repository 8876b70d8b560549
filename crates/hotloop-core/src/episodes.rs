//! Episode statistics per row, independent of threads and groups: running sums since they were last taken, and the last
//! few episodes of each row.

/// Minimum number of recent episodes that a runner keeps, over all its rows.
const RECENT: usize = 4096;

const COUNT: usize = 0;
const LENGTH: usize = 1;
const RETURN: usize = 2;
const SQUARE: usize = 3;
const MIN: usize = 4;
const MAX: usize = 5;
const EXTRA: usize = 6;

/// One row's finished episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Steps of the group when it ended.
    pub tick: u64,
    /// The row, counted within the group.
    pub row: u32,
    /// Index of its env's episode.
    pub episode: u32,
    /// Number of decisions of the row.
    pub length: u32,
    /// The sum of its rewards.
    pub total: f32,
    /// The sums of its reward terms, then its metrics.
    pub extra: Vec<f32>,
}

/// Sums over finished episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Number of episodes.
    pub count: u64,
    /// The sum of their lengths.
    pub length: u64,
    /// The sum of their returns.
    pub total: f64,
    /// The sum of their squared returns.
    pub square: f64,
    /// The smallest return; +inf when there was none.
    pub min: f64,
    /// The largest return; -inf when there was none.
    pub max: f64,
    /// Sums of the reward terms, then of the metrics.
    pub extra: Vec<f64>,
}

impl Totals {
    /// No episode yet.
    pub fn new(extra: usize) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, length: 0, total: 0.0, square: 0.0, min, max, extra: vec![0.0; extra] }
    }
}

/// The statistics of one group's rows.
pub struct Episodes {
    extra: usize,
    depth: usize,
    sums: Vec<f64>,
    /// Per episode: tick (two words), number, length, return, terms and metrics; all as bits.
    recent: Vec<u32>,
}

/// Words of a record before terms and metrics.
const RECORD: usize = 5;

impl Episodes {
    /// Room for `rows` of a runner that has `all_rows`, with `extra` numbers (terms and metrics) per episode.
    pub fn new(rows: usize, all_rows: usize, extra: usize) -> Self {
        let depth = RECENT.div_ceil(all_rows).next_power_of_two();
        let mut episodes = Self {
            extra,
            depth,
            sums: vec![0.0; rows * (EXTRA + extra)],
            recent: vec![0; rows * depth * (RECORD + extra)],
        };
        episodes.clear();
        episodes
    }

    /// Counts an episode. `extra` returns the term sums and metrics by index.
    #[inline]
    pub fn log(&mut self, episode: &Finished, extra: impl Fn(usize) -> f32) {
        let row = episode.row;
        let width = EXTRA + self.extra;
        let sums = &mut self.sums[row * width..(row + 1) * width];
        let total = f64::from(episode.total);
        let slot = row * self.depth + (sums[COUNT] as usize & (self.depth - 1));
        sums[COUNT] += 1.0;
        sums[LENGTH] += f64::from(episode.length);
        sums[RETURN] += total;
        sums[SQUARE] += total * total;
        sums[MIN] = sums[MIN].min(total);
        sums[MAX] = sums[MAX].max(total);
        let width = RECORD + self.extra;
        let record = &mut self.recent[slot * width..(slot + 1) * width];
        let (low, high) = (episode.tick as u32, (episode.tick >> 32) as u32);
        record[..RECORD].copy_from_slice(&[low, high, episode.episode, episode.length, episode.total.to_bits()]);
        for (i, (sum, kept)) in sums[EXTRA..].iter_mut().zip(&mut record[RECORD..]).enumerate() {
            let x = extra(i);
            *sum += f64::from(x);
            *kept = x.to_bits();
        }
    }

    /// Adds the sums, row by row, to the totals; the recent episodes to the list.
    pub fn report(&self, totals: &mut Totals, recent: &mut Vec<Episode>) {
        for (row, sums) in self.sums.chunks_exact(EXTRA + self.extra).enumerate() {
            if sums[COUNT] == 0.0 {
                continue;
            }
            totals.count += sums[COUNT] as u64;
            totals.length += sums[LENGTH] as u64;
            totals.total += sums[RETURN];
            totals.square += sums[SQUARE];
            totals.min = totals.min.min(sums[MIN]);
            totals.max = totals.max.max(sums[MAX]);
            totals.extra.iter_mut().zip(&sums[EXTRA..]).for_each(|(total, sum)| *total += sum);
            let kept = (sums[COUNT] as usize).min(self.depth);
            for back in 1..=kept {
                let slot = row * self.depth + ((sums[COUNT] as usize - back) & (self.depth - 1));
                let record = &self.recent[slot * (RECORD + self.extra)..][..RECORD + self.extra];
                recent.push(Episode {
                    tick: u64::from(record[0]) | u64::from(record[1]) << 32,
                    row: row as u32,
                    episode: record[2],
                    length: record[3],
                    total: f32::from_bits(record[4]),
                    extra: record[RECORD..].iter().map(|bits| f32::from_bits(*bits)).collect(),
                });
            }
        }
    }

    /// Resets the counts.
    pub fn clear(&mut self) {
        for sums in self.sums.chunks_exact_mut(EXTRA + self.extra) {
            sums.fill(0.0);
            sums[MIN] = f64::INFINITY;
            sums[MAX] = f64::NEG_INFINITY;
        }
    }
}

/// An episode that ends.
pub struct Finished {
    /// The row, counted within the group.
    pub row: usize,
    /// Steps of the group.
    pub tick: u64,
    /// Index of its env's episode.
    pub episode: u32,
    /// Number of decisions of the row.
    pub length: u32,
    /// The sum of its rewards.
    pub total: f32,
}
