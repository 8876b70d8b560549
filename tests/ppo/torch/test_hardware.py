"""Hardware options of the torch learner: each takes effect, or is an error."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hotloop.config import ConfigError, load_config
from hotloop.envs.spec import native_spec
from hotloop.ppo.learners import build, choose
from tests.ppo.torch.learners import pool_of, torch_learner
from tests.ppo.torch.test_parity import FULL

MEMORIES: list[dict[str, Any]] = [
    {"hidden": [16]},
    {"hidden": [16], "memory": "lstm", "memory_size": 8, "memory_layers": 1},
]


def gradients(config: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    learner = torch_learner("cartpole", {}, policy, 12, 8, config=config, sequence_length=4)
    learner.collect(pool_of("cartpole", {}, 12), FULL)
    return learner.gradient(FULL)[0]


@pytest.mark.parametrize("policy", MEMORIES)
@pytest.mark.parametrize("config", [{"accumulate": 3}, {"inference_batch": 5}])
def test_cutting_batches_changes_nothing_but_rounding(config: dict[str, Any], policy: dict[str, Any]) -> None:
    whole, cut = gradients({}, policy), gradients(config, policy)
    for name, array in whole.items():
        np.testing.assert_allclose(array, cut[name], atol=1e-5, err_msg=name)


@pytest.fixture
def plain_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """For trials on machines that announce more than they have; layers as small as here never use those."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")


@pytest.mark.usefixtures("plain_instructions")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_trains_and_comes_back_from_its_state(dtype: str) -> None:
    learner, other = (torch_learner("cartpole", {}, {"hidden": [16]}, 8, 8, config={"amp": dtype}) for _ in range(2))
    pool = pool_of("cartpole", {}, 8)
    result = learner.iterate(pool, FULL, 3, 1e9)
    assert result["dropped"] == 0
    assert result["policy_loss"] == result["policy_loss"]
    assert learner.conditions()["dtype"] == dtype
    other.set_arrays(learner.arrays())
    other.set_state(learner.state())
    for name, array in learner.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


def test_mixed_precision_that_kills_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from hotloop.ppo.torch import hardware

    for code, result in (("import os; os.kill(os.getpid(), 4)", "SIGILL"), ("1 / 0 # {amp}", "ZeroDivisionError")):
        monkeypatch.setattr(hardware, "_TRIAL", code)
        with pytest.raises(ConfigError, match=f"torch.amp is bfloat16, but torch cannot .*{result}.*leave it off"):
            torch_learner("cartpole", {}, {"hidden": [8]}, 4, 4, config={"amp": "bfloat16"})


# Warnings of torch's own compiler.
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_policy_learns_as_the_plain_one() -> None:
    """By the real compiler; minibatches have the rollout's size, so that one program serves all."""
    plain, compiled = (
        torch_learner("cartpole", {}, {"hidden": [8]}, 4, 4, config={"compile": compile_}, minibatch_size=16)
        for compile_ in (False, True)
    )
    assert compiled.notes == ()
    assert compiled.conditions()["compile"] is True
    for learner in (plain, compiled):
        learner.iterate(pool_of("cartpole", {}, 4), {**FULL, "minibatch_size": 16}, 2, 1e9)
    for name, array in plain.arrays().items():
        np.testing.assert_allclose(array, compiled.arrays()[name], atol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_compiled_runs_as_it_is_and_says_why() -> None:
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",), "fx_graph_cache": False}):
        learner = torch_learner("cartpole", {}, {"hidden": [9]}, 4, 4, config={"compile": True}, minibatch_size=16)
    (note,) = learner.notes
    assert note.startswith("torch.compile failed, so nothing is compiled: ")
    assert "no-such-compiler" in note or "working C++ compiler" in note
    assert learner.conditions()["compile"] is False
    assert learner.iterate(pool_of("cartpole", {}, 4), FULL, 1, 1e9)["gradient_steps"] > 0


def test_options_for_gpus_say_that_they_do_nothing_here() -> None:
    config = {"memory_fraction": 0.5, "pin_memory": True}
    notes = torch_learner("cartpole", {}, {"hidden": [8]}, 1, 1, config=config).notes
    assert ["memory_fraction" in notes[0], "pin_memory" in notes[1]] == [True, True]


def test_a_device_that_is_not_there_is_refused() -> None:
    from hotloop.ppo.torch.hardware import find_device

    for name in ("cuda:99", "toaster"):
        expected = f"torch.device is '{name}', which cannot be used here .*available are cpu"
        with pytest.raises(ConfigError, match=expected):
            find_device(name)


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"policy.module": "a:B"}, "policy.module is a:B"),
        ({"env.observation": "grid", "policy.encoder": "cnn"}, "policy.encoder is cnn"),
        ({"torch.losses": ["a:b"]}, "torch.losses has a:b"),
        ({"torch.device": "cuda"}, "torch.device is cuda"),
    ],
)
def test_the_native_learner_says_which_part_it_cannot_build(overrides: dict[str, Any], part: str) -> None:
    config = load_config("tag", overrides={**overrides, "train.learner": "native"})
    spec = native_spec("tag", config.env.options)
    with pytest.raises(ConfigError, match=f"{part}.*set train.learner=torch"):
        build(config, spec, 4)
    auto = load_config("tag", overrides=overrides)
    assert choose(auto, spec).name == "torch"
    assert part in choose(auto, spec).why


@pytest.mark.parametrize(("env", "seen"), [("cartpole", r"have shape \[4\]"), ("frozen-lake", "are one of 16 states")])
def test_a_cnn_for_what_is_no_picture_is_refused(env: str, seen: str) -> None:
    for learner in ("auto", "native", "torch"):
        config = load_config(env, overrides={"policy.encoder": "cnn", "train.learner": learner})
        with pytest.raises(ConfigError, match=f"policy.encoder is cnn, but observations {seen}.*policy.encoder=mlp"):
            build(config, native_spec(env), 4)


def printed_by(code: str, home: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code, home], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_torch_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import hotloop, hotloop.config\n"
        "try: hotloop.train('cartpole', steps=1, config={'train.learner': 'torch'}, home=sys.argv[1])\n"
        "except hotloop.config.ConfigError as error: print(error)\n"
    )
    assert "PyTorch is not installed: pip install 'hotloop[torch]'" in printed_by(code, tmp_path)


def test_training_natively_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys, hotloop\nhotloop.train('cartpole', steps=4096, home=sys.argv[1])\nprint('torch' in sys.modules)\n"
    )
    assert printed_by(code, tmp_path) == "False"
