//! A pool with arrays to look at, for tests that play by hand.

use std::sync::Arc;

use hotloop_core::env::EnvType;
use hotloop_core::error::Result;
use hotloop_core::fields::{FieldKind, FieldSpec};
use hotloop_core::group::Autoreset;
use hotloop_core::options::{Options, Value};
use hotloop_core::pool::{FramePointers, Pool, Seeds, Setup};
use hotloop_core::space::Observation;

/// Shorthand for a list of options.
pub fn options(list: &[(&str, Value)]) -> Vec<(String, Value)> {
    list.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect()
}

/// A text option's value.
pub fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// An env by name.
pub fn env_type(name: &str) -> EnvType {
    hotloop_envs::all().into_iter().find(|env| env.name == name).expect("a known env")
}

/// An env's options with some changed.
pub fn checked(name: &str, list: &[(&str, Value)]) -> Options {
    Options::defaults(env_type(name).options).with(name, &options(list)).expect("good options")
}

/// Why an env refuses these options.
pub fn refusal(name: &str, list: &[(&str, Value)]) -> String {
    (env_type(name).spec)(&checked(name, list)).expect_err("options that do not go together")
}

pub struct Play {
    pub pool: Pool,
    pub reward: Vec<f32>,
    pub terminated: Vec<bool>,
    pub truncated: Vec<bool>,
    pub valid: Vec<bool>,
    pub mask: Vec<bool>,
    pub infos: Vec<f32>,
    obs: Vec<u64>,
}

impl Play {
    /// Envs on one thread, reset with seed 0; a finished one starts again at the step after.
    pub fn new(name: &str, list: &[(&str, Value)], num_envs: usize) -> Self {
        Self::with(name, list, num_envs, Autoreset::NextStep)
    }

    /// The same in another autoreset mode.
    pub fn with(name: &str, list: &[(&str, Value)], num_envs: usize, autoreset: Autoreset) -> Self {
        let env = env_type(name);
        let spec = (env.spec)(&checked(name, list)).expect("good options");
        let setup = Setup {
            num_envs,
            num_threads: Some(1),
            num_groups: None,
            options: options(list),
            first_env: 0,
            autoreset,
            pin_threads: false,
            action_repeat: 1,
            infos: spec.infos.iter().map(|(name, _)| (*name).to_string()).collect(),
        };
        let pool = Pool::new(Arc::new(env.into()), &setup).expect("a pool");
        let rows = pool.rows();
        let mut play = Self {
            reward: vec![0.0; rows],
            terminated: vec![false; rows],
            truncated: vec![false; rows],
            valid: vec![false; rows],
            mask: vec![false; if spec.masked { rows * spec.action.mask_len() } else { 0 }],
            infos: vec![0.0; rows * spec.infos.iter().map(|(_, len)| len).sum::<usize>()],
            obs: vec![0; (rows * spec.observation.row_bytes()).div_ceil(8)],
            pool,
        };
        play.seed(0);
        play
    }

    fn frames(&mut self) -> FramePointers {
        FramePointers {
            obs: self.obs.as_mut_ptr().cast(),
            reward: self.reward.as_mut_ptr(),
            terminated: self.terminated.as_mut_ptr(),
            truncated: self.truncated.as_mut_ptr(),
            cut: std::ptr::null_mut(),
            valid: self.valid.as_mut_ptr(),
            mask: if self.mask.is_empty() { std::ptr::null_mut() } else { self.mask.as_mut_ptr() },
            policy: std::ptr::null_mut(),
            infos: if self.infos.is_empty() { std::ptr::null_mut() } else { self.infos.as_mut_ptr() },
        }
    }

    /// Resets all envs with this seed.
    pub fn seed(&mut self, seed: u64) {
        self.pool.seed(&Seeds::One(seed), 0).expect("an idle pool");
        self.reset();
    }

    /// Resets all envs.
    pub fn reset(&mut self) {
        let frames = self.frames();
        // SAFETY: every array has room for all rows.
        unsafe { self.pool.reset(None, frames) }.expect("a reset");
    }

    /// Steps all envs, or says why the actions are refused.
    pub fn try_step(&mut self, actions: &[i32]) -> Result<()> {
        self.pool.set_discrete_actions(0..self.pool.groups(), actions)?;
        let frames = self.frames();
        // SAFETY: every array has room for all rows.
        unsafe { self.pool.step(frames) }
    }

    /// Steps all envs.
    pub fn step(&mut self, actions: &[i32]) {
        self.try_step(actions).expect("a step");
    }

    fn field(&self, name: &str) -> FieldSpec {
        self.pool.fields().into_iter().find(|field| field.name == name).expect("a known field")
    }

    /// A field of all envs.
    pub fn get(&mut self, name: &str) -> Vec<i32> {
        let field = self.field(name);
        let bytes = self.pool.get_field(&field).expect("a field");
        match field.kind {
            FieldKind::U8 => bytes.into_iter().map(i32::from).collect(),
            _ => bytes.chunks_exact(4).map(|x| i32::from_ne_bytes(x.try_into().expect("four bytes"))).collect(),
        }
    }

    /// Goes back to a snapshot and looks at the envs.
    pub fn restore(&mut self, snapshot: &[u8]) {
        self.pool.restore(snapshot).expect("a snapshot of this pool");
        let frames = self.frames();
        // SAFETY: every array has room for all rows.
        unsafe { self.pool.observe(frames) }.expect("a look");
    }

    /// Sets fields of all envs and looks at them, or says why that state is impossible.
    pub fn try_set(&mut self, values: &[(&str, &[i32])]) -> Result<()> {
        let bytes = |field: &FieldSpec, values: &[i32]| match field.kind {
            FieldKind::U8 => values.iter().map(|x| *x as u8).collect(),
            _ => values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>(),
        };
        let values: Vec<(FieldSpec, Vec<u8>)> = values
            .iter()
            .map(|(name, values)| {
                let field = self.field(name);
                let bytes = bytes(&field, values);
                (field, bytes)
            })
            .collect();
        let all: Vec<usize> = (0..self.pool.envs()).collect();
        self.pool.set_fields(&values, &all)?;
        let frames = self.frames();
        // SAFETY: every array has room for all rows.
        unsafe { self.pool.observe(frames) }
    }

    /// Sets fields of all envs and looks at them.
    pub fn set(&mut self, values: &[(&str, &[i32])]) {
        self.try_set(values).expect("a possible state");
    }

    /// Why that state of the envs is impossible.
    pub fn refused(&mut self, values: &[(&str, &[i32])]) -> String {
        self.try_set(values).expect_err("an impossible state").to_string()
    }

    fn row(&self, row: usize) -> &[u8] {
        let len = self.pool.spec().observation.row_bytes();
        // SAFETY: any bytes are u8s.
        &unsafe { self.obs.align_to::<u8>() }.1[row * len..(row + 1) * len]
    }

    /// Everything that rows see.
    pub fn all_seen(&self) -> &[u64] {
        &self.obs
    }

    /// The observation of a row, as numbers.
    pub fn seen(&self, row: usize) -> Vec<f32> {
        match self.pool.spec().observation {
            Observation::Box { .. } => {
                self.row(row).chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().expect("four bytes"))).collect()
            }
            _ => self.row(row).iter().map(|x| f32::from(*x)).collect(),
        }
    }

    /// The state a row sees.
    pub fn state(&self, row: usize) -> usize {
        i64::from_ne_bytes(self.row(row).try_into().expect("eight bytes")) as usize
    }

    /// Some legal action for every row, another at every step.
    pub fn any_actions(&self, step: usize) -> Vec<i32> {
        let choices = self.pool.spec().action.choices();
        let mut actions = Vec::new();
        for row in 0..self.valid.len() {
            let pick = |options: usize, i: usize| (row * 7919 + step * 104_729 + i * 31) / 13 % options;
            if self.mask.is_empty() {
                actions.extend(choices.iter().enumerate().map(|(i, n)| pick(*n, i) as i32));
            } else {
                let legal = self.legal(row);
                actions.push(legal[pick(legal.len(), 0)] as i32);
            }
        }
        actions
    }

    /// The legal actions of a row.
    pub fn legal(&self, row: usize) -> Vec<usize> {
        let len = self.mask.len() / self.valid.len();
        (0..len).filter(|choice| self.mask[row * len + choice]).collect()
    }
}
