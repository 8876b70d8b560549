//! What a worker counts: finished episodes and how far values moved.

/// Returns of the last episodes that are kept.
const RECENT: usize = 4096;

/// Sums since they were last taken.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Finished episodes.
    pub episodes: u64,
    /// Their decisions.
    pub length: u64,
    /// The sum of their returns.
    pub total: f64,
    /// The sum of their squared returns.
    pub square: f64,
    /// The smallest return.
    pub min: f64,
    /// The largest return.
    pub max: f64,
    /// How many reached what they were to reach.
    pub successes: u64,
    /// The sum of the sizes of all errors learned from.
    pub error: f64,
    /// How many there were.
    pub updates: u64,
    recent: Vec<(f32, u32)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            episodes: 0,
            length: 0,
            total: 0.0,
            square: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            successes: 0,
            error: 0.0,
            updates: 0,
            recent: vec![(0.0, 0); RECENT],
        }
    }
}

impl Tally {
    /// Counts an episode of one seat.
    #[inline(always)]
    pub fn episode(&mut self, total: f32, length: u32, success: bool) {
        self.recent[self.episodes as usize % RECENT] = (total, length);
        self.episodes += 1;
        self.length += u64::from(length);
        let total = f64::from(total);
        self.total += total;
        self.square += total * total;
        self.min = self.min.min(total);
        self.max = self.max.max(total);
        self.successes += u64::from(success);
    }

    /// Returns and lengths of the last episodes, oldest first.
    pub fn recent(&self) -> Vec<(f32, u32)> {
        let count = self.episodes as usize;
        (count.saturating_sub(RECENT)..count).map(|i| self.recent[i % RECENT]).collect()
    }

    /// Adds another's sums; its returns are not taken over.
    pub fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.length += other.length;
        self.total += other.total;
        self.square += other.square;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.successes += other.successes;
        self.error += other.error;
        self.updates += other.updates;
    }
}
