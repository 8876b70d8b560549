//! Proximal policy optimisation (Schulman et al. 2017).

pub mod adam;
pub mod advantage;
pub mod chunks;
pub mod config;
mod gather;
pub mod loss;
pub mod recurrent;
pub mod rollout;
pub mod shuffle;
pub mod update;
