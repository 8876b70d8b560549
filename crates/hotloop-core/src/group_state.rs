//! The bookkeeping every env needs, kept beside the envs and not in them: random streams, episode and step counters,
//! running returns, pending options and policies, faults. Arrays are padded to whole blocks for vectorised envs.

use std::sync::Arc;

use crate::codec::{Reader, Writer};
use crate::env::{MAX_STEPS, Rng, Spec};
use crate::episodes::{Episodes, Finished};
use crate::error::{Result, input};
use crate::options::Options;
use crate::rng::{Purpose, Stream};
use crate::simd::BLOCK;

/// Number of faults kept in detail between two reports.
const FAULTS_KEPT: usize = 64;

/// An env whose output could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The env, counted within the group.
    pub env: usize,
    /// Index of the env's episode.
    pub episode: u32,
    /// At which step of the episode.
    pub step: u32,
    /// The cause.
    pub what: String,
}

/// Bookkeeping of one group.
pub struct GroupState {
    /// Number of envs.
    pub envs: usize,
    /// Rows per env.
    pub seats: usize,
    /// The runner-wide index of the first env.
    pub first_env: usize,
    /// Reward terms per row.
    pub terms: usize,
    /// Metrics per row.
    pub metrics: usize,
    /// Each env's stream, low words.
    pub stream_lo: Vec<u32>,
    /// Each env's stream, high words.
    pub stream_hi: Vec<u32>,
    /// Index of each env's episode; wraps to 0 when the first one starts.
    pub episode: Vec<u32>,
    /// Steps since the episode began.
    pub elapsed: Vec<u32>,
    /// Steps until truncation.
    pub max_steps: Vec<u32>,
    /// The same for all envs, if it is equal: saves cache space.
    pub common_max_steps: Option<u32>,
    /// 1 when the env waits for a reset.
    pub over: Vec<u32>,
    /// Each row's return so far.
    pub returns: Vec<f32>,
    /// Each row's sum of each reward term so far. Not kept while `one_sum` holds.
    pub term_sums: Vec<f32>,
    /// Whether each return so far is the sum of the one term there is: true in envs that make use of it until weights
    /// are set.
    pub one_sum: bool,
    /// Each row's decisions so far.
    pub decisions: Vec<u32>,
    /// Whether the row took part in this episode.
    pub played: Vec<bool>,
    /// Whether the row's part in this episode has ended.
    pub ended: Vec<bool>,
    /// Whether the row decides now.
    pub valid: Vec<bool>,
    /// Action mask of each row.
    pub mask: Vec<bool>,
    /// Policy of each row.
    pub policy: Vec<i32>,
    /// Steps the group has made.
    pub tick: u64,
    /// Finished episodes.
    pub episodes: Episodes,
    /// The first few faults since the last report.
    pub faults: Vec<Fault>,
    /// Number of faults since the last report.
    pub fault_count: u64,
    options: Vec<Arc<Options>>,
    pending_options: Vec<Option<Arc<Options>>>,
    pending_policy: Vec<i32>,
    pending: bool,
}

impl GroupState {
    /// For `envs` envs that start at `first_env` of a runner with `all_envs`.
    pub fn new(spec: &Spec, options: &Arc<Options>, envs: usize, first_env: usize, all_envs: usize) -> Self {
        let padded = envs.next_multiple_of(BLOCK);
        let rows = padded * spec.seats;
        let (terms, metrics) = (spec.terms.len(), spec.metrics.len());
        Self {
            envs,
            seats: spec.seats,
            first_env,
            terms,
            metrics,
            stream_lo: vec![0; padded],
            stream_hi: vec![0; padded],
            episode: vec![u32::MAX; padded],
            elapsed: vec![0; padded],
            max_steps: vec![limit(options); padded],
            common_max_steps: Some(limit(options)),
            over: vec![1; padded],
            returns: vec![0.0; rows],
            term_sums: vec![0.0; rows * terms],
            one_sum: false,
            decisions: vec![0; rows],
            played: vec![false; rows],
            ended: vec![false; rows],
            valid: vec![false; rows],
            mask: vec![true; rows * if spec.masked { spec.action.mask_len() } else { 0 }],
            policy: vec![0; rows],
            tick: 0,
            episodes: Episodes::new(envs * spec.seats, all_envs * spec.seats, terms + metrics),
            faults: Vec::with_capacity(FAULTS_KEPT),
            fault_count: 0,
            options: vec![options.clone(); envs],
            pending_options: vec![None; envs],
            pending_policy: vec![0; rows],
            pending: false,
        }
    }

    fn set_limit(&mut self, env: usize, steps: u32) {
        self.max_steps[env] = steps;
        self.common_max_steps = self.common_max_steps.filter(|common| *common == steps);
    }

    /// Restarts an env's random stream and its count of episodes.
    pub fn seed(&mut self, env: usize, seed: u64, attempt: u32, index: u32) {
        let stream = Stream::new(seed, attempt, Purpose::Env).fold(index);
        self.stream_lo[env] = stream.lo;
        self.stream_hi[env] = stream.hi;
        self.episode[env] = u32::MAX;
    }

    /// The random numbers of an env at its next step.
    pub fn rng(&self, env: usize, step: u32) -> Rng {
        let stream = Stream { lo: self.stream_lo[env], hi: self.stream_hi[env] };
        Rng { env: stream, episode: self.episode[env], step }
    }

    /// An env's options, those that wait for its next reset included.
    pub fn latest_options(&self, env: usize) -> &Arc<Options> {
        self.pending_options[env].as_ref().unwrap_or(&self.options[env])
    }

    /// Options for an env's next reset.
    pub fn set_options(&mut self, env: usize, options: Arc<Options>) {
        self.pending = true;
        self.pending_options[env] = Some(options);
    }

    /// Policies for the seats of an env from its next reset on.
    pub fn set_policies(&mut self, env: usize, policies: &[i32]) {
        self.pending = true;
        self.pending_policy[env * self.seats..(env + 1) * self.seats].copy_from_slice(policies);
    }

    /// Whether options or policies wait for a reset.
    pub fn has_pending(&self) -> bool {
        self.pending
    }

    /// Applies pending options and policies at this env's reset; returns the options if they changed.
    pub fn latch(&mut self, env: usize) -> Option<Arc<Options>> {
        let rows = env * self.seats..(env + 1) * self.seats;
        self.policy[rows.clone()].copy_from_slice(&self.pending_policy[rows]);
        let options = self.pending_options[env].take()?;
        self.set_limit(env, limit(&options));
        self.options[env] = options.clone();
        Some(options)
    }

    /// Sums returns and terms separately from now on: their weights may differ.
    pub fn sum_apart(&mut self) {
        if self.one_sum {
            self.one_sum = false;
            self.term_sums.copy_from_slice(&self.returns);
        }
    }

    /// Counts a finished episode of one row, unless a frozen policy played it.
    pub fn log(&mut self, env: usize, seat: usize, length: u32, metrics: &[f32]) {
        let row = env * self.seats + seat;
        if self.policy[row] != 0 {
            return;
        }
        let finished = Finished { row, tick: self.tick, episode: self.episode[env], length, total: self.returns[row] };
        let terms = self.terms;
        let sums = if self.one_sum { &self.returns[row..] } else { &self.term_sums[row * terms..] };
        self.episodes.log(&finished, |i| if i < terms { sums[i] } else { metrics[i - terms] });
    }

    /// Counts a fault.
    pub fn fault(&mut self, env: usize, what: impl FnOnce() -> String) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_KEPT {
            let (episode, step) = (self.episode[env], self.elapsed[env]);
            self.faults.push(Fault { env, episode, step, what: what() });
        }
    }

    /// Writes the bookkeeping of one env; options as indices into `table`, which grows as needed.
    pub fn save(&self, env: usize, writer: &mut Writer, table: &mut Vec<Arc<Options>>) {
        let mut index = |options: &Arc<Options>| {
            table.iter().position(|known| Arc::ptr_eq(known, options) || known == options).unwrap_or_else(|| {
                table.push(options.clone());
                table.len() - 1
            }) as u32
        };
        let current = index(&self.options[env]);
        let pending = self.pending_options[env].as_ref().map_or(u32::MAX, index);
        for x in [
            self.stream_lo[env],
            self.stream_hi[env],
            self.episode[env],
            self.elapsed[env],
            self.over[env],
            current,
            pending,
        ] {
            writer.u32(x);
        }
        writer.u64(self.tick);
        for row in env * self.seats..(env + 1) * self.seats {
            writer.f32(self.returns[row]);
            let sums = if self.one_sum { &self.returns[row..] } else { &self.term_sums[row * self.terms..] };
            sums[..self.terms].iter().for_each(|sum| writer.f32(*sum));
            writer.u32(self.decisions[row]);
            writer.u8(u8::from(self.played[row]) | u8::from(self.ended[row]) << 1);
            writer.u32(self.policy[row] as u32);
            writer.u32(self.pending_policy[row] as u32);
        }
    }

    /// Reads the bookkeeping of one env; returns the options its state was saved under.
    pub fn load(&mut self, env: usize, reader: &mut Reader, table: &[Arc<Options>]) -> Result<Arc<Options>> {
        self.sum_apart();
        self.stream_lo[env] = reader.u32()?;
        self.stream_hi[env] = reader.u32()?;
        self.episode[env] = reader.u32()?;
        self.elapsed[env] = reader.u32()?;
        self.over[env] = reader.u32()? & 1;
        let (current, pending) = (reader.u32()?, reader.u32()?);
        let find = |index: u32| match table.get(index as usize) {
            Some(options) => Ok(options.clone()),
            None => input("damaged snapshot: it refers to options that it does not hold"),
        };
        let options = find(current)?;
        self.options[env] = options.clone();
        self.set_limit(env, limit(&options));
        self.pending_options[env] = if pending == u32::MAX { None } else { Some(find(pending)?) };
        self.tick = reader.u64()?;
        for row in env * self.seats..(env + 1) * self.seats {
            self.returns[row] = reader.f32()?;
            for i in row * self.terms..(row + 1) * self.terms {
                self.term_sums[i] = reader.f32()?;
            }
            self.decisions[row] = reader.u32()?;
            let flags = reader.u8()?;
            self.played[row] = flags & 1 != 0;
            self.ended[row] = flags & 2 != 0;
            // The group corrects it when it next observes the env.
            self.valid[row] = true;
            self.policy[row] = reader.u32()? as i32;
            self.pending_policy[row] = reader.u32()? as i32;
        }
        self.pending = true;
        Ok(options)
    }
}

fn limit(options: &Options) -> u32 {
    match options.int(MAX_STEPS) {
        0 => i32::MAX as u32,
        steps => steps as u32,
    }
}
