//! Balance a pole on a cart: Gymnasium's `CartPole-v1`, vectorised.

use hotloop_core::env::{EnvType, max_steps};
use hotloop_core::math;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::SimdStream;
use hotloop_core::simd::{Floats, Simd};
use hotloop_core::simd_group::{SimdEnv, SimdGroup, SimdStep, Success, spec};
use hotloop_core::space::{Action, Observation};

const CART_MASS: f32 = 1.0;
const POLE_MASS: f32 = 0.1;
const TOTAL_MASS: f32 = CART_MASS + POLE_MASS;
const TIME_STEP: f32 = 0.02;
const TRACK_END: f32 = 2.4;
const FALLEN_ANGLE: f32 = 12.0 * std::f32::consts::PI / 180.0;

/// The registered env.
pub fn env_type() -> EnvType {
    EnvType {
        name: "cartpole",
        gymnasium_id: "CartPole-v1",
        about: "Balance a pole on a cart by pushing the cart left or right.",
        options: [
            max_steps(500),
            OptionSpec::float("gravity", 9.8, 0.0, 1000.0, "downward acceleration"),
            OptionSpec::float("force", 10.0, 0.0, 1000.0, "force of a push"),
            OptionSpec::float("length", 0.5, 0.01, 100.0, "half the pole's length"),
            OptionSpec::bool("sutton_barto_reward", false, "0 per step and -1 for falling, instead of 1 per step"),
        ]
        .into(),
        spec: |_| {
            let observation =
                Observation::symmetric(&[2.0 * TRACK_END, f32::INFINITY, 2.0 * FALLEN_ANGLE, f32::INFINITY]);
            Ok(spec(observation, Action::Discrete { n: 2 }, CartPole::SUCCESS, 5))
        },
        build: |options, count| Box::new(SimdGroup::<CartPole, 4, 5, 4>::new(options, count)),
    }
}

struct CartPole;

impl SimdEnv<4, 5, 4> for CartPole {
    const FIELDS: [&'static str; 4] = ["x", "x_dot", "theta", "theta_dot"];
    const SUCCESS: Success = Success::TimeLimit;

    fn params(options: &Options) -> [f32; 5] {
        let (alive, fallen) = if options.bool("sutton_barto_reward") { (0.0, -1.0) } else { (1.0, 1.0) };
        [options.float("gravity"), options.float("force"), options.float("length"), alive, fallen]
    }

    #[inline(always)]
    fn reset<S: Simd>(simd: S, _: &[S::F; 5], draws: SimdStream<S>) -> [S::F; 4] {
        let (low, high) = (simd.f(-0.05), simd.f(0.05));
        [
            draws.range(simd, 0, low, high),
            draws.range(simd, 1, low, high),
            draws.range(simd, 2, low, high),
            draws.range(simd, 3, low, high),
        ]
    }

    #[inline(always)]
    fn step<S: Simd>(simd: S, params: &[S::F; 5], state: [S::F; 4], action: S::F) -> SimdStep<S, 4> {
        let [gravity, push, length, alive, fallen] = *params;
        let [x, x_dot, theta, theta_dot] = state;
        let force = push.select(action.eq(simd.f(1.0)), -push);
        let (sin, cos) = math::sin_cos(simd, theta);
        let pole_mass_length = simd.f(POLE_MASS) * length;
        let per_mass = simd.f(1.0 / TOTAL_MASS);
        let push_acceleration = (pole_mass_length * theta_dot * theta_dot).fma(sin, force) * per_mass;
        let inertia = length * (simd.f(POLE_MASS) * per_mass * cos).fnma(cos, simd.f(4.0 / 3.0));
        let theta_acceleration = push_acceleration.fnma(cos, gravity * sin) / inertia;
        let x_acceleration = (pole_mass_length * per_mass * theta_acceleration).fnma(cos, push_acceleration);
        let tau = simd.f(TIME_STEP);
        let x = tau.fma(x_dot, x);
        let theta_now = tau.fma(theta_dot, theta);
        let out = simd.f(TRACK_END).lt(x.abs()) | simd.f(FALLEN_ANGLE).lt(theta_now.abs());
        SimdStep {
            state: [x, tau.fma(x_acceleration, x_dot), theta_now, tau.fma(theta_acceleration, theta_dot)],
            reward: fallen.select(out, alive),
            terminated: out,
        }
    }

    #[inline(always)]
    fn observe<S: Simd>(_: S, state: &[S::F; 4]) -> [S::F; 4] {
        *state
    }
}
