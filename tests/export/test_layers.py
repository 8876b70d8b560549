"""Memory and convolutions of exported policies, beside torch's own layers with the same weights."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from hotloop.envs.spec import BoxObservation, DiscreteAction
from hotloop.export.blueprint import Blueprint
from hotloop.export.onnx import onnx_model
from hotloop.export.program import torch_module
from hotloop.policies.spec import NetworkSpec

INPUTS, WIDTH, SIZE, ROWS = 3, 6, 5, 4
Weights = dict[str, NDArray[np.float32]]


def drawn(shapes: dict[str, tuple[int, ...]]) -> Weights:
    draws = np.random.default_rng(1)
    return {name: draws.standard_normal(shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}


def blueprint(weights: Weights, shape: list[int], **description: Any) -> Blueprint:
    policy = NetworkSpec.from_json({"hidden": [WIDTH], **description})
    observation = BoxObservation(tuple(shape), (), ())
    return Blueprint("it", {}, 0, policy, observation, DiscreteAction(2), False, weights, None, None)


def run(made: Blueprint, obs: NDArray[Any], memory: NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
    """Return the outputs of the ONNX model; those of the torch module must be the same."""
    session = onnxruntime.InferenceSession(onnx_model(made).SerializeToString())
    names = [output.name for output in session.get_outputs()]
    given = {"observation": obs} | ({} if memory is None else {"memory": memory})
    found = dict(zip(names, session.run(names, given), strict=True))
    with torch.no_grad():
        result = torch_module(made)(*map(torch.from_numpy, given.values()))
    for name, value in result.items():
        np.testing.assert_allclose(value.numpy(), found[name], atol=1e-5)
    return found


def branch(kind: str, layers: int, prefix: str, dense: str, head: str, outputs: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of one network's arrays."""
    gates = {"lstm": 4, "gru": 3}[kind] * SIZE
    shapes: dict[str, tuple[int, ...]] = {f"{dense}0.weight": (WIDTH, INPUTS), f"{dense}0.bias": (WIDTH,)}
    for k in range(layers):
        name = f"{prefix}memory.{k}"
        shapes[f"{name}.input.weight"] = (gates, WIDTH if k == 0 else SIZE)
        shapes[f"{name}.hidden.weight"] = (gates, SIZE)
        shapes[f"{name}.bias"] = (gates,)
        if kind == "gru":
            shapes[f"{name}.hidden.bias"] = (SIZE,)
    return {**shapes, f"{head}.weight": (outputs, SIZE), f"{head}.bias": (outputs,)}


def by_torch(kind: str, layers: int, weights: Weights, prefix: str, dense: str, head: str, obs: torch.Tensor) -> Any:
    """Outputs of every step `[time, rows, outputs]` by `nn.LSTM` or `nn.GRU`."""
    arrays = {name: torch.from_numpy(array) for name, array in weights.items()}
    cells = (nn.LSTM if kind == "lstm" else nn.GRU)(WIDTH, SIZE, layers)
    with torch.no_grad():
        for k in range(layers):
            name = f"{prefix}memory.{k}"
            getattr(cells, f"weight_ih_l{k}").copy_(arrays[f"{name}.input.weight"])
            getattr(cells, f"weight_hh_l{k}").copy_(arrays[f"{name}.hidden.weight"])
            getattr(cells, f"bias_ih_l{k}").copy_(arrays[f"{name}.bias"])
            getattr(cells, f"bias_hh_l{k}").zero_()
            if kind == "gru":
                getattr(cells, f"bias_hh_l{k}")[2 * SIZE :] = arrays[f"{name}.hidden.bias"]
        x = torch.tanh(obs @ arrays[f"{dense}0.weight"].T + arrays[f"{dense}0.bias"])
        return (cells(x)[0] @ arrays[f"{head}.weight"].T + arrays[f"{head}.bias"]).numpy()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_shared_memory_is_torchs(kind: str, layers: int) -> None:
    weights = drawn(branch(kind, layers, "", "trunk.", "heads", 3))
    made = blueprint(weights, [INPUTS], memory=kind, memory_size=SIZE, memory_layers=layers)
    obs = np.random.default_rng(2).standard_normal((6, ROWS, INPUTS)).astype(np.float32)
    expected = by_torch(kind, layers, weights, "", "trunk.", "heads", torch.from_numpy(obs))
    memory = np.zeros((ROWS, made.memory_len), np.float32)
    for seen, outputs in zip(obs, expected, strict=True):
        found = run(made, seen, memory)
        memory = found["next_memory"]
        np.testing.assert_allclose(found["logits"], outputs[:, :-1], atol=1e-5)
        np.testing.assert_allclose(found["value"], outputs[:, -1], atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_policy_and_value_remember_apart(kind: str) -> None:
    shapes = branch(kind, 1, "policy.", "policy.", "policy.head", 2) | branch(
        kind, 1, "value.", "value.", "value.head", 1
    )
    weights = drawn(shapes)
    made = blueprint(weights, [INPUTS], memory=kind, memory_size=SIZE, memory_layers=1, shared=False)
    obs = np.random.default_rng(2).standard_normal((5, ROWS, INPUTS)).astype(np.float32)
    parts = [
        by_torch(kind, 1, weights, f"{n}.", f"{n}.", f"{n}.head", torch.from_numpy(obs)) for n in ("policy", "value")
    ]
    memory = np.zeros((ROWS, made.memory_len), np.float32)
    for seen, preferences, value in zip(obs, *parts, strict=True):
        found = run(made, seen, memory)
        memory = found["next_memory"]
        np.testing.assert_allclose(found["logits"], preferences, atol=1e-5)
        np.testing.assert_allclose(found["value"], value[:, 0], atol=1e-5)


@pytest.mark.parametrize(
    "shape", [[3, 8, 9], [8, 9, 3], [8, 9]], ids=["channels first", "channels last", "one channel"]
)
def test_convolutions_are_torchs(shape: list[int]) -> None:
    channels = 1 if len(shape) == 2 else 3
    convolutions = [[4, 3, 1], [5, 3, 2], [6, 2, 1, 0]]
    weights = drawn(
        {
            "conv.0.weight": (4, channels, 3, 3),
            "conv.0.bias": (4,),
            "conv.1.weight": (5, 4, 3, 3),
            "conv.1.bias": (5,),
            "conv.2.weight": (6, 5, 2, 2),
            "conv.2.bias": (6,),
            "trunk.0.weight": (WIDTH, 6 * 3 * 4),
            "trunk.0.bias": (WIDTH,),
            "heads.weight": (3, WIDTH),
            "heads.bias": (3,),
        }
    )
    made = blueprint(weights, shape, encoder="cnn", convolutions=convolutions)
    obs = np.random.default_rng(2).standard_normal((ROWS, *shape)).astype(np.float32)
    arrays = {name: torch.from_numpy(array) for name, array in weights.items()}
    x = torch.from_numpy(obs)
    x = x[:, None] if channels == 1 else x.permute(0, 3, 1, 2) if shape[2] == 3 else x
    for k, (stride, padding) in enumerate([(1, 1), (2, 1), (1, 0)]):
        x = torch.tanh(nn.functional.conv2d(x, arrays[f"conv.{k}.weight"], arrays[f"conv.{k}.bias"], stride, padding))
    x = torch.tanh(x.flatten(1) @ arrays["trunk.0.weight"].T + arrays["trunk.0.bias"])
    outputs = (x @ arrays["heads.weight"].T + arrays["heads.bias"]).numpy()
    found = run(made, obs)
    np.testing.assert_allclose(found["logits"], outputs[:, :-1], atol=1e-5)
    np.testing.assert_allclose(found["value"], outputs[:, -1], atol=1e-5)
