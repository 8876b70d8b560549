"""Which runs can be trained again to the bit."""

from typing import Any

import pytest

from hotloop.config import load_config
from hotloop.training.exactness import inexact_reason


def reason(env: str, learner: str, **overrides: Any) -> str | None:
    settings = {key.replace("__", "."): value for key, value in overrides.items()}
    return inexact_reason(load_config(env, overrides=settings).model_dump(mode="json"), [learner])


@pytest.mark.parametrize("learner", ["native (CPU)", "native: it serves", ""])
def test_native_envs_and_learners_repeat(learner: str) -> None:
    assert reason("cartpole", learner) is None


def test_what_does_not_repeat_says_why() -> None:
    assert "torch" in str(reason("cartpole", "torch (asked for)"))
    assert "Python envs" in str(reason("gymnasium:CartPole-v1", "native (CPU)"))


def test_tables_repeat_unless_several_threads_share_one() -> None:
    table = {"train__algorithm": "q-learning"}
    assert reason("tictactoe", "table", **table) is None
    assert reason("tictactoe", "table", **table, tabular__runtime="private", runner__num_threads=2) is None
    assert "share a table" in str(
        reason("tictactoe", "table", **table, tabular__runtime="shared", runner__num_threads=2)
    )
    assert reason("tictactoe", "table", **table, tabular__runtime="shared", runner__num_threads=1) is None
