//! Learning on the CPU, with the same bits everywhere: networks, PPO and tabular methods.

pub mod actor;
pub mod cancel;
pub mod collector;
pub mod distribution;
pub mod external_rollout;
pub mod features;
pub mod learner;
pub mod memory;
pub mod moments;
mod native_collector;
pub mod nn;
pub mod ppo;
pub mod sampler;
pub mod speed;
pub mod statistics;
pub mod tabular;
