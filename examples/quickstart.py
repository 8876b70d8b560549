"""The runner in a nutshell: step, send and receive, go back to a snapshot.

Run: python examples/quickstart.py
"""

import numpy as np

import hotloop


def steps() -> None:
    """All envs at once, as with any `gymnasium.vector.VectorEnv`."""
    envs = hotloop.make_vec("cartpole", num_envs=1024)
    obs, _ = envs.reset(seed=0)
    for _ in range(500):
        # Push to where the pole falls.
        actions = (obs[:, 2] + obs[:, 3] > 0).astype(np.int64)
        obs, _reward, _terminated, _truncated, _info = envs.step(actions)
    report = envs.episodes()
    print(f"{report.count} episodes finished, mean return {report.return_mean:.0f}")
    envs.close()


def ready_first() -> None:
    """Group by group: while one is acted for, the others move."""
    envs = hotloop.make_vec("tag", num_envs=64, num_groups=4, options={"seats": 6})
    rng = np.random.default_rng(0)
    _, info = envs.reset(seed=0)
    for group in range(envs.num_groups):
        envs.send(legal(rng, info["action_mask"][envs.group_rows(group)]), group)
    for _ in range(400):
        batch = envs.recv()
        envs.send(legal(rng, batch.info["action_mask"]), batch.groups[0])
    for _ in range(envs.num_groups):
        envs.recv()
    print(f"tag: runners caught per episode and tagger {envs.episodes().terms['catch']:.2f}")
    envs.close()


def legal(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """A random legal action for each row."""
    return np.asarray(np.argmax(rng.random(mask.shape) * mask, axis=1))


def snapshots() -> None:
    """The same actions from the same state give the same future, bit for bit."""
    with hotloop.make_vec("pendulum", num_envs=8) as envs:
        envs.reset(seed=0)
        state = envs.snapshot()
        torque = np.full((8, 1), 1.5, np.float32)
        first = [envs.step(torque)[0] for _ in range(100)]
        envs.restore(state)
        again = [envs.step(torque)[0] for _ in range(100)]
        print("repeated exactly:", bool(np.array_equal(first, again)))


if __name__ == "__main__":
    steps()
    ready_first()
    snapshots()
