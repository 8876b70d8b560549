//! Errors of the core; their messages are for users.

use thiserror::Error;

/// Every failure the core reports; the runner is usable after each of them.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Error {
    /// The caller gave something that cannot be used.
    #[error("{0}")]
    Input(String),
    /// The call does not fit what the runner is doing now.
    #[error("{0}")]
    State(String),
    /// There is not enough memory for what the caller asked for.
    #[error("{0}")]
    Memory(String),
    /// An env broke its promises; a bug in the env, not in the call.
    #[error("{0}")]
    Env(String),
}

/// The core's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Shorthand for [`Error::Input`].
pub fn input<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Input(message.into()))
}

/// Shorthand for [`Error::State`].
pub fn state<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::State(message.into()))
}
