//! Parts that need no network: one program, so that it is linked once.

mod chunks;
mod half;
mod patience;
mod schedule;
mod speed;
