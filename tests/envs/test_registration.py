"""Native envs in Gymnasium's registry."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import hotloop
from hotloop.envs.registration import register_gymnasium
from hotloop.runners.base import Runner
from tests.commands import run

IDS = [env.gymnasium_id for env in hotloop.list_envs()]


@pytest.mark.parametrize(
    "imports", ["import gymnasium, hotloop", "import hotloop, gymnasium", "import hotloop.integrations.sb3, gymnasium"]
)
def test_registered_in_whatever_order_they_are_imported(imports: str, tmp_path: Path) -> None:
    code = f"{imports}; print(gymnasium.make_vec('hotloop/CartPole-v1', num_envs=3).num_envs)"
    assert run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path) == "3\n"


def test_gymnasium_can_import_hotloop_by_itself(tmp_path: Path) -> None:
    code = "import gymnasium; print(gymnasium.make('hotloop:hotloop/CartPole-v1').spec.id)"
    assert run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path) == "hotloop/CartPole-v1\n"


def test_registering_again_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    register_gymnasium()
    assert dict(gymnasium.registry) == before
    assert set(IDS) <= set(before)


@pytest.mark.parametrize("id", IDS)
def test_make_vec_gives_the_native_runner(id: str) -> None:
    envs = gymnasium.make_vec(id, num_envs=5)
    assert isinstance(envs, Runner)
    assert envs.env_count == 5
    assert envs.spec is not None
    assert envs.spec.id == id
    obs, _ = envs.reset(seed=1)
    assert obs in envs.observation_space
    envs.close()


def test_make_vec_passes_keywords_to_the_runner_and_the_env() -> None:
    envs: Any = gymnasium.make_vec(
        "hotloop/CartPole-v1",
        num_envs=4,
        num_threads=2,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
        gravity=5.0,
        max_episode_steps=7,
        options={"force": 3.0},
    )
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    assert (envs.num_threads, envs.options["gravity"]) == (2, 5.0)
    assert (envs.options["max_steps"], envs.options["force"]) == (7, 3.0)
    with pytest.raises(ValueError, match='cartpole has no option "gravty"; did you mean "gravity"'):
        gymnasium.make_vec("hotloop/CartPole-v1", num_envs=4, gravty=5.0)


def test_sync_and_async_vectors_of_single_envs_work_too() -> None:
    envs = gymnasium.make_vec("hotloop/Pendulum-v1", num_envs=2, vectorization_mode="sync")
    native = gymnasium.make_vec("hotloop/Pendulum-v1", num_envs=2)
    assert np.array_equal(envs.reset(seed=3)[0], native.reset(seed=[3, 4])[0])  # type: ignore[arg-type]
    envs.close()
