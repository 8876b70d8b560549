//! Training gives the same weights whatever the vector width and the number of threads: for every kind of observation,
//! head and activation, with normalisation, masks and several agents.

use std::sync::Arc;

use hotloop_core::env::Spec;
use hotloop_core::group::Autoreset;
use hotloop_core::options::Value;
use hotloop_core::pool::{FramePointers, Pool, Seeds, Setup};
use hotloop_core::simd::Isa;
use hotloop_core::space::{Action, Observation};
use hotloop_learn::cancel::CancelToken;
use hotloop_learn::learner::{IterationSettings, PpoLearner, PpoSetup};
use hotloop_learn::nn::activation::Activation;
use hotloop_learn::nn::spec::{Cell, EncoderSpec, Head, PolicySpec, RecurrentSpec};
use hotloop_learn::ppo::config::Settings;

struct Case {
    env: &'static str,
    options: Vec<(String, Value)>,
    hidden: Vec<usize>,
    activation: Activation,
    shared: bool,
    embedding: usize,
    recurrent: Option<RecurrentSpec>,
}

fn cases() -> Vec<Case> {
    let case = |env, hidden: &[usize], activation, shared| Case {
        env,
        options: vec![],
        hidden: hidden.to_vec(),
        activation,
        shared,
        embedding: 0,
        recurrent: None,
    };
    let recurrent = |cell, size, layers| Some(RecurrentSpec { cell, size, layers });
    let option = |name: &str, value| vec![(name.to_string(), value)];
    vec![
        case("cartpole", &[64, 64], Activation::Tanh, true),
        case("pendulum", &[40, 24], Activation::Silu, false),
        Case { options: option("masked", Value::Bool(true)), ..case("taxi", &[33], Activation::Tanh, true) },
        Case { embedding: 5, ..case("frozen-lake", &[7, 9], Activation::Relu, false) },
        Case {
            options: option("observation", Value::Text("grid".into())),
            ..case("tag", &[48, 20], Activation::Gelu, true)
        },
        Case { options: option("symbols", Value::Int(3)), ..case("recall", &[20], Activation::Relu, true) },
        Case { recurrent: recurrent(Cell::Lstm, 21, 2), ..case("pendulum", &[33], Activation::Tanh, true) },
        Case {
            options: option("seats", Value::Int(3)),
            recurrent: recurrent(Cell::Gru, 70, 1),
            ..case("tag", &[24], Activation::Gelu, false)
        },
        Case { recurrent: recurrent(Cell::Gru, 7, 3), embedding: 5, ..case("taxi", &[9], Activation::Silu, true) },
    ]
}

fn train(case: &Case, isa: Isa, threads: usize) -> Vec<u32> {
    const ENVS: usize = 70;
    let env = hotloop_envs::all().into_iter().find(|env| env.name == case.env).expect("a native env");
    let setup = Setup {
        num_envs: ENVS,
        num_threads: Some(1),
        num_groups: Some(3),
        options: case.options.clone(),
        first_env: 0,
        autoreset: Autoreset::SameStep,
        pin_threads: false,
        action_repeat: 1,
        infos: vec![],
    };
    let mut pool = Pool::new(Arc::new(env.into()), &setup).unwrap();
    let spec = pool.spec().clone();
    pool.seed(&Seeds::One(3), 0).unwrap();
    let mut obs = vec![0_u64; pool.rows() * spec.observation.row_bytes().div_ceil(8)];
    let none: *mut u8 = std::ptr::null_mut();
    let frames = FramePointers {
        obs: obs.as_mut_ptr().cast(),
        reward: none.cast(),
        terminated: none.cast(),
        truncated: none.cast(),
        cut: none.cast(),
        valid: none.cast(),
        mask: none.cast(),
        policy: none.cast(),
        infos: none.cast(),
    };
    // SAFETY: there is room for every observation, and nothing else is wanted.
    unsafe { pool.reset(None, frames).unwrap() };
    let policy = PolicySpec {
        encoder: EncoderSpec::for_observation(&spec.observation, case.embedding),
        hidden: case.hidden.clone(),
        activation: case.activation,
        shared: case.shared,
        recurrent: case.recurrent,
        head: Head::new(&spec.action, -0.5),
    };
    let setup = PpoSetup {
        rows: pool.rows(),
        horizon: 12,
        sequence_length: if case.recurrent.is_some() { 6 } else { 12 },
        seed: 3,
        attempt: 0,
        threads,
        first_row: 0,
        normalize_observations: true,
        normalize_rewards: true,
    };
    let mut learner = PpoLearner::new(&spec, &policy, setup).unwrap();
    learner.collector.isa = isa;
    let ppo = Settings {
        epochs: 2,
        minibatch_size: 300,
        entropy: 0.01,
        value_clip: Some(0.2),
        target_kl: Some(0.05),
        ..Settings::default()
    };
    let settings = IterationSettings { ppo, reward_scale: 0.5, reward_clip: 10.0 };
    for iteration in 0..8 {
        let report = learner.iterate(&pool, &settings, iteration, &CancelToken::never()).unwrap();
        assert_eq!(report.update.dropped, 0);
    }
    learner.policy().params.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn width_and_threads_never_show() {
    for case in cases() {
        let expected = train(&case, Isa::Scalar, 1);
        assert!(expected.iter().all(|bits| f32::from_bits(*bits).is_finite()), "{}", case.env);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            for threads in [1, 2, 5] {
                assert!(train(&case, isa, threads) == expected, "{} differs with {isa}, {threads} threads", case.env);
            }
        }
    }
}

/// Trains on hybrid actions, which no native env has: observations and rewards are computed here.
fn train_hybrid(isa: Isa, threads: usize) -> Vec<u32> {
    const ROWS: usize = 70;
    const HORIZON: usize = 12;
    let spec = Spec {
        seats: 1,
        observation: Observation::uniform(3, -1.0, 1.0),
        action: Action::Hybrid { n: vec![3, 2], low: vec![-1.0; 3], high: vec![1.0; 3] },
        masked: true,
        masks_bind: true,
        terms: vec!["reward"],
        metrics: vec![],
        infos: vec![],
        step_nanoseconds: 1000,
        state_version: 0,
    };
    let policy = PolicySpec {
        encoder: EncoderSpec::for_observation(&spec.observation, 0),
        hidden: vec![33, 20],
        activation: Activation::Tanh,
        shared: true,
        recurrent: None,
        head: Head::new(&spec.action, -0.5),
    };
    let setup = PpoSetup {
        rows: ROWS,
        horizon: HORIZON,
        sequence_length: HORIZON,
        seed: 3,
        attempt: 0,
        threads,
        first_row: 0,
        normalize_observations: true,
        normalize_rewards: true,
    };
    let mut learner = PpoLearner::new(&spec, &policy, setup).unwrap();
    learner.collector.isa = isa;
    let ppo = Settings { epochs: 2, minibatch_size: 300, entropy: 0.01, ..Settings::default() };
    let settings = IterationSettings { ppo, reward_scale: 1.0, reward_clip: 10.0 };
    let rows: Vec<i64> = (0..ROWS as i64).collect();
    for iteration in 0..8 {
        let collector = &mut learner.collector;
        collector.begin();
        for slot in 0..HORIZON {
            for row in 0..ROWS {
                let at = slot * ROWS + row;
                let seed = (iteration as usize * HORIZON * ROWS + at) as f32;
                for i in 0..3 {
                    let x = (seed * 0.37 + i as f32 * 0.61).fract() - 0.5;
                    collector.rollout.obs[at * 12 + i * 4..][..4].copy_from_slice(&x.to_ne_bytes());
                }
                collector.rollout.mask[at * 5 + row % 3] = false;
            }
            collector.act(&[slot as i64; ROWS], &rows, iteration).unwrap();
            let (choices, numbers) = collector.actions();
            let rewards =
                choices.chunks_exact(2).zip(numbers.chunks_exact(3)).enumerate().map(|(row, (own, numbers))| {
                    assert_ne!(own[0] as usize, row % 3, "a masked choice");
                    own[1] as f32 - numbers.iter().map(|x| x * x).sum::<f32>()
                });
            let rewards: Vec<f32> = rewards.collect();
            collector.rollout.reward[slot * ROWS..][..ROWS].copy_from_slice(&rewards);
        }
        collector.bootstrap();
        learner.advantages(&settings);
        assert_eq!(learner.update(&settings, iteration, &CancelToken::never()).dropped, 0);
    }
    learner.policy().params.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn width_and_threads_never_show_with_hybrid_actions() {
    let expected = train_hybrid(Isa::Scalar, 1);
    assert!(expected.iter().all(|bits| f32::from_bits(*bits).is_finite()));
    for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
        for threads in [1, 2, 5] {
            assert!(train_hybrid(isa, threads) == expected, "hybrid actions differ with {isa}, {threads} threads");
        }
    }
}
