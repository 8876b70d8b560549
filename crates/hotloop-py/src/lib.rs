//! The private Python module `hotloop._core`: thin bindings, no logic of their own.

// Python's arguments are converted into values of our own.
#![allow(clippy::needless_pass_by_value)]

mod actions;
mod choices;
mod convert;
mod external_rollout;
mod frame;
mod interrupts;
mod learner;
mod learning;
mod memory;
mod out;
mod pool;
mod registry;
mod reports;
mod rollout;
mod signals;
mod speed;
mod state;
mod stepper;
mod tabular;
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
    use crate::speed::{fma_peak, update_speed};
    #[pymodule_export]
    use crate::stepper::Stepper;

    #[pymodule_export]
    use crate::tabular::{
        ExternalTabularLearner, QTable, TabularLearner, best_values, policy_earnings, reachable_states, table_bytes,
    };

    use pyo3::prelude::*;

    /// The instruction set that vectorised code uses.
    #[pyfunction]
    fn isa() -> PyResult<String> {
        super::chosen_isa()
    }

    /// The cores this process may use.
    #[pyfunction]
    fn usable_cores() -> usize {
        hotloop_core::cpu::usable_cores()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

fn chosen_isa() -> PyResult<String> {
    match hotloop_core::simd::Isa::from_env() {
        Ok(isa) => Ok(isa.to_string()),
        Err(why) => Err(pyo3::exceptions::PyValueError::new_err(why)),
    }
}
