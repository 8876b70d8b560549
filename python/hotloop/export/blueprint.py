"""The structure of a checkpoint's policy and its forward pass, written once for all backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np

from hotloop.envs.spec import Action, BytesObservation, EnvSpec, Observation
from hotloop.errors import ExportError
from hotloop.files import output_file
from hotloop.policies.own_spaces import OwnSpaces
from hotloop.policies.spec import NetworkSpec, padding

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hotloop.envs.scaling import ActionScale
    from hotloop.training.checkpoint import Checkpoint

T = TypeVar("T")
# The same constants as in the learners.
FORBIDDEN: Final = -1e30
_LIMIT: Final = 10.0
_GATES: Final = {"lstm": 4, "gru": 3}
_KEPT: Final = {"lstm": 2, "gru": 1}


class Operations(Protocol[T]):
    """Operations of a forward pass. The first axis of every value is the batch."""

    def weight(self, name: str, array: NDArray[Any]) -> T:
        """Add a constant."""

    def real(self, x: T) -> T:
        """Convert whole numbers to floats."""

    def flat(self, x: T) -> T:
        """Flatten all axes after the first."""

    def permuted(self, x: T, axes: Sequence[int]) -> T:
        """Permute the axes."""

    def shaped(self, x: T, shape: Sequence[int]) -> T:
        """Reshape the axes after the first."""

    def picked(self, table: T, rows: T) -> T:
        """Look up rows of a table."""

    def dense(self, x: T, weight: T) -> T:
        """Multiply by the transposed weights."""

    def convolution(self, x: T, weight: T, bias: T, stride: int, pad: int) -> T:
        """Apply a two-dimensional convolution."""

    def add(self, x: T, y: T) -> T:
        """Add elementwise."""

    def subtract(self, x: T, y: T) -> T:
        """Subtract elementwise."""

    def multiply(self, x: T, y: T) -> T:
        """Multiply elementwise."""

    def tanh(self, x: T) -> T:
        """Apply tanh elementwise."""

    def sigmoid(self, x: T) -> T:
        """Apply the sigmoid elementwise."""

    def relu(self, x: T) -> T:
        """Apply ReLU elementwise."""

    def clipped(self, x: T, low: T, high: T) -> T:
        """Clip elementwise to bounds."""

    def where(self, mask: T, x: T, y: T) -> T:
        """Select elementwise by a mask."""

    def split(self, x: T, sizes: Sequence[int]) -> list[T]:
        """Split the last axis."""

    def joined(self, parts: Sequence[T]) -> T:
        """Concatenate along the last axis."""

    def best(self, x: T) -> T:
        """Return the argmax over the last axis, which stays with one entry."""

    def single(self, x: T) -> T:
        """Remove the last axis, which has one entry."""

    def like_rows(self, x: T, rows: T) -> T:
        """Repeat a constant vector for every row."""


@dataclass(frozen=True)
class Outputs(Generic[T]):
    """Outputs of a policy."""

    action: T
    """The most probable action: choices, then real numbers, which are clipped to their bounds."""
    value: T
    memory: T | None
    logits: T | None
    """Logits of all choices, masked ones far below the others; `None` for continuous actions."""
    log_std: T | None
    """Of the continuous part of actions, if there is one; its mean is not clipped."""
    mean: T | None


@dataclass(frozen=True)
class Blueprint:
    """A policy: its spec, spaces and arrays."""

    env: str
    options: Mapping[str, Any]
    steps: int
    policy: NetworkSpec
    observation: Observation
    action: Action
    masked: bool
    weights: Mapping[str, NDArray[np.float32]]
    mean: NDArray[np.float32] | None
    """Subtracted from observations; `None` without normalisation."""
    scale: NDArray[np.float32] | None
    action_scale: ActionScale | None = None
    """Scaling of continuous actions to the env's own bounds, if there is one."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """Return the policy of a checkpoint."""
        manifest = checkpoint.manifest
        if "hidden" not in manifest.get("policy", {}):
            what, instead = (
                ("a Q-table", "train a network (train.algorithm=ppo)")
                if "table" in manifest
                else ("a torch module of your own", "export the module with torch")
            )
            raise ExportError(
                f"{checkpoint.path} holds {what}, which cannot be exported: act with it from Python (hotloop.load), or "
                f"{instead}"
            )
        weights, statistics = checkpoint.policy()
        mean, scale = _normalisation(statistics)
        spec = EnvSpec.from_json(manifest)
        return cls(
            env=manifest["env"],
            options=manifest["options"],
            steps=manifest["steps"],
            policy=NetworkSpec.from_json(manifest["policy"]),
            observation=spec.observation,
            action=spec.action,
            masked=spec.masked,
            weights=weights,
            mean=mean,
            scale=scale,
            action_scale=OwnSpaces(spec).scale,
        )

    @property
    def dims(self) -> int:
        """Number of continuous dimensions; 0 for discrete actions."""
        return len(self.action.low)

    @property
    def sets(self) -> list[int]:
        """Number of choices of each sub-action; empty for continuous actions."""
        return list(self.action.choices)

    @property
    def outputs(self) -> int:
        """Number of outputs that parameterise an action."""
        return self.action.outputs

    @property
    def memory_len(self) -> int:
        """Numbers per recurrent state."""
        return self._own_memory * (1 if self.policy.shared else 2)

    @property
    def _own_memory(self) -> int:
        if self.policy.memory == "none":
            return 0
        return _KEPT[self.policy.memory] * self.policy.memory_size * self.policy.memory_layers

    def forward(self, ops: Operations[T], seen: T, mask: T | None, memory: T | None) -> Outputs[T]:
        """Apply the policy to a batch of rows."""
        x = self._features(ops, seen)
        if self.policy.shared:
            x, after = self._trunk(ops, x, "trunk.", "", memory)
            outputs, value = ops.split(self._layer(ops, x, "heads"), [self.outputs, 1])
        else:
            states = [None, None] if memory is None else ops.split(memory, [self._own_memory] * 2)
            ends, left = [], []
            for name, state in zip(("policy", "value"), states, strict=True):
                part, state_after = self._trunk(ops, x, f"{name}.", f"{name}.", state)
                ends.append(self._layer(ops, part, f"{name}.head"))
                left += [] if state_after is None else [state_after]
            outputs, value = ends
            after = ops.joined(left) if left else None
        value = ops.single(value)
        logits = outputs if self.sets else None
        mean = outputs if self.dims else None
        if self.sets and self.dims:
            logits, mean = ops.split(outputs, [sum(self.sets), self.dims])
        parts, log_std = [], None
        if logits is not None:
            if mask is not None:
                logits = ops.where(mask, logits, ops.weight("forbidden", np.array(FORBIDDEN, np.float32)))
            best = ops.joined([ops.best(part) for part in ops.split(logits, self.sets)])
            parts.append(ops.real(best) if self.dims else best)
        if mean is not None:
            log_std = ops.like_rows(ops.weight("constant.log_std", self.weights["log_std"]), mean)
            parts.append(self._reals(ops, mean))
        action = ops.joined(parts) if self.action.shape else ops.single(parts[0])
        return Outputs(action, value, after, logits, log_std, mean)

    def _reals(self, ops: Operations[T], mean: T) -> T:
        """Clip the continuous part of an action, and scale it to the env's own bounds."""
        bounds = (("low", self.action.low), ("high", self.action.high))
        low, high = (ops.weight(end, np.array(bound, np.float32)) for end, bound in bounds)
        reals = ops.clipped(mean, low, high)
        if self.action_scale is None:
            return reals
        factor, offset = (
            ops.weight(name, getattr(self.action_scale, name)[len(self.sets) :]) for name in ("factor", "offset")
        )
        return ops.add(ops.multiply(reals, factor), offset)

    def _features(self, ops: Operations[T], seen: T) -> T:
        if self.observation.states:
            return seen
        x = ops.flat(seen)
        if isinstance(self.observation, BytesObservation):
            x = ops.multiply(ops.real(x), ops.weight("byte", np.array(1.0 / self.observation.high, np.float32)))
        if self.mean is not None and self.scale is not None:
            centred = ops.subtract(x, ops.weight("observations.mean", self.mean))
            x = ops.multiply(centred, ops.weight("observations.scale", self.scale))
            limits = (ops.weight(f"limit.{sign}", np.array(sign * _LIMIT, np.float32)) for sign in (-1, 1))
            x = ops.clipped(x, *limits)
        return x

    def _trunk(self, ops: Operations[T], x: T, dense: str, rest: str, memory: T | None) -> tuple[T, T | None]:
        """Apply convolutions, dense layers and recurrent layers; return their output and the next state."""
        if self.policy.convolutions:
            x = self._convolutions(ops, x, rest)
        first = 0
        if self.observation.states:
            if self.policy.embedding:
                x = ops.picked(self._weight(ops, f"{dense}embedding.weight"), x)
            else:
                picked = ops.picked(self._weight(ops, f"{dense}0.weight"), x)
                x = self._activate(ops, ops.add(picked, self._weight(ops, f"{dense}0.bias")))
                first = 1
        for k in range(first, len(self.policy.hidden)):
            x = self._activate(ops, self._layer(ops, x, f"{dense}{k}"))
        return (x, None) if memory is None else self._remember(ops, x, rest, memory)

    def _convolutions(self, ops: Operations[T], x: T, rest: str) -> T:
        shape = list(self.observation.shape)
        x = ops.shaped(x, [1, *shape] if len(shape) == 2 else shape)
        if len(shape) == 3 and shape[2] <= shape[0]:
            x = ops.permuted(x, (0, 3, 1, 2))
        for k, layer in enumerate(self.policy.convolutions):
            name = f"{rest}conv.{k}"
            weight, bias = (self._weight(ops, f"{name}.{part}") for part in ("weight", "bias"))
            x = self._activate(ops, ops.convolution(x, weight, bias, layer[2], padding(layer)))
        return ops.flat(x)

    def _remember(self, ops: Operations[T], x: T, rest: str, memory: T) -> tuple[T, T]:
        kind, size, layers = self.policy.memory, self.policy.memory_size, self.policy.memory_layers
        after = []
        for k, state in enumerate(ops.split(memory, [_KEPT[kind] * size] * layers)):
            name = f"{rest}memory.{k}"
            fed = ops.dense(x, self._weight(ops, f"{name}.input.weight"))
            fed = ops.add(fed, self._weight(ops, f"{name}.bias"))
            own = self._weight(ops, f"{name}.hidden.weight")
            if kind == "lstm":
                hidden, cell = ops.split(state, [size, size])
                i, f, g, o = ops.split(ops.add(fed, ops.dense(hidden, own)), [size] * _GATES[kind])
                kept = ops.multiply(ops.sigmoid(f), cell)
                cell = ops.add(kept, ops.multiply(ops.sigmoid(i), ops.tanh(g)))
                x = ops.multiply(ops.sigmoid(o), ops.tanh(cell))
                after += [x, cell]
            else:
                gates = zip(
                    ops.split(fed, [size] * _GATES[kind]), ops.split(ops.dense(state, own), [size] * 3), strict=True
                )
                (r_in, r_own), (z_in, z_own), (n_in, n_own) = gates
                r, z = ops.sigmoid(ops.add(r_in, r_own)), ops.sigmoid(ops.add(z_in, z_own))
                n_own = ops.add(n_own, self._weight(ops, f"{name}.hidden.bias"))
                n = ops.tanh(ops.add(n_in, ops.multiply(r, n_own)))
                x = ops.add(n, ops.multiply(z, ops.subtract(state, n)))
                after.append(x)
        return x, ops.joined(after)

    def _activate(self, ops: Operations[T], x: T) -> T:
        match self.policy.activation:
            case "tanh":
                return ops.tanh(x)
            case "relu":
                return ops.relu(x)
            case "silu":
                return ops.multiply(x, ops.sigmoid(x))
            case _:
                scale, cube, half, one = (
                    ops.weight(f"gelu.{name}", np.array(value, np.float32))
                    for name, value in (("scale", 0.7978846), ("cube", 0.044715), ("half", 0.5), ("one", 1.0))
                )
                inner = ops.multiply(scale, ops.add(x, ops.multiply(ops.multiply(cube, x), ops.multiply(x, x))))
                return ops.multiply(ops.multiply(half, x), ops.add(one, ops.tanh(inner)))

    def _layer(self, ops: Operations[T], x: T, name: str) -> T:
        return ops.add(ops.dense(x, self._weight(ops, f"{name}.weight")), self._weight(ops, f"{name}.bias"))

    def _weight(self, ops: Operations[T], name: str) -> T:
        return ops.weight(name, self.weights[name])


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; on failure leave nothing behind and raise an `ExportError`."""
    try:
        with output_file(path) as part:
            part.write_bytes(data)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from None


def _normalisation(
    statistics: Mapping[str, NDArray[Any]],
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Return mean and scale as the learners compute them; `None` before the first observations."""
    count = statistics.get("observations.count")
    if count is None or not count.item() > 0:
        return None, None
    squares = statistics["observations.m2"]
    variance = squares / count.item() if count.item() >= 2 else np.ones_like(squares)
    scale = 1.0 / np.sqrt(variance + 1e-8)
    return statistics["observations.mean"].astype(np.float32), scale.astype(np.float32)
