//! Drive a weak car out of a valley: Gymnasium's `MountainCar-v0`, vectorised.

use hotloop_core::env::{EnvType, max_steps};
use hotloop_core::math;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::SimdStream;
use hotloop_core::simd::{Floats, Simd};
use hotloop_core::simd_group::{SimdEnv, SimdGroup, SimdStep, Success, spec};
use hotloop_core::space::{Action, Observation};

const LEFT_END: f32 = -1.2;
const RIGHT_END: f32 = 0.6;
const TOP_SPEED: f32 = 0.07;
const GOAL: f32 = 0.5;

/// The registered env.
pub fn env_type() -> EnvType {
    EnvType {
        name: "mountain-car",
        gymnasium_id: "MountainCar-v0",
        about: "Swing a weak car out of a valley; every step until the flag costs 1.",
        options: [
            max_steps(200),
            OptionSpec::float("goal_velocity", 0.0, -0.07, 0.07, "minimum velocity at the flag"),
            OptionSpec::float("force", 0.001, 0.0, 1.0, "acceleration of the engine"),
            OptionSpec::float("gravity", 0.0025, 0.0, 1.0, "acceleration of the slope"),
        ]
        .into(),
        spec: |_| {
            let observation =
                Observation::Box { shape: vec![2], low: vec![LEFT_END, -TOP_SPEED], high: vec![RIGHT_END, TOP_SPEED] };
            Ok(spec(observation, Action::Discrete { n: 3 }, MountainCar::SUCCESS, 5))
        },
        build: |options, count| Box::new(SimdGroup::<MountainCar, 2, 3, 2>::new(options, count)),
    }
}

struct MountainCar;

impl SimdEnv<2, 3, 2> for MountainCar {
    const FIELDS: [&'static str; 2] = ["position", "velocity"];
    const SUCCESS: Success = Success::Terminated;

    fn params(options: &Options) -> [f32; 3] {
        [options.float("goal_velocity"), options.float("force"), options.float("gravity")]
    }

    #[inline(always)]
    fn reset<S: Simd>(simd: S, _: &[S::F; 3], draws: SimdStream<S>) -> [S::F; 2] {
        [draws.range(simd, 0, simd.f(-0.6), simd.f(-0.4)), simd.f(0.0)]
    }

    #[inline(always)]
    fn step<S: Simd>(simd: S, params: &[S::F; 3], state: [S::F; 2], action: S::F) -> SimdStep<S, 2> {
        let [goal_velocity, force, gravity] = *params;
        let [position, velocity] = state;
        let slope = math::cos(simd, simd.f(3.0) * position);
        let engine = (action - simd.f(1.0)).fma(force, velocity);
        let velocity = slope.fnma(gravity, engine).max(simd.f(-TOP_SPEED)).min(simd.f(TOP_SPEED));
        let position = (position + velocity).max(simd.f(LEFT_END)).min(simd.f(RIGHT_END));
        let bumped = position.eq(simd.f(LEFT_END)) & velocity.lt(simd.f(0.0));
        let velocity = simd.f(0.0).select(bumped, velocity);
        SimdStep {
            state: [position, velocity],
            reward: simd.f(-1.0),
            terminated: simd.f(GOAL).le(position) & goal_velocity.le(velocity),
        }
    }

    #[inline(always)]
    fn observe<S: Simd>(_: S, state: &[S::F; 2]) -> [S::F; 2] {
        *state
    }
}
