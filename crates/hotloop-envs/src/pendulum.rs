//! Swing a pendulum up and hold it there: Gymnasium's `Pendulum-v1`, vectorised. Actions are continuous.

use hotloop_core::env::{EnvType, max_steps};
use hotloop_core::math;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::SimdStream;
use hotloop_core::simd::{Floats, Simd};
use hotloop_core::simd_group::{SimdEnv, SimdGroup, SimdStep, Success, spec};
use hotloop_core::space::{Action, Observation};
use std::f32::consts::{PI, TAU};

const TOP_SPEED: f32 = 8.0;
const TOP_TORQUE: f32 = 2.0;
const TIME_STEP: f32 = 0.05;
/// The remainder of 2 pi beyond f32.
const TAU_REST: f32 = -1.748_455_5e-7;

/// The registered env.
pub fn env_type() -> EnvType {
    EnvType {
        name: "pendulum",
        gymnasium_id: "Pendulum-v1",
        about: "Swing a pendulum up and hold it there with little torque.",
        options: [
            max_steps(200),
            OptionSpec::float("gravity", 10.0, 0.0, 1000.0, "downward acceleration"),
            OptionSpec::float("mass", 1.0, 0.01, 100.0, "mass of the pendulum"),
            OptionSpec::float("length", 1.0, 0.01, 100.0, "length of the pendulum"),
        ]
        .into(),
        spec: |_| {
            let observation = Observation::symmetric(&[1.0, 1.0, TOP_SPEED]);
            Ok(spec(
                observation,
                Action::Continuous { low: vec![-TOP_TORQUE], high: vec![TOP_TORQUE] },
                Pendulum::SUCCESS,
                5,
            ))
        },
        build: |options, count| Box::new(SimdGroup::<Pendulum, 2, 2, 3>::new(options, count)),
    }
}

struct Pendulum;

impl SimdEnv<2, 2, 3> for Pendulum {
    const FIELDS: [&'static str; 2] = ["theta", "theta_dot"];
    const SUCCESS: Success = Success::Undefined;

    fn params(options: &Options) -> [f32; 2] {
        let (gravity, mass, length) = (options.float("gravity"), options.float("mass"), options.float("length"));
        [3.0 * gravity / (2.0 * length), 3.0 / (mass * length * length)]
    }

    #[inline(always)]
    fn reset<S: Simd>(simd: S, _: &[S::F; 2], draws: SimdStream<S>) -> [S::F; 2] {
        [draws.range(simd, 0, simd.f(-PI), simd.f(PI)), draws.range(simd, 1, simd.f(-1.0), simd.f(1.0))]
    }

    #[inline(always)]
    fn step<S: Simd>(simd: S, params: &[S::F; 2], state: [S::F; 2], action: S::F) -> SimdStep<S, 2> {
        let [fall, push] = *params;
        let [theta, theta_dot] = state;
        let angle = upright_angle(simd, theta);
        let cost = (simd.f(0.001) * action).fma(action, (simd.f(0.1) * theta_dot).fma(theta_dot, angle * angle));
        let acceleration = push.fma(action, fall * math::sin(simd, theta));
        let theta_dot = simd.f(TIME_STEP).fma(acceleration, theta_dot).max(simd.f(-TOP_SPEED)).min(simd.f(TOP_SPEED));
        SimdStep {
            state: [simd.f(TIME_STEP).fma(theta_dot, theta), theta_dot],
            reward: -cost,
            terminated: simd.m(false),
        }
    }

    #[inline(always)]
    fn observe<S: Simd>(simd: S, state: &[S::F; 2]) -> [S::F; 3] {
        let (sin, cos) = math::sin_cos(simd, state[0]);
        [cos, sin, state[1]]
    }
}

/// The angle from upright, in -pi..=pi.
#[inline(always)]
fn upright_angle<S: Simd>(simd: S, theta: S::F) -> S::F {
    let turns = (theta + simd.f(PI)) * simd.f(1.0 / TAU);
    let turns = turns.floor();
    turns.fnma(simd.f(TAU_REST), turns.fnma(simd.f(TAU), theta))
}
