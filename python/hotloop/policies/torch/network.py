"""Torch networks of policies. Arrays have the names, shapes and initial values of the native learner's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hotloop import _core
from hotloop.envs.spec import BoxObservation, EnvSpec, Observation
from hotloop.policies.spec import NetworkSpec, padding
from hotloop.policies.torch.memory import Memory, Weights

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": functional.silu,
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
}
# Arrays that only torch has draw their first values from streams that no native array uses.
_FIRST_CONVOLUTION: Final = 1 << 16


class Layers(nn.Module):
    """Dense layers `0`, `1`, ...; a discrete observation picks rows of the first one, or of a table before it."""

    def __init__(self, inputs: int, states: int, policy: NetworkSpec) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[policy.activation]
        self.picks = states > 0
        self.embedding = None
        self.numbered: list[Weights] = []
        if states and policy.embedding:
            inputs = policy.embedding
            self.embedding = Weights(states, inputs)
        for size in policy.hidden:
            is_table = states > 0 and self.embedding is None and not self.numbered
            layer = Weights(*((states, size) if is_table else (size, inputs)), bias=size)
            self.add_module(str(len(self.numbered)), layer)
            self.numbered.append(layer)
            inputs = size
        self.width = inputs

    def forward(self, x: Tensor) -> Tensor:
        """Features of observations."""
        rest = self.numbered
        if not self.picks:
            x = x.flatten(1)
        elif self.embedding is not None:
            x = functional.embedding(x, self.embedding.weight)
        else:
            x = self.activate(functional.embedding(x, rest[0].weight) + rest[0].bias)
            rest = rest[1:]
        for layer in rest:
            x = self.activate(functional.linear(x, layer.weight, layer.bias))
        return x


class Convolutions(nn.Module):
    """Layers `0`, `1`, ... over a picture or grid; the smaller of the first and last axis has the channels."""

    def __init__(self, shape: list[int], policy: NetworkSpec) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[policy.activation]
        self.shape = shape
        self.channels_last = len(shape) == 3 and shape[2] <= shape[0]
        channels, *sides = (1, *shape) if len(shape) == 2 else (shape[2], *shape[:2]) if self.channels_last else shape
        for k, spec in enumerate(policy.convolutions):
            (outputs, kernel, stride), around = spec[:3], padding(spec)
            layer = nn.utils.skip_init(nn.Conv2d, channels, outputs, kernel, stride, around)
            self.add_module(str(k), layer)
            sides = [(side + 2 * around - kernel) // stride + 1 for side in sides]
            channels = outputs
        self.width = channels * math.prod(sides)
        if min(sides) < 1:
            raise ValueError(
                f"policy.convolutions leave nothing of observations of shape {shape}: take smaller kernels or strides"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Flat features of every row."""
        x = x.reshape(-1, *self.shape)
        x = x.unsqueeze(1) if len(self.shape) == 2 else x.movedim(-1, 1) if self.channels_last else x
        for layer in self.children():
            x = self.activate(layer(x))
        return x.flatten(1)


class Branch(Layers):
    """Everything from observations to outputs, for policy or value alone."""

    def __init__(self, observation: Observation, policy: NetworkSpec, outputs: int) -> None:
        convolutions, inputs, states = _first(observation, policy)
        super().__init__(inputs, states, policy)
        self.conv = convolutions
        self.memory = _memory(policy, self.width)
        self.head = Weights(outputs, self.memory.size if self.memory else self.width, bias=outputs)


class Network(nn.Module):
    """A policy: outputs, value and memory of observations and memory."""

    def __init__(self, observation: Observation, policy: NetworkSpec, outputs: int, continuous: int) -> None:
        super().__init__()
        self.shared: bool = policy.shared
        self.outputs = outputs
        if self.shared:
            self.conv, inputs, states = _first(observation, policy)
            self.trunk = Layers(inputs, states, policy)
            self.memory = _memory(policy, self.trunk.width)
            width = self.memory.size if self.memory else self.trunk.width
            self.heads = Weights(outputs + 1, width, bias=outputs + 1)
        else:
            self.policy = Branch(observation, policy, outputs)
            self.value = Branch(observation, policy, 1)
        self.log_std = nn.Parameter(torch.empty(continuous)) if continuous else None

    @property
    def memory_size(self) -> int:
        """Numbers per recurrent state."""
        return sum(memory.length for memory in self._memories() if memory is not None)

    def _memories(self) -> list[Memory | None]:
        return [self.memory] if self.shared else [self.policy.memory, self.value.memory]

    def initial_memory(self, rows: int) -> Tensor | None:
        """An empty memory."""
        size = self.memory_size
        return torch.zeros(rows, size, device=next(self.parameters()).device) if size else None

    def forward(self, obs: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of every row."""
        if memory is None:
            return *self._outputs(lambda kind, x, _: x, obs, None), None
        after: list[Tensor] = []

        def step(kind: Memory, x: Tensor, state: Tensor) -> Tensor:
            x, state = kind(x, state)
            after.append(state)
            return x

        outputs, value = self._outputs(step, obs, memory)
        return outputs, value, after[0] if len(after) == 1 else torch.cat(after, -1)

    def sequence(self, obs: Tensor, memory: Tensor, keeps: Tensor, moves: Tensor | None) -> tuple[Tensor, Tensor]:
        """All steps `[time, rows, ...]` from the memory before the first; see `Memory.sequence`."""
        time, rows = keeps.shape
        keeps, moves = keeps.unsqueeze(-1), None if moves is None else moves.unsqueeze(-1)

        def steps(kind: Memory, x: Tensor, state: Tensor) -> Tensor:
            return kind.sequence(x.unflatten(0, (time, rows)), state, keeps, moves)

        return self._outputs(steps, obs.flatten(0, 1), memory)

    def _outputs(self, remember: Callable[..., Tensor], obs: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs and value; `remember` takes features through a memory."""
        if self.shared:
            x = self.trunk(obs if self.conv is None else self.conv(obs))
            if self.memory is not None:
                x = remember(self.memory, x, memory)
            both = functional.linear(x, self.heads.weight, self.heads.bias)
            outputs, value = both[..., :-1], both[..., -1]
        else:
            parts = []
            states = (None, None) if memory is None else memory.chunk(2, -1)
            for branch, state in zip((self.policy, self.value), states, strict=True):
                x = branch(obs if branch.conv is None else branch.conv(obs))
                if branch.memory is not None:
                    x = remember(branch.memory, x, state)
                parts.append(functional.linear(x, branch.head.weight, branch.head.bias))
            outputs, value = parts[0], parts[1].squeeze(-1)
        if self.log_std is not None:
            outputs = torch.cat((outputs, self.log_std.expand(*outputs.shape[:-1], -1)), -1)
        return outputs, value


def _first(observation: Observation, policy: NetworkSpec) -> tuple[Convolutions | None, int, int]:
    """Convolutions if there are any, how many numbers the dense layers are fed, and how many states there are."""
    if observation.states:
        return None, 0, observation.states
    if policy.convolutions:
        convolutions = Convolutions(list(observation.shape), policy)
        return convolutions, convolutions.width, 0
    return None, math.prod(observation.shape), 0


def _memory(policy: NetworkSpec, inputs: int) -> Memory | None:
    if policy.memory == "none":
        return None
    return Memory(policy.memory, inputs, policy.memory_size, policy.memory_layers)


def build_network(spec: EnvSpec, policy: NetworkSpec, *, seed: int, attempt: int) -> Network:
    """A policy with its first weights, which are the native learner's where both have the array."""
    network = Network(spec.observation, policy, spec.action.outputs, continuous=len(spec.action.low))
    first = first_arrays(network, spec, policy, seed=seed, attempt=attempt)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(first[name]))
    return network


def first_arrays(
    network: Network, spec: EnvSpec, policy: NetworkSpec, *, seed: int, attempt: int
) -> dict[str, NDArray[np.float32]]:
    """The first value of every array, by the native code."""
    convolutions = [(name, part) for name, part in network.named_modules() if isinstance(part, Convolutions)]
    if convolutions:
        # To the rest, features are observations like any others.
        width = convolutions[0][1].width
        features = BoxObservation((width,), (-math.inf,) * width, (math.inf,) * width)
        spec = replace(spec, observation=features)
    learner = _core.PpoLearner(
        spec.to_json(),
        None,
        policy.dense_part.to_json(),
        rows=1,
        horizon=1,
        seed=seed,
        attempt=attempt,
        num_threads=1,
    )
    first: dict[str, NDArray[np.float32]] = dict(learner.arrays())
    index = _FIRST_CONVOLUTION
    for name, part in convolutions:
        for k, layer in enumerate(part.children()):
            assert isinstance(layer, nn.Conv2d)
            shape = tuple(layer.weight.shape)
            drawn = _core.orthogonal_weights(
                shape[0], math.prod(shape[1:]), gain=math.sqrt(2), seed=seed, attempt=attempt, index=index
            )
            first[f"{name}.{k}.weight"] = drawn.reshape(shape)
            first[f"{name}.{k}.bias"] = np.zeros(shape[0], np.float32)
            index += 1
    return first
