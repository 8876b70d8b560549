"""Ids and packages of envs: found, imported, or named with the pip command."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop.config import load_config
from hotloop.envs.registry import native_name
from hotloop.errors import ConfigError, EnvError
from hotloop.training.session import Session
from tests.cli.command import complaint


def test_the_module_before_an_id_registers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registers_one.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Registered-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    with hotloop.make_vec("gymnasium:registers_one:Registered-v0", num_envs=1, num_workers=1) as envs:
        assert envs.single_observation_space.shape == (4,)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("gymnasium:CartPol-v1", r"Gymnasium has no env 'CartPol-v1'. Did you mean 'CartPole-v1'\?$"),
        ("gymnasium:no_such_package:Thing-v0", r"needs the package no_such_package: pip install 'no_such_package'"),
        ("gymnasium:highway-fast-v0", r"needs the package highway_env: pip install 'highway-env'"),
        ("pettingzoo:classic.tictactoe_v1", r"has no env 'tictactoe_v1'. Did you mean 'tictactoe_v3'\?$"),
        ("tests.envs.test_packages:needs_more", r"needs the package no_such_game: pip install 'no_such_game'"),
    ],
)
def test_an_env_that_is_not_there_is_one_line(env: str, words: str) -> None:
    if env.startswith("gymnasium:highway") and "highway_env" in sys.modules:
        pytest.skip("highway-env is installed")
    with pytest.raises(EnvError, match=words) as caught:
        hotloop.make_vec(env, num_envs=1, num_workers=1)
    assert "\n" not in str(caught.value)


def needs_more() -> None:
    import no_such_game  # type: ignore[import-not-found]  # noqa: F401


def test_a_space_that_does_not_fit_is_an_error_of_the_config(tmp_path: Path) -> None:
    config = load_config("tests.envs.test_packages:lying", overrides={"runner.num_workers": 1, "runner.num_envs": 1})
    words = r"first reset: the env's observation has shape \(4,\): its space has \(3,\)"
    with pytest.raises(ConfigError, match=words):
        hotloop.train("tests.envs.test_packages:lying", steps=8, home=tmp_path)
    with pytest.raises(ConfigError, match=words):
        Session(config)


def lying() -> Any:
    class Lying(gymnasium.Env[Any, int]):
        observation_space = spaces.Box(-1, 1, (3,))
        action_space: spaces.Space[Any] = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return np.zeros(4, np.float32), {}

    return Lying()


def test_a_traceback_begins_in_the_users_code_and_is_whole_for_debugging(tmp_path: Path) -> None:
    config = {"runner.num_workers": 1, "runner.num_envs": 1, "ppo.minibatch_size": 8}
    with pytest.raises(ValueError, match="there is no level file") as caught:
        hotloop.train("tests.runners.python_envs:broken", steps=8, config=config, home=tmp_path)
    assert "in broken" in str(caught.value)
    assert "boot.py" not in str(caught.value)
    with pytest.raises(ValueError, match="there is no level file") as caught:
        hotloop.train("tests.runners.python_envs:broken", steps=8, config=config, home=tmp_path, debug=True)
    assert "boot.py" in str(caught.value)


def test_an_id_of_gymnasium_alone_is_answered_with_the_whole_name() -> None:
    assert "Did you mean 'gymnasium:LunarLander-v3'?" in complaint("train", "LunarLander-v3", "--steps", "10")
    with pytest.raises(ValueError, match=r"Did you mean 'cartpole' or 'gymnasium:CartPole-v1'\?"):
        native_name("CartPole-v1")


def test_envs_that_moved_to_a_package_of_their_own_are_found_there() -> None:
    pytest.importorskip("mpe2", reason="pip install mpe2")
    with hotloop.make_vec("pettingzoo:mpe.simple_spread_v3", num_envs=1, num_workers=1) as envs:
        assert envs.seats == 3


def test_atari_games_and_minigrids_are_played_by_their_ids() -> None:
    pytest.importorskip("minigrid", reason="pip install minigrid")
    with hotloop.make_vec("gymnasium:minigrid:MiniGrid-Empty-5x5-v0", num_envs=1, num_workers=1) as envs:
        # Direction and image; the mission is a text.
        assert envs.single_observation_space.shape == (4 + 7 * 7 * 3,)
    pytest.importorskip("ale_py", reason="pip install ale-py")
    wrap = {"grey_scale": True, "resize": [84, 84], "frame_stack": 4, "end_on_life_loss": True}
    with hotloop.make_vec("gymnasium:ALE/Breakout-v5", num_envs=1, num_workers=1, wrap=wrap) as envs:
        assert envs.reset(seed=0)[0].shape == (1, 4, 84, 84)
        assert envs.step([1])[0].dtype == "uint8"
