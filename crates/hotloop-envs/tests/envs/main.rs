//! The rules of the native envs, played through a real pool.

mod catch;
mod cliff_walking;
mod frozen_lake;
mod play;
mod recall;
mod state;
mod table;
mod tag;
mod taxi;
mod tictactoe;
