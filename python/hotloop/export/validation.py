"""Comparison of an exported policy with the original, on the same observations over several steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs.spec import BytesObservation
from hotloop.errors import ExportError
from hotloop.export.blueprint import Blueprint
from hotloop.export.program import import_torch
from hotloop.policies.protocol import ActRequest

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hotloop.policies.policy import Policy

# Inputs by name to outputs by name.
Model = Callable[[dict[str, "NDArray[Any]"]], dict[str, "NDArray[Any]"]]
_ROWS: Final = 64
_STEPS: Final = 4
# Tolerance: sums have another order, in 32 bits. Relative to numbers larger than 1.
_TOLERANCE: Final = 1e-4


@dataclass(frozen=True)
class Check:
    """Result of a comparison."""

    observations: int
    difference: float
    """The largest difference of values, log-probabilities and continuous actions, relative to those larger than 1."""


def onnx_runtime(path: Path) -> Model | None:
    """Return the model in a file, run by onnxruntime; `None` if that is not installed."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda given: dict(zip(names, session.run(names, given), strict=True))


def torch_program(path: Path) -> Model:
    """Return the program in a file, run by torch."""
    torch = import_torch()
    module = torch.export.load(path).module()

    def run(given: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(value) for value in given.values()))
        return {name: value.numpy() for name, value in found.items()}

    return run


def check(model: Model, agent: Policy, blueprint: Blueprint) -> Check:
    """Compare a model with the policy on random observations; raise an `ExportError` that names the difference."""
    draws = np.random.default_rng(0)
    theirs = np.zeros((_ROWS, blueprint.memory_len), np.float32)
    ours = theirs.copy()
    difference = 0.0
    for step in range(_STEPS):
        seen = _observations(blueprint, draws)
        given: dict[str, NDArray[Any]] = {"observation": seen}
        mask = None
        if blueprint.masked:
            mask = _masks(blueprint, draws)
            given["action_mask"] = mask.astype(np.bool_)
        if blueprint.memory_len:
            given["memory"] = theirs
        found = model(given)
        actions, log_prob, value = agent.learner.act(ActRequest(seen, mask, deterministic=True, state=ours))
        pairs = [("value", found["value"], value), *_actions(blueprint, found, actions, log_prob)]
        if blueprint.memory_len:
            theirs = found["next_memory"]
            pairs.append(("memory", theirs, ours))
        for name, got, expected in pairs:
            apart = float(np.max(np.abs(got - expected) / np.maximum(1.0, np.abs(expected))))
            if not apart <= _TOLERANCE:
                raise ExportError(f"the exported policy differs from the original: {name} by {apart:g} at step {step}")
            difference = max(difference, apart)
    return Check(_ROWS * _STEPS, difference)


def _actions(
    blueprint: Blueprint, found: dict[str, NDArray[Any]], actions: NDArray[Any], log_prob: NDArray[Any]
) -> list[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Return the numbers that must agree: probabilities, and those of the exported policy's actions."""
    ours, theirs = np.zeros(len(actions)), np.zeros(len(actions))
    pairs = []
    if blueprint.sets:
        ours += _log_prob(blueprint, found["logits"], actions)
        theirs += _log_prob(blueprint, found["logits"], found["action"])
        pairs.append(("the choices", theirs, ours))
    if blueprint.dims:
        # The density of the most probable action depends on the standard deviation alone.
        ours = ours - (found["log_std"] + 0.5 * np.log(2 * np.pi)).sum(-1)
        if blueprint.action_scale is not None:
            actions = blueprint.action_scale(actions)
        reals = slice(len(blueprint.sets), None)
        pairs.append(("action", found["action"][:, reals], actions[:, reals]))
    return [("the probability of the action", ours, log_prob), *pairs]


def _log_prob(blueprint: Blueprint, logits: NDArray[Any], actions: NDArray[Any]) -> NDArray[Any]:
    total = np.zeros(len(logits))
    taken = actions.reshape(len(logits), -1).astype(np.int64)
    ends = np.cumsum(blueprint.sets)
    for i, part in enumerate(np.split(logits.astype(np.float64), ends[:-1], axis=1)):
        top = part.max(1, keepdims=True)
        chosen = np.take_along_axis(part, taken[:, i : i + 1], 1)
        total += (chosen - top)[:, 0] - np.log(np.exp(part - top).sum(1))
    return total


def _observations(blueprint: Blueprint, draws: np.random.Generator) -> NDArray[Any]:
    observation = blueprint.observation
    if observation.states:
        return draws.integers(observation.states, size=_ROWS, dtype=np.int64)
    shape = (_ROWS, *observation.shape)
    if isinstance(observation, BytesObservation):
        return draws.integers(observation.high, size=shape, dtype=np.uint8, endpoint=True)
    numbers = draws.standard_normal(shape)
    if blueprint.mean is not None and blueprint.scale is not None:
        numbers = (numbers.reshape(_ROWS, -1) * 3 / blueprint.scale + blueprint.mean).reshape(shape)
    return numbers.astype(np.float32)


def _masks(blueprint: Blueprint, draws: np.random.Generator) -> NDArray[np.int8]:
    parts = []
    for n in blueprint.sets:
        part = draws.integers(2, size=(_ROWS, n), dtype=np.int8)
        part[np.arange(_ROWS), draws.integers(n, size=_ROWS)] = 1
        parts.append(part)
    return np.concatenate(parts, 1)
