//! Estimates of the memory that policies and rollouts need, checked before they are made.

use hotloop_core::env::Spec;
use hotloop_core::error::Result;
use hotloop_core::memory::require;

use crate::nn::spec::{EncoderSpec, PolicySpec};

/// Copies of a policy's parameters that training keeps: the parameters, their packed form, two moments, the gradient and
/// the parts it is summed from.
const COPIES: u128 = 8;

fn parameters(policy: &PolicySpec) -> u128 {
    let (mut size, table) = match policy.encoder {
        EncoderSpec::Real { len } | EncoderSpec::Bytes { len, .. } => (len as u128, 0),
        EncoderSpec::OneHot { n } => (n as u128, 0),
        EncoderSpec::Embedding { n, dim } => (dim as u128, (n as u128).saturating_mul(dim as u128)),
    };
    let mut total = table;
    let layer = |inputs: u128, outputs: u128| inputs.saturating_add(1).saturating_mul(outputs);
    for hidden in &policy.hidden {
        total = total.saturating_add(layer(size, *hidden as u128));
        size = *hidden as u128;
    }
    if let Some(recurrent) = policy.recurrent {
        for _ in 0..recurrent.layers.min(64) {
            total =
                total.saturating_add(layer(size.saturating_add(recurrent.size as u128), 4 * recurrent.size as u128));
            size = recurrent.size as u128;
        }
    }
    let networks = if policy.shared { 1 } else { 2 };
    total.saturating_mul(networks).saturating_add(layer(size, policy.head.outputs() as u128 + 1))
}

/// Reject a policy that does not fit into memory.
pub fn require_policy(policy: &PolicySpec) -> Result<()> {
    let count = parameters(policy);
    let what = format!("a policy of about {count} parameters");
    require(&what, count.saturating_mul(4 * COPIES), "use smaller layers")
}

/// Reject a rollout that does not fit into memory.
pub fn require_rollout(spec: &Spec, rows: usize, horizon: usize) -> Result<()> {
    let mask = if spec.masked { spec.action.mask_len() } else { 0 };
    // Beside observation, mask and action: log-probability, value, reward, bootstrap, advantage, target, weight, policy
    // and flags.
    let per_step = spec.observation.row_bytes() + mask + 4 * spec.action.width() + 8 * 4 + 4;
    let steps = (rows as u128).saturating_mul(horizon as u128 + 1);
    let what = format!("a rollout of {rows} rows and {horizon} steps");
    require(&what, steps.saturating_mul(per_step as u128), "use fewer envs or a shorter horizon")
}
