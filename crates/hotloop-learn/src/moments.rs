//! Running means and variances in f64, merged in a fixed order.

/// Count, mean and sum of squared deviations, of several variables at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Number of samples.
    pub count: f64,
    /// Means.
    pub mean: Vec<f64>,
    /// Sums of squared deviations from the mean.
    pub squares: Vec<f64>,
}

impl Moments {
    /// Moments of `len` variables, without samples.
    pub fn new(len: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; len], squares: vec![0.0; len] }
    }

    /// Adds one sample (Welford).
    pub fn push(&mut self, sample: impl Iterator<Item = f64>) {
        self.count += 1.0;
        for ((x, mean), squares) in sample.zip(&mut self.mean).zip(&mut self.squares) {
            let before = x - *mean;
            *mean += before / self.count;
            *squares += before * (x - *mean);
        }
    }

    /// Merges the samples of another (Chan).
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        for (i, (mean, squares)) in self.mean.iter_mut().zip(&mut self.squares).enumerate() {
            let apart = other.mean[i] - *mean;
            *mean += apart * (other.count / count);
            *squares += other.squares[i] + apart * apart * (self.count * other.count / count);
        }
        self.count = count;
    }

    /// The variance of variable `i`; 1 with fewer than two samples.
    pub fn variance(&self, i: usize) -> f64 {
        if self.count < 2.0 { 1.0 } else { self.squares[i] / self.count }
    }
}
