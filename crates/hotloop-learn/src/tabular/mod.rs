//! Tabular temporal-difference learning: envs and learner in one loop, on one thread or many.
//!
//! An [`engine::Engine`] has [`worker`]s, each with a few envs and a [`td_learner::TdLearner`]; they read and write a
//! [`table::Table`] through a [`view`] of its kind. [`algorithm`] has the update targets, [`epsilon_greedy`] the policy,
//! [`exact`] solves small tasks by dynamic programming.

pub mod algorithm;
pub mod counters;
pub mod engine;
pub mod epsilon_greedy;
pub mod exact;
pub mod external;
pub mod half;
pub mod merge;
pub mod replay;
pub mod schedule;
pub mod table;
pub mod td_learner;
pub mod view;
pub mod worker;
#[cfg(target_arch = "x86_64")]
mod x86;
