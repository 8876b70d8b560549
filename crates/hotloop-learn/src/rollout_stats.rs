//! What a rollout tells besides the loss: advantages, running statistics, and how well values foretold returns.

use std::sync::Mutex;

use hotloop_core::parallel::ParallelFor;

use crate::moments::Moments;
use crate::nn::net::TILE;
use crate::nn::spec::Input;
use crate::ppo::advantage::Gae;
use crate::ppo::rollout::Rollout;

/// Parts that statistics are taken in, whatever the number of threads.
const PARTS: usize = 16;
/// Sums over a whole rollout go round these many places, so that no addition waits for the one before.
const LANES: usize = 8;

/// Fills advantage, target and weight from the rest of the rollout.
pub fn fill_advantages(gae: Gae, rollout: &mut Rollout, team: &mut ParallelFor) {
    let (rows, horizon) = (rollout.rows, rollout.horizon);
    let views = rollout.views();
    team.run(rows.div_ceil(TILE), &|part| {
        let first = part * TILE;
        let count = TILE.min(rows - first);
        // SAFETY: each part has rows of its own.
        unsafe { gae.rows(views, horizon, first, count) };
    });
}

/// Merges the observations of rows that the learner decided for.
pub fn watch_observations(rollout: &Rollout, input: &Input, moments: &mut Moments, team: &mut ParallelFor) {
    let width = moments.mean.len();
    let steps = rollout.horizon;
    let parts: Vec<Mutex<Moments>> = (0..PARTS).map(|_| Mutex::new(Moments::new(width))).collect();
    team.run(PARTS, &|part| {
        let mut moments = parts[part].lock().expect("each part has one owner");
        for at in part * steps / PARTS * rollout.rows..(part + 1) * steps / PARTS * rollout.rows {
            if rollout.valid[at] && rollout.policy[at] == 0 {
                let bytes = &rollout.obs[at * rollout.obs_bytes..][..rollout.obs_bytes];
                match *input {
                    Input::Bytes { high, .. } => {
                        moments.push(bytes.iter().map(|x| f64::from(f32::from(*x) * (1.0 / f32::from(high)))));
                    }
                    _ => moments
                        .push(bytes.chunks_exact(4).map(|x| f64::from(f32::from_ne_bytes([x[0], x[1], x[2], x[3]])))),
                }
            }
        }
    });
    for part in parts {
        moments.merge(&part.into_inner().expect("no thread panicked"));
    }
}

/// Merges the discounted returns so far of every row; `running` has one per row.
pub fn watch_returns(rollout: &Rollout, gamma: f32, reward_scale: f32, running: &mut [f64], returns: &mut Moments) {
    let gamma = f64::from(gamma);
    for step in 0..rollout.horizon {
        for (row, running) in running.iter_mut().enumerate() {
            let at = step * rollout.rows + row;
            *running = *running * gamma + f64::from(rollout.reward[at] * reward_scale);
            if rollout.valid[at] && rollout.policy[at] == 0 {
                returns.push(std::iter::once(*running));
            }
            if rollout.terminated[at] || rollout.truncated[at] {
                *running = 0.0;
            }
        }
    }
}

/// How much of the targets' variance the values explain.
pub fn explained_variance(rollout: &Rollout) -> f64 {
    let (count, target, error) = sums(rollout, |target, error| (target, error));
    let (target, error) = (target / count, error / count);
    let (_, targets, errors) = sums(rollout, |t, e| ((t - target).powi(2), (e - error).powi(2)));
    if targets > 0.0 { 1.0 - errors / targets } else { 0.0 }
}

/// How many rows have a weight, and the sums of what is made of their targets and of what values miss of these.
fn sums(rollout: &Rollout, of: impl Fn(f64, f64) -> (f64, f64)) -> (f64, f64, f64) {
    let mut lanes = [(0.0, 0.0, 0.0); LANES];
    let columns = rollout.weight.chunks(LANES).zip(rollout.target.chunks(LANES)).zip(rollout.value.chunks(LANES));
    for ((weights, targets), values) in columns {
        for (((lane, weight), target), value) in lanes.iter_mut().zip(weights).zip(targets).zip(values) {
            if *weight > 0.0 {
                let (target, error) = of(f64::from(*target), f64::from(target - value));
                *lane = (lane.0 + 1.0, lane.1 + target, lane.2 + error);
            }
        }
    }
    lanes.iter().fold((0.0, 0.0, 0.0), |all, lane| (all.0 + lane.0, all.1 + lane.1, all.2 + lane.2))
}
