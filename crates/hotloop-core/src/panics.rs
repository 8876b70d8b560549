//! Panics, passed from the thread they happened on to the caller with message and location.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// Location of the last panic of this thread.
    static LOCATION: Cell<Option<String>> = const { Cell::new(None) };
}

/// A caught panic.
#[derive(Debug)]
pub struct Panic {
    /// The panic's message, with the line of code where that is known.
    pub message: String,
    /// Whether an env panicked; the message then names it and says what to do.
    pub in_env: bool,
}

impl fmt::Display for Panic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_env { write!(to, "{}", self.message) } else { write!(to, "internal error: {}", self.message) }
    }
}

/// Records the location of panics instead of printing them: the code that catches one reports it. With `RUST_BACKTRACE` set they
/// are printed as well.
pub fn record_locations() {
    let print = std::panic::take_hook();
    let backtrace = std::env::var_os("RUST_BACKTRACE").is_some();
    std::panic::set_hook(Box::new(move |info| {
        LOCATION.set(info.location().map(ToString::to_string));
        if backtrace {
            print(info);
        }
    }));
}

/// Runs `work`; a panic becomes an error. What `work` changes must stay usable when it stops halfway.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<Panic>() {
        Ok(panic) => *panic,
        Err(payload) => {
            let message = text(&*payload);
            let message = match LOCATION.take() {
                Some(location) => format!("{message} ({location})"),
                None => message,
            };
            Panic { message, in_env: false }
        }
    })
}

/// Continues a panic that was caught, on this thread.
pub fn resume(panic: Panic) -> ! {
    resume_unwind(Box::new(panic))
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".into())
}
