"""Configs that cannot work are refused with a fix."""

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hotloop
from hotloop import _core
from hotloop.config import ConfigError, load_config
from hotloop.config.tabular import settings
from hotloop.errors import CheckpointError, TrainingError
from tests import core_calls


def refusal(env: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(env, overrides=["train.algorithm=q-learning", *overrides])
    return str(caught.value)


def test_continuous_spaces_are_refused() -> None:
    assert "needs discrete observations, but those of cartpole are box" in refusal("cartpole")
    assert "needs discrete observations, but those of pendulum" in refusal("pendulum")
    assert "set env.observation=id" in refusal("tictactoe", "env.observation=board")
    assert "needs discrete observations" in refusal("gymnasium:CartPole-v1")


def test_too_many_actions_are_refused() -> None:
    class Wide(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(3)
        action_space = spaces.Discrete(65)

    gymnasium.register("Wide-v0", lambda **_: Wide())
    assert "has 65 actions: a table supports at most 64" in refusal("gymnasium:Wide-v0")


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


@pytest.mark.parametrize("value", ["1e38", "-1e31", "1e39"])
@pytest.mark.parametrize("algorithm", ["q-learning", "expected-sarsa", "double-q-learning"])
def test_an_initial_value_whose_sums_overflow_is_rejected(value: str, algorithm: str) -> None:
    message = refusal("taxi", f"train.algorithm={algorithm}", f"tabular.initial_value={value}")
    assert message == f"tabular.initial_value is {float(value):.0e}: a table of f32 values takes -1e30 to 1e30".replace(
        "e+", "e"
    )


def test_an_initial_value_beyond_half_precision_is_rejected() -> None:
    overrides = ["tabular.storage=f16", "tabular.initial_value=7e4", "tabular.table=sparse"]
    assert refusal("taxi", *overrides).startswith("tabular.initial_value is 7e4: a table of f16 values takes -6.5504e4")


@pytest.mark.parametrize("kind", ["visits", "linear", "exponential"])
@pytest.mark.parametrize("key", ["learning_rate", "exploration"])
@pytest.mark.parametrize("scale", ["1e300", "1e-300"])
def test_a_schedule_beyond_single_precision_is_rejected(kind: str, key: str, scale: str) -> None:
    message = refusal("taxi", f"tabular.{key}_schedule={kind}", f"tabular.{key}_scale={scale}")
    assert message == f"tabular.{key}_scale is {scale}: expected a number from 1e-30 to 1e30"


class Lying(gymnasium.Env[Any, Any]):
    """Breaks its interface in its third step, in the way that its option names."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(3)

    def __init__(self, lie: str) -> None:
        self.lie, self.steps = lie, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        state, reward = self.steps % 5, 1.0
        if self.steps == 3:
            state = {"state": 5, "negative": -1}.get(self.lie, state)
            reward = {"nan": float("nan"), "inf": float("-inf"), "huge": 1e39}.get(self.lie, reward)
        mask = np.zeros(4, np.int8) + (np.arange(4) == (3 if self.lie == "mask" and self.steps == 3 else 1))
        return state, reward, False, False, {"action_mask": mask}


@pytest.mark.parametrize("table", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("state", "returned state 5: expected 0 to 4"),
        ("negative", "returned state -1: expected 0 to 4"),
        ("nan", "returned a reward of NaN"),
        ("inf", "returned a reward of -inf: expected a finite number from -1e12 to 1e12"),
        ("huge", "returned a reward of inf"),
        ("mask", "action mask is 0b1000: expected at least one of the first 3 bits"),
    ],
)
def test_an_env_that_breaks_its_interface_is_named(lie: str, message: str, table: str, tmp_path: Path) -> None:
    if "Lying-v0" not in gymnasium.registry:
        gymnasium.register("Lying-v0", lambda **options: Lying(**options), disable_env_checker=True)
    config = {"train.algorithm": "q-learning", "tabular.iteration": 10, "tabular.table": table, "env.lie": lie}
    with pytest.raises(TrainingError, match=re.escape(message)) as caught:
        hotloop.train("gymnasium:Lying-v0", steps=10, config=config, home=tmp_path)
    assert str(caught.value).startswith("gymnasium:Lying-v0 broke its interface")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e37])
def test_a_table_with_values_that_cannot_be_compared_is_rejected(value: float) -> None:
    with pytest.raises(ValueError, match="expected finite numbers of at most 1e36"):
        _core.QTable(2, 2, 0.0, {"values": np.array([0, 1, value, 2], np.float32)})
    with pytest.raises(ValueError, match="f16 values that are not finite"):
        _core.QTable(2, 2, 0.0, {"values": np.array([0, 1, np.inf, 2], np.float16).view(np.uint16)})


@pytest.mark.parametrize("sizes", [(2**62, 4), (2**62, 64), (0, 4), (4, 0), (4, 2**61), (4, 65)])
def test_a_table_of_impossible_size_is_rejected(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r'the table has 4 values|a table of [0-9]+ actions|"states" is missing'):
        _core.QTable(*sizes, 0.0, {"values": np.zeros(4, np.float32)})


@pytest.mark.parametrize(
    ("env", "sizes", "message"),
    [
        ("frozen-lake", (15, 4), "15 states and 4 actions: frozen-lake has 16 and 4"),
        ("taxi", (500, 7), "500 states and 7 actions: taxi has 500 and 6"),
        ("cartpole", (4, 2), "cartpole has no numbered states and actions"),
    ],
)
def test_a_native_table_of_other_spaces_than_its_env_has_is_rejected(
    env: str, sizes: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _core.TabularLearner(env, None, core_calls.TABULAR, *sizes)


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
    with pytest.raises(ConfigError, match=r"pip install 'hotloop\[mpi\]' installs both"):
        hotloop.train("taxi", config={"train.algorithm": "sarsa", "tabular.runtime": "mpi"}, home=tmp_path)
