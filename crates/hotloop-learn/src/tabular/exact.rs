//! Exact solutions of finite Markov decision processes by dynamic programming: optimal values, and a policy's expected
//! return.

/// A finite Markov decision process as plain arrays; see `hotloop_envs::table::Table`, which has them.
#[derive(Clone, Copy)]
pub struct Mdp<'a> {
    /// Actions per state.
    pub actions: usize,
    /// Index of the first outcome of each state and action, and the number of outcomes.
    pub offsets: &'a [u32],
    /// Probability of each outcome.
    pub probability: &'a [f64],
    /// Next state of each outcome.
    pub next: &'a [u32],
    /// Reward of each outcome.
    pub reward: &'a [f32],
    /// Whether each outcome ends the episode.
    pub terminated: &'a [bool],
    /// Probability that an episode starts in each state.
    pub start: &'a [f64],
    /// Whether an episode that ends in this state is a success.
    pub goal: &'a [bool],
    /// Legal actions, by state; empty if all are.
    pub legal: &'a [bool],
}

const MAX_SWEEPS: usize = 100_000;
/// Probability of unfinished episodes at which the evaluation of a policy stops.
const NEGLIGIBLE: f64 = 1e-15;

impl Mdp<'_> {
    /// Number of states.
    pub fn states(&self) -> usize {
        self.start.len()
    }

    fn outcomes(&self, state: usize, action: usize) -> std::ops::Range<usize> {
        let at = state * self.actions + action;
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }

    fn is_legal(&self, state: usize, action: usize) -> bool {
        self.legal.is_empty() || self.legal[state * self.actions + action]
    }

    fn value(&self, values: &[f64], gamma: f64, state: usize, action: usize) -> f64 {
        let expected = |at: usize| {
            let next = if self.terminated[at] { 0.0 } else { values[self.next[at] as usize] };
            self.probability[at] * (f64::from(self.reward[at]) + gamma * next)
        };
        self.outcomes(state, action).map(expected).sum()
    }

    /// Optimal value of every state and action, by value iteration; minus infinity for illegal actions.
    pub fn optimal_values(&self, gamma: f64, tolerance: f64) -> Result<Vec<f64>, String> {
        let legal = |state: usize| (0..self.actions).filter(move |action| self.is_legal(state, *action));
        let mut values = vec![0.0; self.states()];
        for _ in 0..MAX_SWEEPS {
            let mut change: f64 = 0.0;
            for state in 0..self.states() {
                let best = legal(state)
                    .map(|action| self.value(&values, gamma, state, action))
                    .fold(f64::NEG_INFINITY, f64::max);
                change = change.max((best - values[state]).abs());
                values[state] = best;
            }
            if change <= tolerance {
                let value = |at: usize| {
                    let (state, action) = (at / self.actions, at % self.actions);
                    if self.is_legal(state, action) {
                        self.value(&values, gamma, state, action)
                    } else {
                        f64::NEG_INFINITY
                    }
                };
                return Ok((0..self.states() * self.actions).map(value).collect());
            }
        }
        Err(format!("value iteration did not converge within {MAX_SWEEPS} sweeps at a discount of {gamma}"))
    }

    /// States that some policy reaches and has to act in.
    pub fn reachable(&self) -> Vec<bool> {
        let every = |state: usize| (0..self.actions).filter(move |action| self.is_legal(state, *action)).collect();
        self.reachable_by(every)
    }

    fn reachable_by(&self, choices: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
        let mut reachable: Vec<bool> = self.start.iter().map(|p| *p > 0.0).collect();
        let mut open: Vec<usize> = (0..reachable.len()).filter(|state| reachable[*state]).collect();
        while let Some(state) = open.pop() {
            for at in choices(state).into_iter().flat_map(|action| self.outcomes(state, action)) {
                let next = self.next[at] as usize;
                if !self.terminated[at] && !reachable[next] && self.probability[at] > 0.0 {
                    reachable[next] = true;
                    open.push(next);
                }
            }
        }
        reachable
    }

    /// Evaluate a deterministic policy, an action per state, in episodes of at most `limit` steps.
    pub fn evaluate(&self, policy: &[u32], limit: usize) -> PolicyEvaluation {
        let has_goals = self.goal.contains(&true);
        let mut occupancy = self.start.to_vec();
        let mut result =
            PolicyEvaluation { mean: 0.0, length: 0.0, success: 0.0, worst: f64::INFINITY, unfinished: 0.0 };
        for _ in 0..limit {
            let mut next = vec![0.0; occupancy.len()];
            let (mut deciding, mut unfinished) = (0.0, 0.0);
            for (state, mass) in occupancy.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
                deciding += mass;
                for at in self.outcomes(state, policy[state] as usize) {
                    let probability = mass * self.probability[at];
                    result.mean += probability * f64::from(self.reward[at]);
                    let success = if has_goals { self.goal[self.next[at] as usize] } else { self.reward[at] > 0.0 };
                    if self.terminated[at] {
                        result.success += if success { probability } else { 0.0 };
                    } else {
                        next[self.next[at] as usize] += probability;
                        unfinished += probability;
                    }
                }
            }
            result.length += deciding;
            result.unfinished = unfinished;
            occupancy = next;
            if unfinished < NEGLIGIBLE {
                break;
            }
        }
        let reachable = self.reachable_by(|state| vec![policy[state] as usize]);
        for state in (0..reachable.len()).filter(|state| reachable[*state]) {
            for at in self.outcomes(state, policy[state] as usize) {
                result.worst = result.worst.min(f64::from(self.reward[at]));
            }
        }
        result
    }
}

/// Exact statistics of a policy's episodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyEvaluation {
    /// Expected undiscounted return.
    pub mean: f64,
    /// Expected number of decisions.
    pub length: f64,
    /// Probability of success.
    pub success: f64,
    /// Lowest reward of any possible outcome.
    pub worst: f64,
    /// Probability that an episode is not finished after `limit` steps.
    pub unfinished: f64,
}
