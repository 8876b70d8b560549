"""Exported policies do what the policy does: every head, activation, kind of input, with masks and normalisation."""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hotloop
from hotloop.errors import ExportError
from hotloop.export import validation
from hotloop.export.blueprint import Blueprint
from hotloop.export.onnx import onnx_model, write_onnx
from hotloop.export.program import write_program
from hotloop.loading import checkpoint_policy
from hotloop.policies.policy import Policy
from hotloop.training.checkpoint import open_policy

SMALL = {
    "train.until": None,
    "train.evaluate_episodes": 0,
    "runner.num_envs": 16,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("cartpole", {"policy.activation": "tanh"}),
    ("cartpole", {"policy.activation": "relu", "policy.shared": False, "ppo.normalize_observations": True}),
    ("acrobot", {"policy.activation": "silu", "policy.hidden": [24]}),
    ("mountain-car", {"policy.activation": "gelu", "policy.hidden": [16, 24, 8]}),
    ("pendulum", {"policy.shared": False, "ppo.normalize_observations": True, "policy.log_std": -0.5}),
    ("taxi", {"policy.embedding": 8}),
    ("taxi", {"policy.embedding": 0, "policy.shared": False}),
    ("frozen-lake", {"policy.embedding": 0}),
    ("tictactoe", {"env.observation": "board"}),
    ("recall", {"env.symbols": 3, "env.cues": 5}),
    ("tag", {"env.observation": "grid", "ppo.normalize_observations": True}),
    ("tag", {"env.observation": "grid", "policy.encoder": "cnn"}),
    ("tag", {"env.observation": "grid", "policy.encoder": "cnn", "policy.shared": False, "policy.activation": "relu"}),
    ("recall", {"policy.memory": "lstm", "policy.memory_size": 16, "policy.memory_layers": 2}),
    ("recall", {"policy.memory": "gru", "policy.memory_size": 16, "policy.shared": False}),
    ("tag", {"policy.memory": "gru", "policy.memory_size": 8, "ppo.normalize_observations": True}),
    ("taxi", {"policy.memory": "lstm", "policy.memory_size": 8, "policy.shared": False}),
]


def label(case: tuple[str, dict[str, Any]]) -> str:
    env, config = case
    return " ".join([env, *(f"{key}={value}" for key, value in config.items())])


def trained(home: Path, env: str, config: dict[str, Any]) -> tuple[Blueprint, Policy]:
    """A policy after a little training, so that its biases and statistics are not zero."""
    run = hotloop.train(env, steps=1024, home=home, config={**SMALL, "policy.memory": "none", **config})
    checkpoint = open_policy(run.path, trust=False, warn=print)
    return Blueprint.of(checkpoint), checkpoint_policy(checkpoint)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_onnx_does_what_the_policy_does(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    blueprint, agent = trained(tmp_path, *case)
    write_onnx(tmp_path / "policy.onnx", blueprint)
    model = validation.onnx_runtime(tmp_path / "policy.onnx")
    assert model is not None
    found = validation.check(model, agent, blueprint)
    assert found.observations == 256
    assert found.difference < 1e-5


@pytest.mark.parametrize("case", [CASES[1], CASES[4], CASES[5], CASES[9], CASES[11], CASES[13], CASES[14]], ids=label)
def test_a_torch_program_does_what_the_policy_does(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    blueprint, agent = trained(tmp_path, *case)
    write_program(tmp_path / "policy.pt2", blueprint)
    model = validation.torch_program(tmp_path / "policy.pt2")
    assert validation.check(model, agent, blueprint).difference < 1e-5


@pytest.fixture(scope="module")
def taxi(tmp_path_factory: pytest.TempPathFactory) -> tuple[Blueprint, Policy]:
    return trained(tmp_path_factory.mktemp("home"), "taxi", {})


def test_a_model_has_metadata(taxi: tuple[Blueprint, Policy]) -> None:
    model = onnx_model(taxi[0])
    facts = {prop.key: prop.value for prop in model.metadata_props}
    assert facts["env"] == "taxi"
    assert json.loads(facts["options"]) == taxi[0].options
    assert [info.name for info in model.graph.input] == ["observation", "action_mask"]
    assert [info.name for info in model.graph.output] == ["action", "value", "logits"]
    assert model.opset_import[0].version == 17


def test_any_number_of_rows_and_forbidden_choices(taxi: tuple[Blueprint, Policy]) -> None:
    session = onnxruntime.InferenceSession(onnx_model(taxi[0]).SerializeToString())
    for rows in (1, 7):
        mask = np.zeros((rows, 6), np.bool_)
        mask[:, 4] = True
        action, value, logits = session.run(None, {"observation": np.arange(rows), "action_mask": mask})
        assert action.tolist() == [4] * rows
        assert value.shape == (rows,)
        assert (logits[:, :4] < -1e29).all()


def test_writing_is_repeatable_and_leaves_no_other_file(taxi: tuple[Blueprint, Policy], tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_onnx(tmp_path / name, taxi[0])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    onnx.checker.check_model(onnx.load(tmp_path / "one"))


def test_a_model_with_other_weights_is_noticed(taxi: tuple[Blueprint, Policy]) -> None:
    blueprint, agent = taxi
    name = "heads.bias"
    wrong = {**blueprint.weights, name: blueprint.weights[name] + np.float32(0.01)}
    other = Blueprint(**{**vars(blueprint), "weights": wrong})
    session = onnxruntime.InferenceSession(onnx_model(other).SerializeToString())
    names = [output.name for output in session.get_outputs()]
    with pytest.raises(ExportError, match="the exported policy differs from the original: value by"):
        validation.check(lambda given: dict(zip(names, session.run(names, given), strict=True)), agent, blueprint)


def test_a_full_disk_is_an_error_and_leaves_no_file(taxi: tuple[Blueprint, Policy], tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        for name, write in (("it.onnx", write_onnx), ("it.pt2", write_program)):
            with pytest.raises(ExportError, match=f"cannot write .*{name}: File too large"):
                write(tmp_path / name, taxi[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named(
    taxi: tuple[Blueprint, Policy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("onnx", "onnxruntime", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExportError, match=r"pip install 'hotloop\[onnx\]'"):
        write_onnx(tmp_path / "it.onnx", taxi[0])
    with pytest.raises(ExportError, match="torch programs need torch"):
        write_program(tmp_path / "it.pt2", taxi[0])
    assert validation.onnx_runtime(tmp_path / "it.onnx") is None
