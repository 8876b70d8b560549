//! Swing up a two-link arm by its middle joint: Gymnasium's `Acrobot-v1` (the book's equations), vectorised.

use hotloop_core::env::{EnvType, max_steps};
use hotloop_core::math;
use hotloop_core::options::{OptionSpec, Options};
use hotloop_core::rng::SimdStream;
use hotloop_core::simd::{Floats, Simd};
use hotloop_core::simd_group::{SimdEnv, SimdGroup, SimdStep, Success, spec};
use hotloop_core::space::{Action, Observation};
use std::f32::consts::{PI, TAU};

const TIME_STEP: f32 = 0.2;
const TOP_SPEED_1: f32 = 4.0 * PI;
const TOP_SPEED_2: f32 = 9.0 * PI;

/// The registered env.
pub fn env_type() -> EnvType {
    EnvType {
        name: "acrobot",
        gymnasium_id: "Acrobot-v1",
        about: "Swing the tip of a two-link arm above the line; every step until then costs 1.",
        options: [
            max_steps(500),
            OptionSpec::float("gravity", 9.8, 0.0, 1000.0, "downward acceleration"),
            OptionSpec::float("torque", 1.0, 0.0, 100.0, "torque of the joint"),
        ]
        .into(),
        spec: |_| {
            let observation = Observation::symmetric(&[1.0, 1.0, 1.0, 1.0, TOP_SPEED_1, TOP_SPEED_2]);
            Ok(spec(observation, Action::Discrete { n: 3 }, Acrobot::SUCCESS, 25))
        },
        build: |options, count| Box::new(SimdGroup::<Acrobot, 4, 2, 6>::new(options, count)),
    }
}

struct Acrobot;

impl SimdEnv<4, 2, 6> for Acrobot {
    const FIELDS: [&'static str; 4] = ["theta1", "theta2", "theta1_dot", "theta2_dot"];
    const SUCCESS: Success = Success::Terminated;

    fn params(options: &Options) -> [f32; 2] {
        [options.float("gravity"), options.float("torque")]
    }

    #[inline(always)]
    fn reset<S: Simd>(simd: S, _: &[S::F; 2], draws: SimdStream<S>) -> [S::F; 4] {
        let (low, high) = (simd.f(-0.1), simd.f(0.1));
        [
            draws.range(simd, 0, low, high),
            draws.range(simd, 1, low, high),
            draws.range(simd, 2, low, high),
            draws.range(simd, 3, low, high),
        ]
    }

    #[inline(always)]
    fn step<S: Simd>(simd: S, params: &[S::F; 2], state: [S::F; 4], action: S::F) -> SimdStep<S, 4> {
        let [gravity, strength] = *params;
        let torque = (action - simd.f(1.0)) * strength;
        let half = simd.f(TIME_STEP / 2.0);
        let k1 = derivative(simd, gravity, torque, &state);
        let k2 = derivative(simd, gravity, torque, &moved::<S>(&state, half, &k1));
        let k3 = derivative(simd, gravity, torque, &moved::<S>(&state, half, &k2));
        let k4 = derivative(simd, gravity, torque, &moved::<S>(&state, simd.f(TIME_STEP), &k3));
        let mut next = state;
        for i in 0..4 {
            let slope = simd.f(2.0).fma(k2[i] + k3[i], k1[i] + k4[i]);
            next[i] = simd.f(TIME_STEP / 6.0).fma(slope, state[i]);
        }
        let [theta1, theta2, dot1, dot2] = next;
        let theta1 = wrap(simd, theta1);
        let theta2 = wrap(simd, theta2);
        let dot1 = dot1.max(simd.f(-TOP_SPEED_1)).min(simd.f(TOP_SPEED_1));
        let dot2 = dot2.max(simd.f(-TOP_SPEED_2)).min(simd.f(TOP_SPEED_2));
        let tip = -math::cos(simd, theta1) - math::cos(simd, theta1 + theta2);
        let up = simd.f(1.0).lt(tip);
        SimdStep { state: [theta1, theta2, dot1, dot2], reward: simd.f(0.0).select(up, simd.f(-1.0)), terminated: up }
    }

    #[inline(always)]
    fn observe<S: Simd>(simd: S, state: &[S::F; 4]) -> [S::F; 6] {
        let (sin1, cos1) = math::sin_cos(simd, state[0]);
        let (sin2, cos2) = math::sin_cos(simd, state[1]);
        [cos1, sin1, cos2, sin2, state[2], state[3]]
    }
}

/// Angular velocities and accelerations; all lengths, masses and moments of inertia are 1, centres of mass at 1/2.
#[inline(always)]
fn derivative<S: Simd>(simd: S, gravity: S::F, torque: S::F, state: &[S::F; 4]) -> [S::F; 4] {
    let [theta1, theta2, dot1, dot2] = *state;
    let (sin2, cos2) = math::sin_cos(simd, theta2);
    let half = simd.f(0.5);
    let d1 = cos2 + simd.f(3.5);
    let d2 = half.fma(cos2, simd.f(1.25));
    let phi2 = half * gravity * math::sin(simd, theta1 + theta2);
    let swing = half * dot2.fma(dot2, simd.f(2.0) * dot2 * dot1);
    let phi1 = swing.fnma(sin2, (simd.f(1.5) * gravity).fma(math::sin(simd, theta1), phi2));
    let ratio = d2 / d1;
    let pull = (half * dot1 * dot1).fnma(sin2, ratio.fma(phi1, torque - phi2));
    let acceleration2 = pull / ratio.fnma(d2, simd.f(1.25));
    let acceleration1 = -(d2.fma(acceleration2, phi1) / d1);
    [dot1, dot2, acceleration1, acceleration2]
}

#[inline(always)]
fn moved<S: Simd>(state: &[S::F; 4], time: S::F, slope: &[S::F; 4]) -> [S::F; 4] {
    [
        time.fma(slope[0], state[0]),
        time.fma(slope[1], state[1]),
        time.fma(slope[2], state[2]),
        time.fma(slope[3], state[3]),
    ]
}

/// The same angle in -pi..=pi.
#[inline(always)]
fn wrap<S: Simd>(simd: S, angle: S::F) -> S::F {
    let turns = (angle * simd.f(1.0 / TAU)).round();
    turns.fnma(simd.f(TAU), angle)
}
