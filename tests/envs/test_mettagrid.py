"""The real MettaGrid: its config, and its PettingZoo class. Where it is missing, test_real_packages.py brings it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop

pytest.importorskip("mettagrid", reason="MettaGrid is not installed here")

from tests.envs.mettagrid_env import STEPS, simulate, step_zoo

NAME = "mettagrid:tests.envs.mettagrid_env"


def make(factory: str, num_envs: int = 2, **options: Any) -> Any:
    name = f"{NAME}:{factory}"
    return hotloop.make_vec(name, num_envs, num_workers=0, autoreset_mode="same_step", options=options)


def play(runner: Any, steps: int, seed: int) -> list[Any]:
    """Return the results of steps with random actions, the first observation first."""
    rng = np.random.default_rng(1)
    results = [runner.reset(seed=seed)[0]]
    for _ in range(steps):
        results.extend(runner.step(rng.integers(0, 5, runner.num_envs))[:4])
    return results


def check_episode(runner: Any, actions: Any, result: dict[str, Any]) -> None:
    """Check the rows of an episode with seed 5 against the expected ones."""
    assert (runner.seats, runner.single_observation_space.dtype) == (3, np.uint8)
    obs, _ = runner.reset(seed=[5])
    for step, row in enumerate(actions):
        np.testing.assert_array_equal(obs, result["obs"][step])
        obs, reward, terminated, truncated, info = runner.step(row)
        np.testing.assert_array_equal(reward, result["reward"][step])
        np.testing.assert_array_equal([terminated, truncated], result["ends"][step])
    assert result["reward"].sum() > 0
    assert truncated.all()
    np.testing.assert_array_equal(np.stack(list(info["final_obs"])), result["obs"][STEPS])
    assert runner.episodes().recent.returns.tolist() == result["reward"].sum(axis=0).tolist()


def test_rows_of_a_config_are_what_its_simulation_gives() -> None:
    actions = np.random.default_rng(0).integers(0, 5, (STEPS, 3))
    # The map and the course of an episode both follow from its seed.
    world, course = np.random.default_rng(5).integers(2**31, size=2).tolist()
    with make("config", 1) as runner:
        check_episode(runner, actions, simulate(actions, world, course))


def test_rows_of_the_pettingzoo_class_are_what_it_gives() -> None:
    actions = np.random.default_rng(0).integers(0, 5, (STEPS, 3))
    with make("zoo", 1, map_seed=7) as runner:
        check_episode(runner, actions, step_zoo(actions, map_seed=7, seed=5))


def test_seeds_decide_on_maps_whatever_was_played_before() -> None:
    with make("config") as runner:
        first, again = play(runner, 45, seed=3), play(runner, 45, seed=3)
        for before, after in zip(first, again, strict=True):
            np.testing.assert_array_equal(before, after)
        # Other envs, the next episode and other seeds have other maps.
        starts = [first[0], first[1 + 4 * (STEPS - 1)], runner.reset(seed=4)[0]]
        assert len({env.tobytes() for start in starts for env in start.reshape(2, -1)}) == 6


def test_a_map_builder_with_a_seed_keeps_its_map() -> None:
    with make("config", map_seed=7) as runner:
        results = play(runner, STEPS, seed=0)
        np.testing.assert_array_equal(results[0], results[1 + 4 * (STEPS - 1)])
        np.testing.assert_array_equal(results[0][:3], results[0][3:])


def test_play_shows_the_map(repository: Path) -> None:
    command = ["from hotloop.cli import main; main()", "play", f"{NAME}:config", "--steps", "2"]
    shown = subprocess.run([sys.executable, "-c", *command], cwd=repository, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("⬜" * 9) >= 4
