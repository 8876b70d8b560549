//! In steady state neither updates nor acting allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotloop_core::group::Autoreset;
use hotloop_core::pool::{Pool, Setup};
use hotloop_learn::cancel::CancelToken;
use hotloop_learn::learner::{IterationSettings, PpoLearner, PpoSetup};
use hotloop_learn::nn::activation::Activation;
use hotloop_learn::nn::spec::{Cell, EncoderSpec, Head, PolicySpec, RecurrentSpec};
use hotloop_learn::ppo::config::Settings;

struct Counting;
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn learner(recurrent: Option<RecurrentSpec>) -> PpoLearner {
    let env = hotloop_envs::all().into_iter().find(|env| env.name == "tictactoe").expect("a native env");
    let setup = Setup {
        num_envs: 8,
        num_threads: Some(1),
        num_groups: None,
        options: vec![],
        first_env: 0,
        autoreset: Autoreset::SameStep,
        pin_threads: false,
        action_repeat: 1,
        infos: vec![],
    };
    let spec = Pool::new(Arc::new(env.into()), &setup).unwrap().spec().clone();
    let policy = PolicySpec {
        encoder: EncoderSpec::for_observation(&spec.observation, 0),
        hidden: vec![64, 64],
        activation: Activation::Tanh,
        shared: true,
        recurrent,
        head: Head { sets: vec![9], dims: 0, log_std: 0.0 },
    };
    let setup = PpoSetup {
        rows: 128,
        horizon: 64,
        sequence_length: 64,
        seed: 0,
        attempt: 0,
        threads: 2,
        first_row: 0,
        normalize_observations: false,
        normalize_rewards: false,
    };
    PpoLearner::new(&spec, &policy, setup).unwrap()
}

// One test, since all threads count into the same number.
#[test]
fn updates_and_acting_allocate_nothing_in_steady_state() {
    let mut learner = learner(None);
    let ppo = Settings { epochs: 2, minibatch_size: 3000, ..Settings::default() };
    let settings = IterationSettings { ppo, reward_scale: 1.0, reward_clip: f32::INFINITY };
    let cancel = CancelToken::never();
    let mut before = 0;
    for iteration in 0..8 {
        if iteration == 3 {
            before = COUNT.load(Ordering::Relaxed);
        }
        learner.update(&settings, iteration, &cancel);
    }
    assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0);
    act_in_batches(self::learner(Some(RecurrentSpec { cell: Cell::Gru, size: 20, layers: 1 })));
}

/// Collects rollouts whose envs are stepped elsewhere, a few groups at a time; some rows are truncated on the way.
fn act_in_batches(mut learner: PpoLearner) {
    let opponent = learner.collector.policies[0].clone();
    learner.collector.set_opponents(vec![opponent]);
    let collector = &mut learner.collector;
    let (rows, obs_bytes) = (collector.rollout.rows, collector.rollout.obs_bytes);
    collector.rollout.policy.iter_mut().enumerate().for_each(|(i, policy)| *policy = (i % 2) as i32);
    let batches: Vec<Vec<i64>> =
        (0..4).map(|batch| (0..rows as i64).filter(|row| row % 4 == batch).collect()).collect();
    let slots: Vec<Vec<i64>> = (0..64).map(|slot| vec![slot; rows / 4]).collect();
    let final_obs = vec![0; rows / 4 * obs_bytes];
    let mut before = 0;
    for iteration in 0..6 {
        if iteration == 2 {
            before = COUNT.load(Ordering::Relaxed);
        }
        collector.begin();
        for (slot, slots) in slots.iter().enumerate() {
            for rows_of_batch in &batches {
                collector.act(slots, rows_of_batch, iteration).unwrap();
                let ended = slot % 16 == 15;
                for row in rows_of_batch {
                    collector.rollout.truncated[slot * rows + *row as usize] = ended;
                }
                collector.end_episodes(slots, rows_of_batch, if ended { &final_obs } else { &[] }).unwrap();
            }
        }
        collector.bootstrap();
    }
    assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0);
}
