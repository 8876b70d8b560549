//! The native envs, one module each.

pub mod acrobot;
pub mod cage2;
pub mod cartpole;
pub mod catch;
pub mod cliff_walking;
pub mod frozen_lake;
pub mod mountain_car;
pub mod pendulum;
pub mod recall;
pub mod table;
pub mod tag;
pub mod taxi;
pub mod tictactoe;

use std::sync::Arc;

use hotloop_core::env::EnvType;
use hotloop_core::options::Options;

/// Every native env, in the order `hotloop envs` lists them.
pub fn all() -> Vec<EnvType> {
    vec![
        cartpole::env_type(),
        mountain_car::env_type(),
        acrobot::env_type(),
        pendulum::env_type(),
        frozen_lake::env_type(),
        cliff_walking::env_type(),
        taxi::env_type(),
        tictactoe::env_type(),
        recall::env_type(),
        catch::env_type(),
        tag::env_type(),
        cage2::env_type(),
    ]
}

/// The transition table of an env that is one. Taxi's leaves out the fickle passenger, as Gymnasium's does; that of
/// tictactoe has the boards at the learner's turn, and there is none for two seats.
pub fn table_of(name: &str, options: &Options) -> Option<Arc<table::Table>> {
    Some(match name {
        "frozen-lake" => table::shared::<frozen_lake::FrozenLake>(options),
        "cliff-walking" => table::shared::<cliff_walking::CliffWalking>(options),
        "taxi" => table::shared::<taxi::Taxi>(options),
        "tictactoe" if options.text("opponent") != "self" => table::shared::<tictactoe::TicTacToe>(options),
        _ => return None,
    })
}
