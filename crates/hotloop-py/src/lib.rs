//! The private Python module `hotloop._core`: thin bindings, no logic of their own.

// Python's arguments are converted into values of our own.
#![allow(clippy::needless_pass_by_value)]

mod act_request;
mod actions;
mod choices;
mod convert;
mod external_rollout;
mod frame;
mod guard;
mod interrupts;
mod learner;
mod learning;
mod memory;
mod out;
mod pool;
mod registry;
mod reports;
mod rollout;
mod sequence;
mod signals;
mod speed;
mod state;
mod stepper;
mod tabular;
mod testing;
mod weights;

use pyo3::prelude::*;

/// The native core of hotloop.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::choices::Choices;
    #[pymodule_export]
    use crate::external_rollout::{ExternalRollout, orthogonal_weights};
    #[pymodule_export]
    use crate::learner::PpoLearner;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::pool::{Pool, Rollout};
    #[pymodule_export]
    use crate::registry::{add_env, describe, env_entry, has_env, list_envs, transitions};
    #[pymodule_export]
    use crate::signals::Signals;
    #[pymodule_export]
    use crate::speed::{fma_peak, isa, update_speed, usable_cores};
    #[pymodule_export]
    use crate::stepper::Stepper;

    #[pymodule_export]
    use crate::tabular::{
        ExternalTabularLearner, QTable, TabularLearner, evaluate_policy, optimal_values, reachable_states, table_bytes,
    };

    #[pymodule_export]
    use crate::testing::{_add_panicking_env, _panic_in_next_call};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        hotloop_core::panics::record_locations();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
