//! Statistics of a worker: finished episodes and temporal-difference errors.

/// Number of episodes whose return and length are kept.
const RECENT: usize = 4096;

/// Statistics since they were last taken.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Finished episodes.
    pub episodes: u64,
    /// Total length of finished episodes, in decisions.
    pub length: u64,
    /// Sum of their returns.
    pub total: f64,
    /// Sum of their squared returns.
    pub square: f64,
    /// Smallest return.
    pub min: f64,
    /// Largest return.
    pub max: f64,
    /// Number of successful episodes.
    pub successes: u64,
    /// Sum of absolute temporal-difference errors.
    pub error: f64,
    /// Number of updates.
    pub updates: u64,
    recent: Vec<(f32, u32)>,
}

impl Default for Counters {
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

impl Counters {
    /// Count an episode of one seat.
    #[inline(always)]
    pub fn count_episode(&mut self, total: f32, length: u32, success: bool) {
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

    /// Add the sums of another worker; the recent episodes stay this worker's.
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
