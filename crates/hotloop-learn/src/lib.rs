//! Learning on the CPU, with the same bits everywhere: networks and PPO.

pub mod acting;
pub mod cancel;
pub mod collect;
pub mod distribution;
pub mod external_rollout;
pub mod features;
pub mod learner;
pub mod memory;
pub mod moments;
pub mod nn;
pub mod ppo;
pub mod rollout_stats;
pub mod sampling;
pub mod speed;
pub mod tabular;
