//! Learning on the CPU, with the same bits everywhere: networks and PPO.

pub mod distribution;
pub mod features;
pub mod nn;
pub mod ppo;
