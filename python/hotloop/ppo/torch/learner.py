"""The torch learner: the native learner's interface, with networks and gradients made by torch.

Drawing actions, stepping native envs, advantages, statistics and the order of minibatches are the core's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hotloop import _core
from hotloop.code import named_code
from hotloop.errors import ConfigError
from hotloop.policies.torch.modules import Spaces
from hotloop.ppo.torch.data import Data, Features, Memories, Recurrent
from hotloop.ppo.torch.hardware import Hardware, differences, pin
from hotloop.ppo.torch.loss import Batch, Outputs, Term, probabilities
from hotloop.ppo.torch.parameters import Parameters, put
from hotloop.ppo.torch.player import Player, build_policy, decide_together
from hotloop.ppo.torch.update import Update

if TYPE_CHECKING:
    from hotloop.config import TorchConfig
    from hotloop.envs.spec import EnvSpec

_MEANS: Final = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")
_SUMS: Final = (
    "steps",
    "rows",
    "gradient_steps",
    "dropped",
    *(f"seconds_{k}" for k in ("env", "inference", "learn", "total")),
)
Opponent = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]], Mapping[str, NDArray[np.float64]]]
"""A frozen policy: description, weights and statistics."""


def _memory_name(player: int) -> str:
    return f"memory.{player}" if player else "memory"


class TorchLearner:
    """A policy that learns, by torch.

    Args:
        spec: The env's spec.
        policy: The policy's description, or the name of a user's module.
        config: What to run on.
        rows: Rows to collect from.
        horizon: Steps of every row per iteration.
        sequence_length: Steps that gradients go back through memory.
        minibatch_size: Steps per gradient step, which decide how many threads are worth it.
        seed: The run's.
        attempt: How often the run was rolled back.
        num_threads: Threads of the core and of torch; left out: as many as the work is worth.
        normalize_observations: Whether observations are normalised by running statistics.
        normalize_rewards: Whether rewards are scaled by the running deviation of returns.
    """

    def __init__(
        self,
        spec: EnvSpec,
        policy: Mapping[str, Any],
        config: TorchConfig,
        *,
        rows: int,
        horizon: int,
        sequence_length: int | None = None,
        minibatch_size: int = 1,
        seed: int,
        attempt: int = 0,
        num_threads: int | None = None,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
    ) -> None:
        made = build_policy(spec, policy, seed=seed, attempt=attempt)
        parameters = sum(parameter.numel() for parameter in made.parameters())
        self.hardware = Hardware.choose(config, num_threads=num_threads, products=minibatch_size * parameters)
        self._config = config
        self._spec = spec
        self._device = self.hardware.device
        self._policy = made.to(self._device)
        self._length = sequence_length or horizon
        self._must_divide(horizon, minibatch_size)
        self._parameters = Parameters(self._policy, scales=config.amp == "float16")
        self._experience = _core.ExternalRollout(
            spec.to_json(),
            rows=rows,
            horizon=horizon,
            seed=seed,
            attempt=attempt,
            num_threads=num_threads,
            normalize_observations=normalize_observations,
            normalize_rewards=normalize_rewards,
        )
        self._rollout = self._experience.rollout()
        if config.pin_memory and self._device.type == "cuda":
            pin(self._rollout)
        self._choices = Spaces.of(spec).choices
        self._features = Features(spec.observation, self._device)
        self._players = [self._player(self._policy, self._features)]
        self._seen = torch.from_numpy(self._rollout["obs"]).unbind(0)
        self._values = torch.from_numpy(self._rollout["value"]).unbind(0)
        if self._memory is not None:
            shape = (horizon // self._length, *self._memory.shape)
            self._rollout["memory"] = np.zeros(shape, np.float32)
            self._starts = torch.from_numpy(self._rollout["memory"]).unbind(0)
        self._evaluate = self.hardware.compiled(
            self._evaluated, lambda evaluate: self._try_evaluating(evaluate, self._units(minibatch_size))
        )
        self._update = Update(self._evaluate, self._parameters, self._terms(), config.accumulate)

    def _must_divide(self, horizon: int, minibatch_size: int) -> None:
        if not self._policy.memory_size:
            return
        length = self._length
        if horizon % length:
            raise ConfigError(f"ppo.sequence_length is {length}, which does not divide ppo.horizon {horizon}")
        if minibatch_size > 1 and minibatch_size % length:
            raise ConfigError(
                f"ppo.minibatch_size is {minibatch_size}, which is no whole number of sequences of {length} steps "
                "(ppo.sequence_length)"
            )

    def _player(self, policy: Any, features: Features) -> Player:
        rows = self._rollout["reward"].shape[1]
        return Player(policy, features, self.hardware, rows, self._config.inference_batch)

    def set_opponents(self, policies: Sequence[Opponent]) -> None:
        """Frozen policies 1, 2, ... of a table of policies, each with a memory of its own; see `Pool.set_policies`."""
        players = []
        for description, arrays, statistics in policies:
            policy = build_policy(self._spec, description, seed=0, attempt=0)
            put({**dict(policy.named_parameters()), **dict(policy.named_buffers())}, arrays)
            features = Features(self._spec.observation, self._device)
            features.set_statistics(statistics)
            players.append(self._player(policy.requires_grad_(False).to(self._device), features))
        self._players[1:] = players

    @property
    def _memory(self) -> Tensor | None:
        """What the policy that learns remembers of every row."""
        return self._players[0].memory

    def _terms(self) -> list[Term]:
        return [named_code(name, "torch.losses") for name in self._config.losses]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of what it runs on."""
        return tuple(self.hardware.notes)

    def conditions(self) -> dict[str, Any]:
        """What must be equal for equal bits, kept with every checkpoint."""
        return self.hardware.conditions()

    def changed_since(self, kept: Mapping[str, Any]) -> list[str]:
        """Which of these conditions were others when a checkpoint was written."""
        return differences(kept, self.conditions())

    @property
    def num_threads(self) -> int:
        """Threads of torch's operations."""
        return self.hardware.num_threads

    @property
    def parameters(self) -> int:
        """How many weights the policy has."""
        return self._parameters.count

    @property
    def memory_len(self) -> int:
        """How many numbers a row remembers."""
        size: int = self._policy.memory_size
        return size

    def _evaluated(self, batch: Batch, memories: Memories | None) -> Outputs:
        with self.hardware.precision():
            if memories is None:
                outputs, value, _ = self._policy(batch.obs, None)
            else:
                outputs, value = self._policy.sequence(batch.obs, *memories)
        outputs, value = outputs.float(), value.float()
        return Outputs(outputs, value, *probabilities(outputs, batch.action, batch.mask, self._choices))

    def _try_evaluating(self, evaluate: Any, size: int) -> None:
        """Once forward and back, with a minibatch of the shapes that are to come."""
        rollout = {**self._rollout, "weight": np.ones_like(self._rollout["weight"])}
        data = self._data({"normalize_advantages": False}, rollout)
        now = evaluate(*next(data.minibatches(size, None)))
        (now.log_prob.sum() + now.value.sum()).backward()
        self._parameters.gradient.zero_()

    def collect(self, pool: _core.Pool, settings: Mapping[str, Any]) -> None:
        """Fills the rollout from native envs, advantages included."""
        self._collect(pool, settings)

    @torch.no_grad()
    def _collect(self, pool: _core.Pool, settings: Mapping[str, Any]) -> tuple[float, float]:
        """The same; gives the seconds that envs and inference took."""
        self.hardware.use_threads()
        experience, rollout, learner = self._experience, self._rollout, self._players[0]
        memory = learner.memory
        iteration, env = settings["iteration"], 0.0
        start = time.perf_counter()
        horizon = len(rollout["reward"])
        after_truncated: dict[int, Tensor] = {}
        experience.begin(pool)
        for slot in range(horizon):
            if memory is not None and slot % self._length == 0:
                self._starts[slot // self._length].copy_(memory)
            outputs, memory = self._decide(slot, slice(None), memory)
            before = time.perf_counter()
            experience.step(pool, slot, outputs, iteration)
            env += time.perf_counter() - before
            ended = rollout["terminated"][slot] | rollout["truncated"][slot]
            if memory is not None:
                if rollout["truncated"][slot].any():
                    after_truncated[slot] = memory
                memory = learner.kept(memory, ended)
            for opponent in self._players[1:]:
                opponent.end_episodes(slice(None), ended)
        learner.memory = memory
        self._values[horizon].copy_(learner.infer(self._seen[horizon], memory)[1])
        slots, rows, obs = experience.finals(pool)
        if len(slots):
            remembered = None
            if memory is not None:
                # In order of time, as the observations are.
                last = [after_truncated[slot][torch.from_numpy(rows[slots == slot])] for slot in np.unique(slots)]
                remembered = torch.cat(last)
            value = learner.infer(torch.from_numpy(obs), remembered)[1]
            rollout["bootstrap"][slots, rows] = value.cpu().numpy()
        experience.advantages(dict(settings))
        return env, time.perf_counter() - start - env

    def _decide(self, slot: int, part: slice, memory: Tensor | None) -> tuple[NDArray[np.float32], Tensor | None]:
        """The outputs of some rows, each by the policy that plays it, and what the learner remembers then."""
        seen, valid = self._seen[slot][part], self._rollout["valid"][slot, part]
        learner = self._players[0]
        if len(self._players) == 1:
            outputs, value, after = learner.infer(seen, memory)
            memory = learner.moved(memory, after, valid)
        else:
            # The learner's is a copy: what it was at the end of an episode may be asked for later.
            memory = None if memory is None else memory.clone()
            others = [None if other.memory is None else other.memory[part] for other in self._players[1:]]
            playing = self._rollout["policy"][slot, part]
            outputs, value = decide_together(
                self._players, playing, seen, valid, [memory, *others], self._experience.outputs
            )
        self._values[slot][part].copy_(value)
        return outputs, memory

    def advantages(self, settings: dict[str, Any]) -> None:
        """Fills advantage, target and weight from the rest of the rollout."""
        self._experience.advantages(settings)

    def _units(self, minibatch_size: int) -> int:
        """How many steps, or sequences, a minibatch has."""
        return minibatch_size if self._memory is None else max(1, minibatch_size // self._length)

    def _data(self, settings: Mapping[str, Any], rollout: Mapping[str, NDArray[Any]] | None = None) -> Data:
        recurrent = None
        if self._memory is not None:
            recurrent = Recurrent(self._length, torch.from_numpy(self._rollout["memory"]).to(self._device))
        return Data(
            self._rollout if rollout is None else rollout,
            self._features,
            self._device,
            normalize=settings["normalize_advantages"],
            recurrent=recurrent,
        )

    def update(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Improves the policy from the rollout, then takes the rollout into the statistics."""
        self.hardware.use_threads()
        iteration = settings["iteration"]

        def order(epoch: int, count: int) -> Tensor:
            return torch.from_numpy(self._experience.order(iteration, epoch, count))

        size = self._units(settings["minibatch_size"])
        told = self._update.run(self._data(settings), settings, size, order)
        self._experience.watch(settings)
        self._features.set_statistics(self._experience.statistics())
        return told

    def iterate(self, pool: _core.Pool, settings: dict[str, Any], count: int, seconds: float) -> dict[str, Any]:
        """Up to `count` iterations with equal settings, or as many as begin within `seconds`."""
        start = time.perf_counter()
        all_told: list[dict[str, Any]] = []
        while not all_told or (len(all_told) < count and time.perf_counter() - start < seconds):
            begun = time.perf_counter()
            now = {**settings, "iteration": settings["iteration"] + len(all_told)}
            env, inference = self._collect(pool, now)
            collected = time.perf_counter()
            told = self.update(now)
            done = time.perf_counter()
            told |= {"steps": int((self._rollout["weight"] > 0).sum()), "rows": self._rollout["weight"].size}
            told |= {"seconds_env": env, "seconds_inference": inference}
            told |= {"seconds_learn": done - collected, "seconds_total": done - begun}
            all_told.append(told)
        made = len(all_told)
        return {
            "iterations": made,
            "explained_variance": self._experience.explained_variance(),
            **{name: sum(told[name] for told in all_told) / made for name in _MEANS},
            **{name: sum(told[name] for told in all_told) for name in _SUMS},
        }

    def gradient(self, settings: dict[str, Any]) -> tuple[dict[str, NDArray[np.float32]], dict[str, float]]:
        """The gradient of the whole rollout as one batch, and the loss."""
        self.hardware.use_threads()
        told = self._update.gradient(self._data(settings), settings)
        found = self._parameters.gradients()
        self._parameters.gradient.zero_()
        return found, told

    def rollout(self) -> dict[str, NDArray[Any]]:
        """The rollout's arrays themselves, time first."""
        return self._rollout

    @torch.no_grad()
    def act_slot(self, slot: int, rows: tuple[int, int], iteration: int) -> NDArray[Any]:
        """Decides for the rows `first..last` at a slot of the rollout; what was decided is kept there."""
        part = slice(*rows)
        memory = None if self._memory is None else self._memory[part]
        if memory is not None and slot % self._length == 0:
            self._starts[slot // self._length][part].copy_(memory)
        outputs, after = self._decide(slot, part, memory)
        if after is not None and self._memory is not None:
            self._memory[part] = after
        return self._experience.draw(slot, rows, outputs, iteration)

    @torch.no_grad()
    def end_episodes(self, slot: int, rows: tuple[int, int]) -> None:
        """Empties the memory of those of the rows `first..last` whose episodes ended at a slot."""
        part = slice(*rows)
        ended = self._rollout["terminated"][slot, part] | self._rollout["truncated"][slot, part]
        for player in self._players:
            player.end_episodes(part, ended)

    @torch.no_grad()
    def act(
        self,
        obs: ArrayLike,
        mask: NDArray[np.int8] | None = None,
        *,
        deterministic: bool,
        seed: int = 0,
        step: int = 0,
        first_row: int = 0,
        memory: NDArray[np.float32] | None = None,
        valid: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Decides for any observations: actions, logarithms of their probabilities, values.

        `memory` (`[rows, memory_len]`, empty at the start of an episode) is brought up to date where `valid`.
        """
        seen = self._observed(obs)
        remembered = self._remembered(memory, len(seen))
        outputs, value, after = self._players[0].infer(seen, remembered)
        if memory is not None and after is not None:
            changed = after.cpu().numpy()
            memory[...] = changed if valid is None else np.where(valid[:, None], changed, memory)
        actions, log_prob = self._experience.sample(
            outputs, mask, deterministic=deterministic, seed=seed, step=step, first_row=first_row
        )
        return actions, log_prob, value.cpu().numpy()

    def _remembered(self, memory: NDArray[np.float32] | None, rows: int) -> Tensor | None:
        if memory is None or not self.memory_len:
            fresh: Tensor | None = self._policy.initial_memory(rows)
            return fresh
        return torch.from_numpy(memory).to(self._device)

    @torch.no_grad()
    def value_of(self, obs: ArrayLike, rows: Sequence[int] | NDArray[np.intp] | None = None) -> NDArray[np.float32]:
        """The values of any observations; with the memory that these rows have now, if they are named."""
        seen = self._observed(obs)
        memory = self._remembered(None, len(seen))
        if rows is not None and self._memory is not None:
            memory = self._memory[torch.as_tensor(np.asarray(rows))]
        found: NDArray[np.float32] = self._players[0].infer(seen, memory)[1].cpu().numpy()
        return found

    def _observed(self, obs: ArrayLike) -> Tensor:
        like = self._rollout["obs"]
        array = np.ascontiguousarray(obs, like.dtype)
        if array.shape[1:] != like.shape[2:]:
            expected = list(like.shape[2:])
            raise ValueError(f"the observations have shape {list(array.shape)}: expected [rows] and then {expected}")
        return torch.from_numpy(array)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The policy's weights by name."""
        return self._parameters.arrays()

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replaces the policy's weights."""
        self._parameters.set_arrays(arrays)

    def statistics(self) -> dict[str, NDArray[np.float64]]:
        """Running statistics that belong to the policy."""
        return self._experience.statistics()

    def state(self) -> dict[str, NDArray[Any]]:
        """The optimiser's moments, all running statistics, and what rows remember."""
        told = {**self._parameters.state(), **self._experience.state()}
        for index, player in enumerate(self._players):
            if player.memory is not None:
                told[_memory_name(index)] = player.memory.cpu().numpy().copy()
        return told

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replaces what the state names."""
        self._parameters.set_state(state)
        self._experience.set_state(dict(state))
        self._features.set_statistics(self._experience.statistics())
        for index, player in enumerate(self._players):
            kept = state.get(_memory_name(index))
            if player.memory is None or kept is None:
                continue
            if kept.shape != tuple(player.memory.shape):
                found, expected = list(kept.shape), list(player.memory.shape)
                raise ValueError(f'"{_memory_name(index)}" has shape {found}: expected {expected}')
            player.memory = torch.from_numpy(kept.copy()).to(self._device)
