//! Learning on the CPU, with the same bits everywhere: networks and PPO.

pub mod acting;
pub mod agent;
pub mod collect;
pub mod distribution;
pub mod experience;
pub mod features;
pub mod moments;
pub mod nn;
pub mod patience;
pub mod ppo;
pub mod sampling;
pub mod speed;
pub mod tabular;
pub mod watching;
