"""What cannot work is refused with words that say what would."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import _core
from hotloop.config import ConfigError, load_config
from hotloop.tabular import settings
from hotloop.training.errors import CheckpointError


def refusal(env: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(env, overrides=["train.algorithm=q-learning", *overrides])
    return str(caught.value)


def test_continuous_spaces_are_refused() -> None:
    assert "needs numbered states, but cartpole shows box observations" in refusal("cartpole")
    assert "needs numbered states, but pendulum" in refusal("pendulum")
    assert "env.observation=id gives it numbered ones" in refusal("tictactoe", "env.observation=board")
    assert "needs numbered states" in refusal("gymnasium:CartPole-v1")


def test_too_many_actions_are_refused() -> None:
    import gymnasium
    from gymnasium import spaces

    class Wide(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(3)
        action_space = spaces.Discrete(65)

    gymnasium.register("Wide-v0", lambda **_: Wide())
    assert "has 65 actions: a table takes 64 at most" in refusal("gymnasium:Wide-v0")


def test_a_table_that_does_not_fit_says_how_much_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "free_memory", lambda: 1_000_000)
    message = refusal("tictactoe")
    assert "19683 states x 9 actions needs" in message
    assert "MB, but only 1 MB are free: set tabular.table=sparse" in message
    sparse = load_config("tictactoe", overrides=["train.algorithm=q-learning", "tabular.table=sparse"])
    assert sparse.tabular.table == "sparse"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["tabular.learning_rate_schedule=exponential", "tabular.learning_rate_scale=null"], "learning_rate_scale"),
        (["tabular.exploration_schedule=visits"], "set tabular.exploration_scale, the visits"),
        (["tabular.exploration_floor=0.9"], "tabular.exploration_floor is above"),
        (["train.algorithm=sarsa", "tabular.replay_size=10"], "not sarsa"),
        (["tabular.table=torch", "tabular.runtime=shared"], "runs on one thread"),
        (["tabular.table=torch", "tabular.device=cpu", "tabular.storage=f16"], "f32 values"),
        (["tabular.runtime=many"], "tabular.runtime is 'many'"),
        (["env.opponnent=self"], "Did you mean 'env.opponent'"),
    ],
)
def test_settings_that_do_not_go_together_are_named(overrides: list[str], message: str) -> None:
    assert message in refusal("tictactoe", *overrides)


def test_an_unknown_gymnasium_env_is_named() -> None:
    assert "gymnasium:Nowhere-v0" in refusal("gymnasium:Nowhere-v0")


def test_a_gpu_that_is_not_there_is_said(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match=r"found no GPU: set tabular\.table=dense"):
        hotloop.train("taxi", config={"train.algorithm": "q-learning", "tabular.table": "torch"}, home=tmp_path)


def test_a_table_of_another_env_or_shape_is_refused(tmp_path: Path) -> None:
    config = {"train.algorithm": "q-learning", "tabular.iteration": 1000}
    lake = hotloop.train("frozen-lake", steps=1000, config=config, home=tmp_path)
    with pytest.raises(CheckpointError, match="another table"):
        hotloop.train("taxi", steps=1000, config=config, init_from=lake.path, home=tmp_path)
    with pytest.raises(ValueError, match="expected 4 or twice as many"):
        _core.QTable(16, 4, 0.0, {"values": np.zeros(7, np.float32)})
    with pytest.raises(ValueError, match="not below 3"):
        _core.QTable(3, 2, 0.0, {"states": np.array([5], np.uint64), "values": np.zeros(2, np.float32)})


def test_mpi_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ConfigError, match=r"pip install 'hotloop\[mpi\]' brings both"):
        hotloop.train("taxi", config={"train.algorithm": "sarsa", "tabular.runtime": "mpi"}, home=tmp_path)
