//! PPO's hyperparameters in one iteration, with schedules applied.

/// Hyperparameters of one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Epochs: passes over the rollout.
    pub epochs: usize,
    /// Transitions per gradient step.
    pub minibatch_size: usize,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// Discount factor per step.
    pub gamma: f32,
    /// Lambda of generalised advantage estimation.
    pub gae_lambda: f32,
    /// Clipping range of the probability ratio.
    pub clip: f32,
    /// Clipping range of the value's change; `None` does not clip.
    pub value_clip: Option<f32>,
    /// Coefficient of the value loss.
    pub value_weight: f32,
    /// Coefficient of the entropy bonus.
    pub entropy: f32,
    /// Maximum gradient norm (clipping threshold).
    pub max_gradient_norm: f32,
    /// Whether advantages are normalised over the rollout.
    pub normalize_advantages: bool,
    /// KL divergence after which no further epoch begins.
    pub target_kl: Option<f32>,
    /// Adam's decay rate of the first moment.
    pub beta1: f64,
    /// Adam's decay rate of the second moment.
    pub beta2: f64,
    /// Adam's epsilon.
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
