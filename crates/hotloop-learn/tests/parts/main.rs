//! Parts that need no network: one program, so that it is linked once.

mod cancel;
mod chunks;
mod half;
mod schedule;
mod speed;
