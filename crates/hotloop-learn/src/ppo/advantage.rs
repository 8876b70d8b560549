//! Generalised advantage estimation (Schulman et al. 2016), backwards in time.
//!
//! A row's valid steps form a chain; rewards at steps where others decide are added to its last own one. The end of an
//! episode cuts the chain: nothing follows a terminated step, and the value of the final observation follows a truncated
//! one. Steps of an episode that a fault ended have no weight.

use super::rollout::Views;
use crate::nn::net::TILE;

/// Parameters of advantage estimation.
#[derive(Clone, Copy, Debug)]
pub struct Gae {
    /// Discount per step.
    pub gamma: f32,
    /// Decay of the eligibility of later advantages.
    pub lambda: f32,
    /// Factor of rewards.
    pub reward_scale: f32,
    /// Bound on the absolute value of scaled rewards.
    pub reward_clip: f32,
}

/// A row's accumulators at the step after the current one.
#[derive(Clone, Copy, Default)]
struct Later {
    value: f32,
    advantage: f32,
    /// Rewards up to the row's next own step.
    reward: f32,
    /// Whether an episode ended since then.
    ended: bool,
    /// Whether a fault ended this episode.
    cut: bool,
}

impl Gae {
    /// Fills advantage, target and weight of at most [`TILE`] rows.
    ///
    /// # Safety
    /// No other thread uses these rows of the rollout.
    pub unsafe fn rows(&self, rollout: Views<'_>, horizon: usize, row: usize, count: usize) {
        let mut rows = [Later::default(); TILE];
        let rows = &mut rows[..count];
        // SAFETY: the caller's promise, here and below.
        let last = unsafe { rollout.value.part(horizon, row, count) };
        rows.iter_mut().zip(last).for_each(|(later, value)| later.value = *value);
        for step in (0..horizon).rev() {
            let (reward, value, bootstrap, terminated, truncated, cut, valid, policy, advantage, target, weight) = unsafe {
                (
                    rollout.reward.part(step, row, count),
                    rollout.value.part(step, row, count),
                    rollout.bootstrap.part(step, row, count),
                    rollout.terminated.part(step, row, count),
                    rollout.truncated.part(step, row, count),
                    rollout.cut.part(step, row, count),
                    rollout.valid.part(step, row, count),
                    rollout.policy.part(step, row, count),
                    rollout.advantage.part(step, row, count),
                    rollout.target.part(step, row, count),
                    rollout.weight.part(step, row, count),
                )
            };
            for (i, later) in rows.iter_mut().enumerate() {
                if terminated[i] || truncated[i] {
                    let value = if terminated[i] { 0.0 } else { bootstrap[i] };
                    *later = Later { value, advantage: 0.0, reward: 0.0, ended: true, cut: cut[i] };
                }
                let scaled = reward[i] * self.reward_scale;
                later.reward += scaled.clamp(-self.reward_clip, self.reward_clip);
                weight[i] = f32::from(u8::from(valid[i] && policy[i] == 0 && !later.cut));
                advantage[i] = 0.0;
                target[i] = value[i];
                if valid[i] {
                    let delta = (later.reward + self.gamma * later.value) - value[i];
                    let chained = if later.ended { 0.0 } else { self.gamma * self.lambda * later.advantage };
                    advantage[i] = delta + chained;
                    target[i] = advantage[i] + value[i];
                    *later =
                        Later { value: value[i], advantage: advantage[i], reward: 0.0, ended: false, cut: later.cut };
                }
            }
        }
    }
}
