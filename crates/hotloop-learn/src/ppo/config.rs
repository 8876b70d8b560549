//! PPO's settings, as they are in one iteration (schedules have been applied).

/// Settings of one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Passes over the rollout.
    pub epochs: usize,
    /// Rows per gradient step.
    pub minibatch_size: usize,
    /// Step size of Adam.
    pub learning_rate: f64,
    /// Discount per step.
    pub gamma: f32,
    /// How far advantages look ahead.
    pub gae_lambda: f32,
    /// How far the ratio of probabilities may move.
    pub clip: f32,
    /// How far the value may move per iteration; not at all limited if not said.
    pub value_clip: Option<f32>,
    /// Weight of the value's loss.
    pub value_weight: f32,
    /// Weight of the entropy bonus.
    pub entropy: f32,
    /// Largest norm of the gradient.
    pub max_gradient_norm: f32,
    /// Whether advantages are brought to mean 0 and deviation 1 over the rollout.
    pub normalize_advantages: bool,
    /// Epochs end early when the policy has moved this far.
    pub target_kl: Option<f32>,
    /// Adam's decay of the mean gradient.
    pub beta1: f64,
    /// Adam's decay of the mean squared gradient.
    pub beta2: f64,
    /// Adam's smallest divisor.
    pub epsilon: f32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            epochs: 4,
            minibatch_size: 16_384,
            learning_rate: 1e-3,
            gamma: 0.99,
            gae_lambda: 0.95,
            clip: 0.2,
            value_clip: None,
            value_weight: 0.5,
            entropy: 0.0,
            max_gradient_norm: 0.5,
            normalize_advantages: true,
            target_kl: None,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-5,
        }
    }
}
