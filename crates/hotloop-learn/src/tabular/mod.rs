//! Learning tables of values: envs and learner in one loop, on one thread or many.
//!
//! A [`engine::Engine`] has workers, each with a few envs and a [`mind`] of its own ([`worker`]); they read and write a
//! [`table::Table`] through a view of its kind. [`rule`] has the algorithms, [`choice`] the policy, [`exact`] what can be
//! known by enumeration instead.

pub mod choice;
pub mod counters;
pub mod engine;
pub mod exact;
pub mod external;
pub mod half;
pub mod merge;
pub mod replay;
pub mod rule;
pub mod schedule;
pub mod table;
pub mod td_learner;
pub mod view;
pub mod worker;
#[cfg(target_arch = "x86_64")]
mod x86;
