//! What an env is and how many are stepped at once. Knows nothing of Python and nothing of any particular env.

pub mod codec;
pub mod cpu;
pub mod crew;
pub mod discrete;
pub mod each;
pub mod env;
pub mod envs;
pub mod episodes;
pub mod error;
pub mod fields;
pub mod foreign;
pub mod fork;
pub mod group;
pub mod intake;
pub mod lanes;
pub mod ledger;
pub mod math;
pub mod options;
pub mod peak;
pub mod pool;
pub mod rng;
pub mod signals;
pub mod simd;
mod slot;
pub mod snapshot;
pub mod space;
pub mod team;
