//! Networks, built from specs and run on a tile of rows at a time.

pub mod activation;
pub mod buffer;
mod cell;
pub mod chain;
pub mod encoder;
pub mod gru;
pub mod init;
pub mod lstm;
pub mod matmul;
pub mod net;
pub mod policy;
pub mod recurrent;
pub mod rows;
pub mod spec;
pub mod trunk;
