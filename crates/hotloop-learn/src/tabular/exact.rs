//! What can be known without playing: the best values of a task that is a table, and what a policy earns in it.

/// A task in plain arrays; see `hotloop_envs::table::Table`, which has these.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// Actions of every state.
    pub actions: usize,
    /// Where the outcomes of each state and action begin; one more at the end.
    pub offsets: &'a [u32],
    /// Each outcome's probability.
    pub probability: &'a [f64],
    /// Each outcome's next state.
    pub next: &'a [u32],
    /// Each outcome's reward.
    pub reward: &'a [f32],
    /// Whether each outcome ends the episode.
    pub terminated: &'a [bool],
    /// How likely an episode starts in each state.
    pub start: &'a [f64],
    /// Whether an episode that ends in this state is a success.
    pub goal: &'a [bool],
    /// Which actions are legal, by state; empty when all are.
    pub legal: &'a [bool],
}

const MOST_SWEEPS: usize = 100_000;
/// What an episode still going on can be worth when it is left alone.
const NEGLIGIBLE: f64 = 1e-15;

impl Task<'_> {
    /// How many states there are.
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
        let worth = |at: usize| {
            let next = if self.terminated[at] { 0.0 } else { values[self.next[at] as usize] };
            self.probability[at] * (f64::from(self.reward[at]) + gamma * next)
        };
        self.outcomes(state, action).map(worth).sum()
    }

    /// The best value of every legal action, by value iteration; others have minus infinity.
    pub fn best_values(&self, gamma: f64, tolerance: f64) -> Result<Vec<f64>, String> {
        let legal = |state: usize| (0..self.actions).filter(move |action| self.is_legal(state, *action));
        let mut values = vec![0.0; self.states()];
        for _ in 0..MOST_SWEEPS {
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
        Err(format!("value iteration did not settle within {MOST_SWEEPS} sweeps at a discount of {gamma}"))
    }

    /// The states in which a decision may have to be made, whatever was decided before.
    pub fn reachable(&self) -> Vec<bool> {
        let every = |state: usize| (0..self.actions).filter(move |action| self.is_legal(state, *action)).collect();
        self.reached(every)
    }

    fn reached(&self, choices: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
        let mut seen: Vec<bool> = self.start.iter().map(|p| *p > 0.0).collect();
        let mut open: Vec<usize> = (0..seen.len()).filter(|state| seen[*state]).collect();
        while let Some(state) = open.pop() {
            for at in choices(state).into_iter().flat_map(|action| self.outcomes(state, action)) {
                let next = self.next[at] as usize;
                if !self.terminated[at] && !seen[next] && self.probability[at] > 0.0 {
                    seen[next] = true;
                    open.push(next);
                }
            }
        }
        seen
    }

    /// What a policy earns, with an action for every state, in episodes of at most `limit` steps.
    pub fn earns(&self, policy: &[u32], limit: usize) -> Earnings {
        let has_goals = self.goal.contains(&true);
        let mut here = self.start.to_vec();
        let mut found = Earnings { mean: 0.0, length: 0.0, success: 0.0, worst: f64::INFINITY, left: 0.0 };
        for _ in 0..limit {
            let mut there = vec![0.0; here.len()];
            let (mut going, mut on) = (0.0, 0.0);
            for (state, mass) in here.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
                going += mass;
                for at in self.outcomes(state, policy[state] as usize) {
                    let chance = mass * self.probability[at];
                    found.mean += chance * f64::from(self.reward[at]);
                    let success = if has_goals { self.goal[self.next[at] as usize] } else { self.reward[at] > 0.0 };
                    if self.terminated[at] {
                        found.success += if success { chance } else { 0.0 };
                    } else {
                        there[self.next[at] as usize] += chance;
                        on += chance;
                    }
                }
            }
            found.length += going;
            found.left = on;
            here = there;
            if on < NEGLIGIBLE {
                break;
            }
        }
        let seen = self.reached(|state| vec![policy[state] as usize]);
        for state in (0..seen.len()).filter(|state| seen[*state]) {
            for at in self.outcomes(state, policy[state] as usize) {
                found.worst = found.worst.min(f64::from(self.reward[at]));
            }
        }
        found
    }
}

/// What a policy earns, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Earnings {
    /// The expected return, undiscounted.
    pub mean: f64,
    /// The expected number of decisions.
    pub length: f64,
    /// The chance to end in success.
    pub success: f64,
    /// The lowest reward of any outcome that can come up at all.
    pub worst: f64,
    /// The chance that an episode is not over at the limit.
    pub left: f64,
}
