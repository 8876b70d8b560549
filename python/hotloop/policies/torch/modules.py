"""Policies that are a user's own torch module, checked before anything is trained.

A module is made with `Class(spaces, **policy.module_options)` and has two methods:

    initial_memory(rows) -> Tensor [rows, m] or None      what a row remembers when an episode begins
    forward(obs, memory) -> (outputs, value, memory)      outputs [rows, spaces.outputs], value [rows], memory as given

`obs` is float32 `[rows, *spaces.shape]`, scaled and normalised as the config says, or int64 `[rows]` if there are
`spaces.states`. Outputs are logits of all `spaces.choices`, then means and then log standard deviations of the
`spaces.continuous` dimensions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hotloop.code import named_code
from hotloop.envs.spec import EnvSpec
from hotloop.errors import ConfigError
from hotloop.policies.spec import ModuleSpec

_KEY = "policy.module"


@dataclass(frozen=True)
class Spaces:
    """Observation and action spaces of a policy."""

    shape: tuple[int, ...]
    """Of one observation; empty for a state."""
    states: int
    """Number of discrete observations; 0 for other observations."""
    outputs: int
    """Number of outputs of the policy per row."""
    choices: tuple[int, ...]
    """Number of choices of each sub-action; empty for continuous actions."""
    continuous: int
    """Number of continuous dimensions; 0 for discrete actions."""

    @classmethod
    def of(cls, spec: EnvSpec) -> Spaces:
        """Return the spaces of an env."""
        action = spec.action
        return cls(
            shape=spec.observation.shape,
            states=spec.observation.states,
            outputs=action.outputs + len(action.low),
            choices=action.choices,
            continuous=len(action.low),
        )


class ModulePolicy(nn.Module):
    """A user's module behind the interface of `Network`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        memory = self.initial_memory(1)
        self.memory_size = 0 if memory is None else memory.shape[1]

    def initial_memory(self, rows: int) -> Tensor | None:
        """Call the module on the device of its weights."""
        memory: Tensor | None = self.module.initial_memory(rows)  # type: ignore[operator]
        return None if memory is None else memory.to(next(self.module.parameters()).device)

    def forward(self, obs: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of every row."""
        outputs, value, memory = self.module(obs, memory)
        return outputs, value, memory

    def sequence(self, obs: Tensor, memory: Tensor, keeps: Tensor, moves: Tensor | None) -> tuple[Tensor, Tensor]:
        """All steps `[time, rows, ...]`, one after the other."""
        fresh = self.initial_memory(1)
        assert fresh is not None
        outputs, values = [], []
        for t, (seen, keep) in enumerate(zip(obs.unbind(0), keeps.unsqueeze(-1).unbind(0), strict=True)):
            before = torch.where(keep > 0, memory, fresh)
            out, value, memory = self.module(seen, before)
            if moves is not None:
                memory = torch.where(moves[t].unsqueeze(-1), memory, before)
            outputs.append(out)
            values.append(value)
        return torch.stack(outputs), torch.stack(values)


def build_module(spec: EnvSpec, policy: ModuleSpec, *, seed: int, attempt: int) -> ModulePolicy:
    """The module that a description names, with weights that its own code drew from the run's seed."""
    name = policy.module
    made_by = named_code(name, _KEY)
    spaces = Spaces.of(spec)
    key = hashlib.blake2b(f"{seed}/{attempt}/init".encode(), digest_size=8).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(key, "little") >> 1)
        try:
            module = made_by(spaces, **policy.module_options)
        except Exception as error:
            raise ConfigError(f"{_KEY} {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{_KEY} {name!r} is no torch.nn.Module but {type(module).__name__}")
    for method in ("initial_memory", "forward"):
        if not callable(getattr(module, method, None)):
            raise ConfigError(f"{_KEY} {name!r} has no method {method!r}: see docs/torch.md for the two it needs")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(f"{_KEY} {name!r} has no parameters to learn")
    module.float()
    _check(module, name, spaces)
    return ModulePolicy(module)


def _check(module: Any, name: str, spaces: Spaces) -> None:
    """Tries it with a few rows, and names what has a wrong shape."""
    rows = 3
    obs = torch.zeros(rows, dtype=torch.int64) if spaces.states else torch.zeros(rows, *spaces.shape)
    with torch.no_grad():
        memory = module.initial_memory(rows)
        if memory is not None:
            _must_be(name, "initial_memory", memory, (rows, None))
        try:
            given = module(obs, memory)
        except Exception as error:
            shape = list(obs.shape)
            raise ConfigError(
                f"{_KEY} {name!r}: forward failed for observations of shape {shape}: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(given, tuple) or len(given) != 3:
        raise ConfigError(f"{_KEY} {name!r}: forward gives {type(given).__name__}: expected (outputs, value, memory)")
    outputs, value, after = given
    _must_be(name, "outputs", outputs, (rows, spaces.outputs))
    _must_be(name, "value", value, (rows,))
    if memory is None:
        if after is not None:
            raise ConfigError(f"{_KEY} {name!r}: forward gives a memory, but initial_memory gives None")
    else:
        _must_be(name, "memory", after, tuple(memory.shape))


def _must_be(name: str, what: str, tensor: Any, shape: tuple[int | None, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise ConfigError(f"{_KEY} {name!r}: {what} is {type(tensor).__name__}: expected a tensor")
    fits = len(tensor.shape) == len(shape) and all(
        want in (None, found) for want, found in zip(shape, tensor.shape, strict=True)
    )
    if not fits or tensor.dtype != torch.float32:
        expected = ["any" if size is None else size for size in shape]
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise ConfigError(
            f"{_KEY} {name!r}: {what} for {shape[0]} rows has shape {list(tensor.shape)} of {dtype}: "
            f"expected {expected} of float32"
        )
