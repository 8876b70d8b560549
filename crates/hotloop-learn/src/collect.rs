//! Collecting a rollout from native envs: each thread takes a group through the whole horizon (see, decide, step), then
//! through its advantages, with no barrier per step.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hotloop_core::env::{Actions, Spec};
use hotloop_core::group::{Frames, Keep};
use hotloop_core::parallel::{ParallelFor, free};
use hotloop_core::pool::{Pool, Visit};
use hotloop_core::rng::Stream;
use hotloop_core::simd::{Isa, Kernel, Simd};
use hotloop_core::space::Action;

use crate::acting::{ActWork, Decided, Draw, Player, Remembered, Seen};
use crate::cancel::CancelToken;
use crate::nn::net::TILE;
use crate::ppo::advantage::Gae;
use crate::ppo::rollout::{Rollout, View, Views};

/// Room for one thread.
pub struct Scratch {
    players: Vec<ActWork>,
    rows: Vec<Vec<u32>>,
    all: Vec<u32>,
    values: Vec<f32>,
    /// How many final observations of the group at hand have been valued.
    valued: usize,
    /// Time spent in envs.
    pub env: Duration,
    /// Time spent in policies.
    pub inference: Duration,
}

impl Scratch {
    /// For these players.
    pub fn new(players: &[Player], masked: bool) -> Self {
        Self {
            players: players.iter().map(|player| ActWork::new(&player.policy, masked)).collect(),
            rows: vec![Vec::new(); players.len()],
            all: Vec::new(),
            values: Vec::new(),
            valued: 0,
            env: Duration::ZERO,
            inference: Duration::ZERO,
        }
    }
}

/// What a collection is made with.
#[derive(Clone, Copy)]
pub struct Collection<'a> {
    /// The learner first, then its frozen opponents.
    pub players: &'a [Player],
    /// What each player remembers of each row.
    pub memories: &'a [View<'a, f32>],
    /// Noise of this iteration's actions.
    pub noise: Stream,
    /// The index of row 0 among all rows of a run.
    pub first_row: u32,
    /// How advantages are made.
    pub gae: Gae,
    /// Whether to go on.
    pub patience: &'a CancelToken<'a>,
}

impl Collection<'_> {
    /// Fills the rollout. The pool resets in the same step and rests.
    pub fn run(
        &self,
        pool: &Pool,
        rollout: &mut Rollout,
        scratches: &[Mutex<Scratch>],
        isa: Isa,
        team: &mut ParallelFor,
    ) {
        let (horizon, sequence_length) = (rollout.horizon, rollout.sequence_length);
        let views = rollout.views();
        team.run(pool.groups(), &|group| {
            // There are as many scratches as threads, so one is free.
            let mut scratch = scratches.iter().find_map(free).expect("a free scratch");
            let rows = pool.group_rows(group);
            pool.visit(group, |visit| {
                let task = Group {
                    collection: self,
                    spec: pool.spec(),
                    views,
                    horizon,
                    sequence_length,
                    first: rows.start,
                    count: rows.len(),
                };
                isa.run(Carry { task, visit, scratch: &mut scratch });
            });
        });
    }
}

#[derive(Clone, Copy)]
struct Group<'a> {
    collection: &'a Collection<'a>,
    spec: &'a Spec,
    views: Views<'a>,
    horizon: usize,
    sequence_length: usize,
    first: usize,
    count: usize,
}

struct Carry<'a, 'b> {
    task: Group<'a>,
    visit: Visit<'b>,
    scratch: &'a mut Scratch,
}

impl Kernel for Carry<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { task, mut visit, scratch } = self;
        scratch.all.clear();
        scratch.all.extend(0..task.count as u32);
        visit.finals.clear();
        scratch.valued = 0;
        task.look(&mut visit);
        for step in 0..task.horizon {
            if task.collection.patience.over() {
                return;
            }
            let start = Instant::now();
            task.decide(simd, scratch, &mut visit, step);
            let decided = Instant::now();
            task.step(&mut visit, step);
            scratch.inference += decided - start;
            scratch.env += decided.elapsed();
            task.end_episodes(simd, scratch, &visit, step);
        }
        let start = Instant::now();
        task.bootstrap(simd, scratch, &visit);
        for first in (0..task.count).step_by(TILE) {
            let count = TILE.min(task.count - first);
            // SAFETY: these rows are this group's alone.
            unsafe { task.collection.gae.rows(task.views, task.horizon, task.first + first, count) };
        }
        scratch.inference += start.elapsed();
    }
}

impl Group<'_> {
    // SAFETY, throughout: the rows from `first` on are this group's alone.

    fn seen(&self, step: usize) -> Seen<'_> {
        let (obs, mask) = unsafe {
            (self.views.obs.part(step, self.first, self.count), self.views.mask.part(step, self.first, self.count))
        };
        Seen { row_bytes: obs.len() / self.count, obs, mask_len: mask.len() / self.count, mask }
    }

    /// What the rows see before the first step.
    fn look(&self, visit: &mut Visit<'_>) {
        let mut frames = unsafe {
            Frames {
                obs: self.views.obs.part(0, self.first, self.count),
                reward: &mut [],
                terminated: &mut [],
                truncated: &mut [],
                cut: &mut [],
                valid: self.views.valid.part(0, self.first, self.count),
                mask: self.views.mask.part(0, self.first, self.count),
                policy: self.views.policy.part(0, self.first, self.count),
                infos: &mut [],
                finals: visit.finals,
                keep: Keep::Truncated,
                slot: 0,
            }
        };
        visit.group.observe(visit.group_state, visit.rules, &mut frames);
    }

    #[inline(always)]
    fn decide<S: Simd>(&self, simd: S, scratch: &mut Scratch, visit: &mut Visit<'_>, step: usize) {
        let (choices, amounts, log_prob, value) = unsafe {
            (
                self.views.choices.part(step, self.first, self.count),
                self.views.amounts.part(step, self.first, self.count),
                self.views.log_prob.part(step, self.first, self.count),
                self.views.value.part(step, self.first, self.count),
            )
        };
        let players = self.collection.players;
        let decides = unsafe { self.views.valid.part(step, self.first, self.count) };
        let memory = |player: usize| Remembered { numbers: self.memory(player), decides };
        if step.is_multiple_of(self.sequence_length) {
            let begun = unsafe { self.views.memory.part(step / self.sequence_length, self.first, self.count) };
            begun.copy_from_slice(self.memory(0));
        }
        let draw = Draw::Sample {
            stream: self.collection.noise,
            first_row: self.collection.first_row.wrapping_add(self.first as u32),
            step: step as u32,
        };
        let mut decided = Decided { choices, amounts, log_prob, value };
        if let [player] = players {
            let work = &mut scratch.players[0];
            let rows = &scratch.all[..self.count];
            player.act(simd, work, self.seen(step), rows, draw, &mut memory(0), &mut decided);
        } else {
            let policy = unsafe { self.views.policy.part(step, self.first, self.count) };
            scratch.rows.iter_mut().for_each(Vec::clear);
            for (row, index) in policy.iter().enumerate() {
                // A table may name more policies than there are; the learner plays those seats.
                let index = if (*index as usize) < players.len() { *index as usize } else { 0 };
                scratch.rows[index].push(row as u32);
            }
            let seats = players.iter().zip(&mut scratch.players).zip(&scratch.rows);
            for (index, ((player, work), rows)) in seats.enumerate() {
                player.act(simd, work, self.seen(step), rows, draw, &mut memory(index), &mut decided);
            }
        }
        visit.ints[..decided.choices.len()].copy_from_slice(decided.choices);
        if let Action::Continuous { low, high } = &self.spec.action {
            for (i, (to, from)) in visit.floats.iter_mut().zip(decided.amounts.iter()).enumerate() {
                let dim = i % low.len();
                *to = if from.is_finite() { from.clamp(low[dim], high[dim]) } else { low[dim] };
            }
        }
    }

    fn step(&self, visit: &mut Visit<'_>, step: usize) {
        let (next, first, count) = (step + 1, self.first, self.count);
        let mut frames = unsafe {
            Frames {
                obs: self.views.obs.part(next, first, count),
                reward: self.views.reward.part(step, first, count),
                terminated: self.views.terminated.part(step, first, count),
                truncated: self.views.truncated.part(step, first, count),
                cut: self.views.cut.part(step, first, count),
                valid: self.views.valid.part(next, first, count),
                mask: self.views.mask.part(next, first, count),
                policy: self.views.policy.part(next, first, count),
                infos: &mut [],
                finals: visit.finals,
                keep: Keep::Truncated,
                slot: step as u32,
            }
        };
        visit.group_state.tick += 1;
        let actions = Actions { ints: visit.ints, floats: visit.floats, width: self.spec.action.width() };
        visit.group.step(visit.group_state, visit.rules, &actions, &mut frames);
    }

    /// What a player remembers of these rows; nothing if it has no memory.
    #[allow(clippy::mut_from_ref)] // the rows are this group's alone
    fn memory(&self, player: usize) -> &mut [f32] {
        unsafe { self.collection.memories[player].part(0, self.first, self.count) }
    }

    /// Where an episode ended nothing is remembered, once what truncated rows saw last has been valued with it.
    #[inline(always)]
    fn end_episodes<S: Simd>(&self, simd: S, scratch: &mut Scratch, visit: &Visit<'_>, step: usize) {
        let players = self.collection.players;
        if players.iter().all(|player| player.policy.spec.memory.is_none()) {
            return;
        }
        if players[0].policy.spec.memory.is_some() {
            self.value_finals(simd, scratch, visit, scratch.valued);
            scratch.valued = visit.finals.rows.len();
        }
        let (terminated, truncated) = unsafe {
            (
                self.views.terminated.part(step, self.first, self.count),
                self.views.truncated.part(step, self.first, self.count),
            )
        };
        for player in 0..players.len() {
            let numbers = self.memory(player);
            let len = numbers.len() / self.count;
            for row in (0..self.count).filter(|row| terminated[*row] || truncated[*row]) {
                numbers[row * len..(row + 1) * len].fill(0.0);
            }
        }
    }

    /// The values of what comes after the last step, and of what truncated rows saw last.
    #[inline(always)]
    fn bootstrap<S: Simd>(&self, simd: S, scratch: &mut Scratch, visit: &Visit<'_>) {
        let learner = &self.collection.players[0];
        let work = &mut scratch.players[0];
        let last = unsafe { self.views.value.part(self.horizon, self.first, self.count) };
        let rows = &scratch.all[..self.count];
        learner.values(simd, work, self.seen(self.horizon), rows, (self.memory(0), rows), last);
        self.value_finals(simd, scratch, visit, scratch.valued);
    }

    /// The values of what truncated rows saw last, from number `first` on.
    #[inline(always)]
    fn value_finals<S: Simd>(&self, simd: S, scratch: &mut Scratch, visit: &Visit<'_>, first: usize) {
        let finals = &*visit.finals;
        let count = finals.rows.len();
        if count == first {
            return;
        }
        scratch.all.extend(scratch.all.len() as u32..count as u32);
        scratch.values.resize(count, 0.0);
        let seen = Seen { obs: &finals.obs, row_bytes: finals.obs.len() / count, mask: &[], mask_len: 0 };
        let (learner, work) = (&self.collection.players[0], &mut scratch.players[0]);
        let (rows, values) = (&scratch.all[first..count], &mut scratch.values[first..]);
        learner.values(simd, work, seen, rows, (self.memory(0), &finals.rows[first..]), values);
        let places = finals.slots.iter().zip(&finals.rows).zip(&scratch.values).skip(first);
        for ((slot, row), value) in places {
            unsafe { self.views.bootstrap.part(*slot as usize, self.first + *row as usize, 1)[0] = *value };
        }
    }
}
