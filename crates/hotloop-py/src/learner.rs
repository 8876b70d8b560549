//! The native learner as Python sees it.

use std::time::{Duration, Instant};

use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::{Kernel, Simd};
use hotloop_learn::acting::{ActWork, Decided, Draw, Player, Remembered, Seen};
use hotloop_learn::features::Features;
use hotloop_learn::learner::{IterationReport, PpoLearner as CoreLearner, PpoSetup};
use hotloop_learn::memory::require_rollout;
use hotloop_learn::moments::Moments;
use hotloop_learn::nn::policy::Policy;
use hotloop_learn::ppo::loss::Means;
use hotloop_py_macros::guarded;
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};

use crate::actions::drawn_actions;
use crate::convert::{observation_type, raised, spec_from, threads_from};
use crate::guard;
use crate::interrupts::interruptible;
use crate::learning::{iteration_settings, policy_spec};
use crate::pool::Pool;
use crate::registry;
use crate::rollout::rollout_arrays;
use crate::weights::{moments_into, named, put_moments, put_named};

/// A policy that learns.
#[pyclass(module = "hotloop._core")]
pub struct PpoLearner {
    learner: CoreLearner,
}

fn report<'py>(py: Python<'py>, means: &Means) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("policy_loss", means.policy_loss)?;
    dict.set_item("value_loss", means.value_loss)?;
    dict.set_item("entropy", means.entropy)?;
    dict.set_item("kl", means.kl)?;
    dict.set_item("clip_fraction", means.clip_fraction)?;
    Ok(dict)
}

/// What a player's memory is called in the state: that of the learner, then those of frozen policies.
fn memory_name(player: usize) -> String {
    if player == 0 { "memory".into() } else { format!("memory.{player}") }
}

struct Act<'a> {
    player: &'a Player,
    work: &'a mut ActWork,
    seen: Seen<'a>,
    rows: &'a [u32],
    draw: Draw,
    remembered: Remembered<'a>,
    decided: Decided<'a>,
}

impl Kernel for Act<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let Self { player, work, seen, rows, draw, remembered, decided } = &mut self;
        player.act(simd, work, *seen, rows, *draw, remembered, decided);
    }
}

impl PpoLearner {
    fn statistics_into(&self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        if !self.learner.observations.mean.is_empty() {
            moments_into(dict, "observations", &self.learner.observations)?;
        }
        if !self.learner.running.is_empty() {
            moments_into(dict, "returns", &self.learner.returns)?;
        }
        Ok(())
    }

    /// The bytes of observations, checked against the env's space; and how many rows there are.
    fn observations(&self, py: Python<'_>, obs: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, usize)> {
        let space = &self.learner.spec.observation;
        let dtype = match observation_type(space) {
            NPY_TYPES::NPY_FLOAT => "float32",
            NPY_TYPES::NPY_UBYTE => "uint8",
            _ => "int64",
        };
        let array = py.import("numpy")?.call_method1("ascontiguousarray", (obs, dtype))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        if shape.is_empty() || shape[1..] != *space.shape() {
            return Err(PyValueError::new_err(format!(
                "the observations have shape {shape:?}: expected [rows] and then {:?}",
                space.shape()
            )));
        }
        Ok((array.call_method0("tobytes")?.extract()?, shape[0]))
    }
}

#[guarded("learner")]
#[pymethods]
impl PpoLearner {
    #[new]
    #[pyo3(signature = (env, options, policy, *, rows, horizon, sequence_length=None, seed, attempt=0, num_threads=None,
                        first_row=0,
                        normalize_observations=false, normalize_rewards=false))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn new(
        py: Python<'_>,
        env: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
        policy: &Bound<'_, PyDict>,
        rows: usize,
        horizon: usize,
        sequence_length: Option<usize>,
        seed: u64,
        attempt: u32,
        num_threads: Option<usize>,
        first_row: u32,
        normalize_observations: bool,
        normalize_rewards: bool,
    ) -> PyResult<Self> {
        let spec = match env.cast::<PyDict>() {
            Ok(described) => spec_from(described)?,
            Err(_) => registry::spec(&*registry::find(&env.extract::<String>()?)?, options)?,
        };
        let threads = threads_from(num_threads)?;
        let policy = policy_spec(&spec, policy)?;
        require_rollout(&spec, rows, horizon).map_err(raised)?;
        let setup = PpoSetup {
            rows,
            horizon,
            sequence_length: sequence_length.unwrap_or(horizon),
            seed,
            attempt,
            threads,
            first_row,
            normalize_observations,
            normalize_rewards,
        };
        let learner = py.detach(|| CoreLearner::new(&spec, &policy, setup)).map_err(raised)?;
        Ok(Self { learner })
    }

    #[getter]
    fn num_threads(&self) -> usize {
        self.learner.threads()
    }

    /// How many weights the policy has.
    #[getter]
    fn parameters(&self) -> usize {
        self.learner.policy().arrays.iter().map(|array| array.rows * array.cols).sum()
    }

    /// How many numbers a row's memory has: for each network and layer `h`, then the LSTM's `c`; 0 without memory.
    #[getter]
    fn memory_len(&self) -> usize {
        self.learner.policy().memory_len()
    }

    /// Messages for a person; the native learner has none.
    #[getter]
    #[allow(clippy::unused_self)] // a property of every learner
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Conditions that must be equal for equal bits: none.
    #[allow(clippy::unused_self)] // a method of every learner
    fn conditions<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        PyDict::new(py)
    }

    /// Conditions that differ from those of a checkpoint: none.
    #[allow(clippy::unused_self)] // a method of every learner
    fn changed_since(&self, kept: &Bound<'_, PyMapping>) -> Vec<String> {
        let _ = kept;
        Vec::new()
    }

    /// Multiply-adds of one row through the policy, forward.
    #[getter]
    fn products(&self) -> usize {
        self.learner.policy().products()
    }

    /// Up to `count` iterations with equal settings, or as many as begin within `seconds`.
    fn iterate<'py>(
        &mut self,
        py: Python<'py>,
        pool: &Bound<'py, Pool>,
        settings: &Bound<'py, PyDict>,
        count: u64,
        seconds: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (settings, first) = iteration_settings(settings)?;
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let learner = &mut self.learner;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let done = interruptible(py, |patience| {
            let start = Instant::now();
            let mut all: Vec<IterationReport> = Vec::new();
            while all.is_empty() || ((all.len() as u64) < count && start.elapsed() < limit && !patience.over()) {
                all.push(learner.iterate(pool, &settings, first + all.len() as u64, patience)?);
            }
            Ok(all)
        })?
        .map_err(raised)?;
        let mut means = Means::default();
        for report in &done {
            let (m, n) = (report.update.means, done.len() as f64);
            means.policy_loss += m.policy_loss / n;
            means.value_loss += m.value_loss / n;
            means.entropy += m.entropy / n;
            means.kl += m.kl / n;
            means.clip_fraction += m.clip_fraction / n;
        }
        let dict = report(py, &means)?;
        let mean = |value: &dyn Fn(&IterationReport) -> f64| done.iter().map(value).sum::<f64>() / done.len() as f64;
        let total = |value: &dyn Fn(&IterationReport) -> f64| done.iter().map(value).sum::<f64>();
        let threads = self.learner.threads() as f64;
        dict.set_item("iterations", done.len())?;
        dict.set_item("steps", done.iter().map(|r| r.steps).sum::<u64>())?;
        dict.set_item("rows", (self.learner.setup.rows * self.learner.setup.horizon * done.len()) as u64)?;
        dict.set_item("gradient_norm", mean(&|r| r.update.gradient_norm))?;
        dict.set_item("explained_variance", self.learner.explained_variance())?;
        dict.set_item("epochs", mean(&|r| r.update.epochs as f64))?;
        dict.set_item("gradient_steps", done.iter().map(|r| r.update.steps).sum::<usize>())?;
        dict.set_item("dropped", done.iter().map(|r| r.update.dropped).sum::<usize>())?;
        dict.set_item("seconds_env", total(&|r| r.env.as_secs_f64()) / threads)?;
        dict.set_item("seconds_inference", total(&|r| r.inference.as_secs_f64()) / threads)?;
        dict.set_item("seconds_learn", total(&|r| r.learn.as_secs_f64()))?;
        dict.set_item("seconds_total", total(&|r| r.total.as_secs_f64()))?;
        Ok(dict)
    }

    /// Fills the rollout from native envs, advantages included.
    fn collect(&mut self, py: Python<'_>, pool: &Bound<'_, Pool>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, iteration) = iteration_settings(settings)?;
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let learner = &mut self.learner;
        interruptible(py, |patience| learner.collect(pool, &settings, iteration, patience))?.map_err(raised)
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    fn advantages(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        py.detach(|| learner.advantages(&settings));
        Ok(())
    }

    /// Improves the policy from the rollout.
    fn update<'py>(&mut self, py: Python<'py>, settings: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let (settings, iteration) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        let update = interruptible(py, |patience| learner.update(&settings, iteration, patience))?;
        let dict = report(py, &update.means)?;
        dict.set_item("gradient_norm", update.gradient_norm)?;
        dict.set_item("epochs", update.epochs)?;
        dict.set_item("gradient_steps", update.steps)?;
        dict.set_item("dropped", update.dropped)?;
        Ok(dict)
    }

    /// The gradient of the whole rollout as one batch, and the loss.
    fn gradient<'py>(
        &mut self,
        py: Python<'py>,
        settings: &Bound<'py, PyDict>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let (settings, _) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        let (gradient, means) = py.detach(|| learner.gradient(&settings));
        Ok((named(py, self.learner.policy(), &gradient, "")?, report(py, &means)?))
    }

    /// The rollout's arrays themselves, time first.
    fn rollout<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let mut this = guard::exclusive(slf, "learner")?;
        let CoreLearner { spec, rollout, .. } = &mut this.learner;
        rollout_arrays(slf.as_any(), spec, rollout)
    }

    /// Decides for the rows `first..last` at a slot of the rollout; what was decided is kept there.
    fn act_slot<'py>(
        &mut self,
        py: Python<'py>,
        slot: usize,
        rows: (usize, usize),
        iteration: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (first, last) = rows;
        let noise = self.learner.noise(iteration);
        let learner = &mut self.learner;
        if slot >= learner.rollout.horizon || first >= last || last > learner.rollout.rows {
            let (horizon, rows) = (learner.rollout.horizon, learner.rollout.rows);
            return Err(PyValueError::new_err(format!(
                "slot {slot}, rows {first} to {last}: the rollout has {horizon} slots of {rows} rows"
            )));
        }
        let count = last - first;
        let (isa, first_row) = (learner.isa, learner.setup.first_row.wrapping_add(first as u32));
        let rollout = &mut learner.rollout;
        let (obs_bytes, mask_len, width) = (rollout.obs_bytes, rollout.mask_len, rollout.width);
        let at = slot * rollout.rows + first;
        let part = |len: usize| if len == 0 { 0..0 } else { at * width..(at + count) * width };
        let (choice_part, amount_part) = (part(rollout.choices.len()), part(rollout.amounts.len()));
        if slot.is_multiple_of(rollout.sequence_length) {
            let len = rollout.memory_len;
            let begun = (slot / rollout.sequence_length * rollout.rows + first) * len;
            rollout.memory[begun..begun + count * len].copy_from_slice(&learner.memories[0][first * len..last * len]);
        }
        let mut played = vec![Vec::new(); learner.players.len()];
        for (row, index) in rollout.policy[at..at + count].iter().enumerate() {
            // A table may name more policies than there are; the learner plays those seats.
            let index = if (*index as usize) < learner.players.len() { *index as usize } else { 0 };
            played[index].push(row as u32);
        }
        let seats = learner.players.iter().zip(&mut learner.memories).zip(&played);
        for ((player, memory), ids) in seats.filter(|(_, ids)| !ids.is_empty()) {
            let len = player.policy.memory_len();
            isa.run(Act {
                player,
                work: &mut ActWork::new(&player.policy, mask_len > 0),
                seen: Seen {
                    obs: &rollout.obs[at * obs_bytes..(at + count) * obs_bytes],
                    row_bytes: obs_bytes,
                    mask: &rollout.mask[at * mask_len..(at + count) * mask_len],
                    mask_len,
                },
                rows: ids,
                draw: Draw::Sample { stream: noise, first_row, step: slot as u32 },
                remembered: Remembered {
                    numbers: &mut memory[first * len..last * len],
                    decides: &rollout.valid[at..at + count],
                },
                decided: Decided {
                    choices: &mut rollout.choices[choice_part.clone()],
                    amounts: &mut rollout.amounts[amount_part.clone()],
                    log_prob: &mut rollout.log_prob[at..at + count],
                    value: &mut rollout.value[at..at + count],
                },
            });
        }
        let rollout = &self.learner.rollout;
        drawn_actions(py, &self.learner.spec.action, &rollout.choices[choice_part], &rollout.amounts[amount_part])
    }

    /// Empties the memory of the rows `first..last` whose episodes ended at a slot.
    fn end_episodes(&mut self, slot: usize, rows: (usize, usize)) -> PyResult<()> {
        let rollout = &self.learner.rollout;
        let (first, last) = rows;
        if slot >= rollout.horizon || first > last || last > rollout.rows {
            return Err(PyValueError::new_err(format!("slot {slot}, rows {first} to {last}: not in the rollout")));
        }
        for (player, numbers) in self.learner.players.iter().zip(&mut self.learner.memories) {
            let len = player.policy.memory_len();
            for row in first..last {
                let at = slot * rollout.rows + row;
                if rollout.terminated[at] || rollout.truncated[at] {
                    numbers[row * len..(row + 1) * len].fill(0.0);
                }
            }
        }
        Ok(())
    }

    /// Decides for any observations: actions, logarithms of their probabilities, values. With memory, `memory`
    /// (`[rows, memory_len]`, zeros at first) is what rows remember, and is brought up to date where `valid` says so.
    #[pyo3(signature = (obs, mask=None, *, deterministic, seed=0, step=0, first_row=0, memory=None, valid=None))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)] // Python's keyword arguments
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        mask: Option<PyReadonlyArrayDyn<'py, i8>>,
        deterministic: bool,
        seed: u64,
        step: u32,
        first_row: u32,
        memory: Option<PyReadwriteArrayDyn<'py, f32>>,
        valid: Option<PyReadonlyArrayDyn<'py, bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (bytes, rows) = self.observations(py, obs)?;
        let spec = &self.learner.spec;
        let mask_len = if spec.masked { spec.action.mask_len() } else { 0 };
        let allowed: Vec<bool> = match &mask {
            Some(mask) if spec.masked => mask.as_array().iter().map(|x| *x != 0).collect(),
            _ => vec![true; rows * mask_len],
        };
        if allowed.len() != rows * mask_len {
            return Err(PyValueError::new_err(format!("the mask has {} entries for {rows} rows", allowed.len())));
        }
        let player = &self.learner.players[0];
        let len = player.policy.memory_len();
        let mut fresh = vec![0.0; if memory.is_none() { rows * len } else { 0 }];
        let mut memory = memory;
        let remembered = match &mut memory {
            Some(memory) if memory.shape() != [rows, len] => {
                let found = memory.shape();
                return Err(PyValueError::new_err(format!("memory has shape {found:?}: expected [{rows}, {len}]")));
            }
            Some(memory) => memory.as_slice_mut()?,
            None => &mut fresh,
        };
        let decides = match &valid {
            Some(valid) => valid.as_array().iter().copied().collect(),
            None => vec![true; rows],
        };
        if decides.len() != rows {
            return Err(PyValueError::new_err(format!("valid has {} entries for {rows} rows", decides.len())));
        }
        let head = &player.policy.spec.head;
        let numbers = rows * head.width();
        let discrete = !head.sets().is_empty();
        let mut choices = vec![0; if discrete { numbers } else { 0 }];
        let mut amounts = vec![0.0; if discrete { 0 } else { numbers }];
        let (mut log_prob, mut value) = (vec![0.0; rows], vec![0.0; rows]);
        let mut work = ActWork::new(&player.policy, spec.masked);
        let ids: Vec<u32> = (0..rows as u32).collect();
        let stream = Stream::new(seed, self.learner.setup.attempt, Purpose::Eval);
        let draw = if deterministic { Draw::Mode } else { Draw::Sample { stream, first_row, step } };
        self.learner.isa.run(Act {
            player,
            work: &mut work,
            seen: Seen { row_bytes: bytes.len() / rows.max(1), obs: &bytes, mask: &allowed, mask_len },
            rows: &ids,
            draw,
            remembered: Remembered { numbers: remembered, decides: &decides },
            decided: Decided {
                choices: &mut choices,
                amounts: &mut amounts,
                log_prob: &mut log_prob,
                value: &mut value,
            },
        });
        Ok((
            drawn_actions(py, &spec.action, &choices, &amounts)?,
            PyArray1::from_vec(py, log_prob).into_any(),
            PyArray1::from_vec(py, value).into_any(),
        ))
    }

    /// The values of any observations, with the memory of these rows of the rollout, which stays as it is.
    #[pyo3(signature = (obs, rows=None))]
    fn value_of<'py>(
        slf: &Bound<'py, Self>,
        obs: &Bound<'py, PyAny>,
        rows: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, learner) = (slf.py(), &guard::shared(slf, "learner")?.learner);
        let len = learner.policy().memory_len();
        let memory = match rows {
            Some(rows) if len > 0 => {
                if let Some(row) = rows.iter().find(|row| **row >= learner.setup.rows) {
                    let all = learner.setup.rows;
                    return Err(PyValueError::new_err(format!("row {row}: the rollout has {all} rows")));
                }
                let numbers = rows.iter().flat_map(|row| &learner.memories[0][row * len..(row + 1) * len]);
                let flat = PyArray1::from_iter(py, numbers.copied());
                Some(flat.reshape([rows.len(), len])?.to_dyn().readwrite())
            }
            _ => None,
        };
        Ok(Self::act(slf, py, obs, None, true, 0, 0, 0, memory, None)?.2)
    }

    /// The policy's weights by name.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        named(py, self.learner.policy(), &self.learner.policy().params, "")
    }

    /// Replaces the policy's weights.
    fn set_arrays(&mut self, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut params = self.learner.policy().params.clone();
        put_named(self.learner.policy(), &mut params, arrays, "")?;
        let policy = &mut self.learner.players[0].policy;
        policy.params = params;
        policy.refresh();
        Ok(())
    }

    /// Running statistics that belong to the policy.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        self.statistics_into(&dict)?;
        Ok(dict)
    }

    /// The optimiser's moments and all running statistics.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (policy, adam) = (self.learner.policy(), &self.learner.update.adam);
        let dict = named(py, policy, &adam.mean, "adam.mean.")?;
        dict.update(named(py, policy, &adam.square, "adam.square.")?.as_mapping())?;
        dict.set_item("adam.steps", PyArray1::from_slice(py, &[adam.steps]))?;
        self.statistics_into(&dict)?;
        if !self.learner.running.is_empty() {
            dict.set_item("returns.running", PyArray1::from_slice(py, &self.learner.running))?;
        }
        for (player, numbers) in self.learner.memories.iter().enumerate().filter(|(_, numbers)| !numbers.is_empty()) {
            let rows = self.learner.setup.rows;
            let shaped = PyArray1::from_slice(py, numbers).reshape([rows, numbers.len() / rows])?;
            dict.set_item(memory_name(player), shaped)?;
        }
        Ok(dict)
    }

    /// Replaces what the state names.
    fn set_state(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        if let Some(steps) = state.get_item("adam.steps")? {
            let steps: Vec<u64> = steps.extract()?;
            let policy = self.learner.policy();
            let (mut mean, mut square) =
                (self.learner.update.adam.mean.clone(), self.learner.update.adam.square.clone());
            put_named(policy, &mut mean, state, "adam.mean.")?;
            put_named(policy, &mut square, state, "adam.square.")?;
            let adam = &mut self.learner.update.adam;
            adam.mean = mean;
            adam.square = square;
            adam.steps = steps.first().copied().unwrap_or_default();
        }
        put_moments(&mut self.learner.observations, "observations", state)?;
        put_moments(&mut self.learner.returns, "returns", state)?;
        if let Some(running) = state.get_item("returns.running")? {
            let running: Vec<f64> = running.extract()?;
            if running.len() != self.learner.running.len() {
                let (found, expected) = (running.len(), self.learner.running.len());
                return Err(PyValueError::new_err(format!("returns.running has {found} rows: expected {expected}")));
            }
            self.learner.running = running;
        }
        for (player, numbers) in self.learner.memories.iter_mut().enumerate() {
            let name = memory_name(player);
            let Some(value) = state.get_item(&name)? else { continue };
            let value = value.extract::<PyReadonlyArrayDyn<'_, f32>>()?;
            if value.len() != numbers.len() {
                let (found, expected) = (value.len(), numbers.len());
                return Err(PyValueError::new_err(format!("{name:?} has {found} numbers: expected {expected}")));
            }
            numbers.iter_mut().zip(value.as_array()).for_each(|(to, from)| *to = *from);
        }
        self.learner.refresh_features();
        Ok(())
    }

    /// Frozen policies 1, 2, ... of a table of policies: description, weights and statistics of each.
    fn set_opponents(&mut self, policies: &Bound<'_, PyList>) -> PyResult<()> {
        let mut players = Vec::new();
        for entry in policies.iter() {
            let (description, arrays, statistics) =
                entry.extract::<(Bound<'_, PyDict>, Bound<'_, PyDict>, Bound<'_, PyDict>)>()?;
            let spec = policy_spec(&self.learner.spec, &description)?;
            let mut policy = Policy::new(&spec, 0, 0).map_err(PyValueError::new_err)?;
            let mut params = policy.params.clone();
            put_named(&policy, &mut params, &arrays, "")?;
            policy.params = params;
            policy.refresh();
            let mut features = Features::new(&spec.input);
            if statistics.contains("observations.count")? {
                let mut moments = Moments::new(self.learner.spec.observation.len());
                put_moments(&mut moments, "observations", &statistics)?;
                features.set_statistics(&moments);
            }
            players.push(Player { policy, features });
        }
        self.learner.set_opponents(players);
        Ok(())
    }
}
