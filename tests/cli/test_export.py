"""`hotloop export`: from a run to a file that another program runs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import hotloop as package
from tests.cli.command import complaint, hotloop, hotloop_json


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One run."""
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        hotloop_json("train", "cartpole", "--name", "solved")
        yield path


def test_an_exported_policy_solves_the_task_without_hotloops_own(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    (end,) = hotloop_json("export", "solved", "--onnx", str(path))
    assert end["onnx"]["checked"] == 256
    assert end["onnx"]["bytes"] == path.stat().st_size
    session = onnxruntime.InferenceSession(path)
    envs = package.make_vec("cartpole", num_envs=8, autoreset_mode="disabled")
    obs, _ = envs.reset(seed=3)
    total = np.zeros(8)
    for _ in range(500):
        (action,) = session.run(["action"], {"observation": obs})
        obs, reward, terminated, _, _ = envs.step(action)
        assert not terminated.any()
        total += reward
    assert total.tolist() == [500.0] * 8


def test_words_say_what_goes_in_and_out(home: Path, tmp_path: Path) -> None:
    done = hotloop("export", "solved", "--torch", str(tmp_path / "policy.pt2"))
    assert done.returncode == 0, done.stderr
    assert "in   observation\n  out  action, value, logits" in done.stdout
    assert "compared on 256 observations" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "solved"], "no output: pass --onnx FILE"),
        (["export", "nothing", "--onnx", "x.onnx"], "there is no run 'nothing'"),
        (["export", "solved", "--onnx", "/no/where/x.onnx"], "there is no folder /no/where"),
    ],
)
def test_mistakes_are_errors_with_a_message(home: Path, arguments: list[str], words: str) -> None:
    assert words in complaint(*arguments)
