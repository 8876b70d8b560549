//! In steady state an update allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotloop_core::group::Autoreset;
use hotloop_core::pool::{Pool, Setup};
use hotloop_learn::cancel::CancelToken;
use hotloop_learn::learner::{IterationSettings, PpoLearner, PpoSetup, input_for};
use hotloop_learn::nn::activation::Activation;
use hotloop_learn::nn::spec::{Head, PolicySpec};
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

#[test]
fn an_update_allocates_nothing_once_it_was_made() {
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
        input: input_for(&spec.observation, 0),
        hidden: vec![64, 64],
        activation: Activation::Tanh,
        shared: true,
        memory: None,
        head: Head::Categorical { n: 9 },
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
    let mut learner = PpoLearner::new(&spec, &policy, setup).unwrap();
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
}
