"""The torch learner: the native learner's interface, with networks and gradients computed by torch.

Sampling, stepping native envs, advantages, statistics and the order of minibatches are the core's.
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
from hotloop.policies.spec import PolicySpec, policy_spec_from_json
from hotloop.policies.torch.modules import Spaces
from hotloop.ppo.torch.actor import ActingPolicy, Finals, build_policy
from hotloop.ppo.torch.features import Features
from hotloop.ppo.torch.hardware import Hardware, differences, pin
from hotloop.ppo.torch.loss import Batch, Outputs, Term, probabilities
from hotloop.ppo.torch.minibatches import RolloutData, Sequences, SequenceStarts
from hotloop.ppo.torch.optimizer import FlatAdam, load_arrays
from hotloop.ppo.torch.update import Update

if TYPE_CHECKING:
    from hotloop.config import TorchConfig
    from hotloop.envs.spec import EnvSpec
    from hotloop.policies.protocol import ActRequest

_MEANS: Final = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "epochs")
_SUMS: Final = (
    "steps",
    "rows",
    "gradient_steps",
    "dropped",
    *(f"seconds_{k}" for k in ("env", "inference", "learn", "total")),
)
Opponent = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]], Mapping[str, NDArray[np.float64]]]
"""A frozen policy: spec as JSON, weights and statistics."""


def _state_name(policy: int) -> str:
    return f"memory.{policy}" if policy else "memory"


class TorchLearner:
    """A policy that is trained by PPO with torch.

    Args:
        spec: The env's spec.
        policy: The policy's spec.
        config: Device, threads and precision.
        rows: Rows to collect from.
        horizon: Steps of every row per iteration.
        sequence_length: Steps of truncated backpropagation through time.
        minibatch_size: Steps per gradient step, which decide the default number of threads.
        seed: The run's seed.
        attempt: How often the run was rolled back.
        num_threads: Threads of the core and of torch; by default as many as the work is worth.
        normalize_observations: Whether observations are normalised by running statistics.
        normalize_rewards: Whether rewards are scaled by the running standard deviation of returns.
    """

    def __init__(
        self,
        spec: EnvSpec,
        policy: PolicySpec,
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
        module = build_policy(spec, policy, seed=seed, attempt=attempt)
        parameters = sum(parameter.numel() for parameter in module.parameters())
        self.hardware = Hardware.choose(config, num_threads=num_threads, products=minibatch_size * parameters)
        self._config = config
        self._spec = spec
        self._device = self.hardware.device
        self._policy = module.to(self._device)
        self._length = sequence_length or horizon
        self._check_sequences(horizon, minibatch_size)
        self._optimizer = FlatAdam(self._policy, scales=config.amp == "float16")
        self._external = _core.ExternalRollout(
            spec.to_json(),
            rows=rows,
            horizon=horizon,
            seed=seed,
            attempt=attempt,
            num_threads=num_threads,
            normalize_observations=normalize_observations,
            normalize_rewards=normalize_rewards,
        )
        self._rollout = self._external.rollout()
        if config.pin_memory and self._device.type == "cuda":
            pin(self._rollout)
        self._choices = Spaces.of(spec).choices
        self._features = Features(spec.observation, self._device)
        self._policies = [self._acting(self._policy, self._features)]
        self._finals: list[Finals] = []
        self._final_obs: list[NDArray[Any]] = []
        if self._state is not None:
            shape = (horizon // self._length, *self._state.shape)
            self._rollout["memory"] = np.zeros(shape, np.float32)
        self._evaluate = self.hardware.compiled(
            self._evaluated, lambda evaluate: self._try_evaluating(evaluate, self._units(minibatch_size))
        )
        self._update = Update(self._evaluate, self._optimizer, self._terms(), config.accumulate)

    def _check_sequences(self, horizon: int, minibatch_size: int) -> None:
        if not self._policy.memory_size:
            return
        length = self._length
        if horizon % length:
            raise ConfigError(f"ppo.sequence_length is {length}, which does not divide ppo.horizon {horizon}")
        if minibatch_size > 1 and minibatch_size % length:
            raise ConfigError(
                f"ppo.minibatch_size is {minibatch_size}, which is not a multiple of the sequence length {length} "
                "(ppo.sequence_length)"
            )

    def _acting(self, policy: Any, features: Features) -> ActingPolicy:
        rows = self._rollout["reward"].shape[1]
        return ActingPolicy(policy, features, self.hardware, rows, self._config.inference_batch)

    def set_opponents(self, policies: Sequence[Opponent]) -> None:
        """Set the frozen policies 1, 2, ...; see `Pool.set_policies`."""
        opponents = []
        for values, arrays, statistics in policies:
            policy = build_policy(self._spec, policy_spec_from_json(values), seed=0, attempt=0)
            load_arrays({**dict(policy.named_parameters()), **dict(policy.named_buffers())}, arrays)
            features = Features(self._spec.observation, self._device)
            features.set_statistics(statistics)
            opponents.append(self._acting(policy.requires_grad_(False).to(self._device), features))
        self._policies[1:] = opponents

    @property
    def _state(self) -> Tensor | None:
        """The learner's recurrent state of every row."""
        return self._policies[0].state

    def _terms(self) -> list[Term]:
        return [named_code(name, "torch.losses") for name in self._config.losses]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on device, threads and compilation for the user."""
        return tuple(self.hardware.notes)

    def conditions(self) -> dict[str, Any]:
        """Return the conditions of bit-identical results, which checkpoints record."""
        return self.hardware.conditions()

    def changed_since(self, kept: Mapping[str, Any]) -> list[str]:
        """Return the conditions that differ from those a checkpoint recorded."""
        return differences(kept, self.conditions())

    @property
    def num_threads(self) -> int:
        """Number of torch threads."""
        return self.hardware.num_threads

    @property
    def parameters(self) -> int:
        """Number of weights of the policy."""
        return self._optimizer.count

    @property
    def memory_len(self) -> int:
        """Numbers per recurrent state."""
        size: int = self._policy.memory_size
        return size

    def _evaluated(self, batch: Batch, sequences: Sequences | None) -> Outputs:
        with self.hardware.precision():
            if sequences is None:
                outputs, value, _ = self._policy(batch.obs, None)
            else:
                outputs, value = self._policy.sequence(batch.obs, *sequences)
        outputs, value = outputs.float(), value.float()
        return Outputs(outputs, value, *probabilities(outputs, batch.action, batch.mask, self._choices))

    def _try_evaluating(self, evaluate: Any, size: int) -> None:
        """Run forward and backward once, with a minibatch of the shapes that are to come."""
        rollout = {**self._rollout, "weight": np.ones_like(self._rollout["weight"])}
        data = self._data({"normalize_advantages": False}, rollout)
        now = evaluate(*next(data.minibatches(size, None)))
        (now.log_prob.sum() + now.value.sum()).backward()
        self._optimizer.gradient.zero_()

    def collect(self, pool: _core.Pool, settings: Mapping[str, Any]) -> None:
        """Fill the rollout from native envs, advantages included."""
        self._collect(pool, settings)

    @torch.no_grad()
    def _collect(self, pool: _core.Pool, settings: Mapping[str, Any]) -> tuple[float, float]:
        """Fill the rollout; return the seconds that envs and inference took."""
        self.hardware.use_threads()
        iteration, env = settings["iteration"], 0.0
        start = time.perf_counter()
        horizon, count = self._rollout["reward"].shape
        rows = np.arange(count)
        self._forget_finals()
        self._external.observe(pool)
        for slot in range(horizon):
            slots = np.full(count, slot)
            outputs = self._forward(slots, rows)
            before = time.perf_counter()
            self._external.step(pool, slot, outputs, iteration)
            env += time.perf_counter() - before
            self._end_episodes(slots, rows)
        # In order of slots and rows, as the truncated rows were.
        self._final_obs.append(self._external.finals(pool)[2])
        self._bootstrap()
        self._external.advantages(dict(settings))
        return env, time.perf_counter() - start - env

    def begin_rollout(self) -> None:
        """Begin a rollout whose envs are stepped elsewhere, with the observations that the last one ended with."""
        self._forget_finals()
        self._external.begin()

    @torch.no_grad()
    def act_rows(self, slots: NDArray[np.int64], rows: NDArray[np.int64], iteration: int) -> NDArray[Any]:
        """Choose the actions of these rows, each at its slot, in one forward pass, and store them in the rollout."""
        return self._external.sample_rows(slots, rows, self._forward(slots, rows), iteration)

    @torch.no_grad()
    def end_episodes(
        self, slots: NDArray[np.int64], rows: NDArray[np.int64], final_obs: ArrayLike | None = None
    ) -> None:
        """End the episodes of those of these rows that terminated or were truncated at their slots."""
        if final_obs is not None:
            self._final_obs.append(self._checked(final_obs))
        self._end_episodes(slots, rows)

    @torch.no_grad()
    def finish_rollout(self, settings: dict[str, Any]) -> None:
        """Compute bootstrap values and advantages of a rollout whose envs were stepped elsewhere."""
        self._bootstrap()
        self._external.advantages(settings)

    def _forward(self, slots: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute the outputs of these rows, each by the policy that plays it, and store their values."""
        rollout = self._rollout
        playing = rollout["policy"][slots, rows]
        self._check_policies(playing, rows)
        if self._state is not None:
            first = slots % self._length == 0
            starts = self._state[torch.from_numpy(rows[first])].cpu().numpy()
            rollout["memory"][slots[first] // self._length, rows[first]] = starts
        obs, valid = torch.from_numpy(rollout["obs"][slots, rows]), rollout["valid"][slots, rows]
        if len(self._policies) == 1:
            outputs, values = self._policies[0].act(obs, rows, valid)
            rollout["value"][slots, rows] = values.cpu().numpy()
            return outputs
        outputs = np.zeros((len(rows), self._external.outputs), np.float32)
        for index, policy in enumerate(self._policies):
            own = np.flatnonzero(playing == index)
            if own.size:
                outputs[own], values = policy.act(obs[torch.from_numpy(own)], rows[own], valid[own])
                rollout["value"][slots[own], rows[own]] = values.cpu().numpy()
        return outputs

    def _check_policies(self, playing: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
        count = len(self._policies)
        unknown = np.flatnonzero((playing < 0) | (playing >= count))
        if unknown.size:
            env, seat = divmod(int(rows[unknown[0]]), self._spec.seats)
            raise ValueError(
                f"env {env}, seat {seat} is to be played by policy {playing[unknown[0]]}, but there are {count} "
                "(0 is the learner, frozen opponents follow): pass the opponents to the learner first, or change the "
                "table of policies"
            )

    def _end_episodes(self, slots: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Reset the recurrent state of rows whose episodes ended, after copying that of truncated ones."""
        truncated = self._rollout["truncated"][slots, rows]
        ended = rows[truncated | self._rollout["terminated"][slots, rows]]
        if not ended.size:
            return
        if truncated.any():
            state = None if self._state is None else self._state[torch.from_numpy(rows[truncated])]
            self._finals.append(Finals(slots[truncated], rows[truncated], state))
        for policy in self._policies:
            policy.reset(ended)

    def _bootstrap(self) -> None:
        """Compute the values of the last slot and of final observations."""
        rollout, learner = self._rollout, self._policies[0]
        values = learner.infer(torch.from_numpy(rollout["obs"][-1]), learner.state)[1]
        rollout["value"][-1] = values.cpu().numpy()
        if self._finals:
            slots, rows = (np.concatenate([final[i] for final in self._finals]) for i in range(2))
            states = [final.state for final in self._finals if final.state is not None]
            obs = torch.from_numpy(np.concatenate(self._final_obs))
            values = learner.infer(obs, torch.cat(states) if states else None)[1]
            rollout["bootstrap"][slots, rows] = values.cpu().numpy()
        self._forget_finals()

    def _forget_finals(self) -> None:
        self._finals.clear()
        self._final_obs.clear()

    def advantages(self, settings: dict[str, Any]) -> None:
        """Fill advantage, target and weight from the rest of the rollout."""
        self._external.advantages(settings)

    def _units(self, minibatch_size: int) -> int:
        """Return the number of steps, or of sequences, per minibatch."""
        return minibatch_size if self._state is None else max(1, minibatch_size // self._length)

    def _data(self, settings: Mapping[str, Any], rollout: Mapping[str, NDArray[Any]] | None = None) -> RolloutData:
        recurrent = None
        if self._state is not None:
            recurrent = SequenceStarts(self._length, torch.from_numpy(self._rollout["memory"]).to(self._device))
        return RolloutData(
            self._rollout if rollout is None else rollout,
            self._features,
            self._device,
            normalize=settings["normalize_advantages"],
            recurrent=recurrent,
        )

    def update(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Update the policy from the rollout, then the statistics."""
        self.hardware.use_threads()
        iteration = settings["iteration"]

        def order(epoch: int, count: int) -> Tensor:
            return torch.from_numpy(self._external.order(iteration, epoch, count))

        size = self._units(settings["minibatch_size"])
        report = self._update.run(self._data(settings), settings, size, order)
        self._external.update_statistics(settings)
        self._features.set_statistics(self._external.statistics())
        return report

    def iterate(self, pool: _core.Pool, settings: dict[str, Any], count: int, seconds: float) -> dict[str, Any]:
        """Run up to `count` iterations with equal settings, or as many as begin within `seconds`."""
        start = time.perf_counter()
        reports: list[dict[str, Any]] = []
        while not reports or (len(reports) < count and time.perf_counter() - start < seconds):
            begun = time.perf_counter()
            now = {**settings, "iteration": settings["iteration"] + len(reports)}
            env, inference = self._collect(pool, now)
            collected = time.perf_counter()
            report = self.update(now)
            done = time.perf_counter()
            report |= {"steps": int((self._rollout["weight"] > 0).sum()), "rows": self._rollout["weight"].size}
            report |= {"seconds_env": env, "seconds_inference": inference}
            report |= {"seconds_learn": done - collected, "seconds_total": done - begun}
            reports.append(report)
        count = len(reports)
        return {
            "iterations": count,
            "explained_variance": self._external.explained_variance(),
            **{name: sum(report[name] for report in reports) / count for name in _MEANS},
            **{name: sum(report[name] for report in reports) for name in _SUMS},
        }

    def gradient(self, settings: dict[str, Any]) -> tuple[dict[str, NDArray[np.float32]], dict[str, float]]:
        """Return the gradient of the whole rollout as one batch, and the loss."""
        self.hardware.use_threads()
        loss = self._update.gradient(self._data(settings), settings)
        gradients = self._optimizer.gradients()
        self._optimizer.gradient.zero_()
        return gradients, loss

    def rollout(self) -> dict[str, NDArray[Any]]:
        """Return views of the rollout's arrays, time first."""
        return self._rollout

    @torch.no_grad()
    def act(self, request: ActRequest) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Act on observations that are no part of a rollout: actions, log-probabilities, values."""
        obs = torch.from_numpy(self._checked(request.obs))
        state: Tensor | None = self._policy.initial_memory(len(obs))
        if request.state is not None and state is not None:
            if request.state.shape != tuple(state.shape):
                found, expected = list(request.state.shape), list(state.shape)
                raise ValueError(f"state has shape {found}: expected {expected}")
            state = torch.from_numpy(request.state).to(self._device)
        outputs, value, after = self._policies[0].infer(obs, state)
        if request.state is not None and after is not None:
            changed = after.cpu().numpy()
            valid = request.valid
            request.state[...] = changed if valid is None else np.where(valid[:, None], changed, request.state)
        actions, log_prob = self._external.sample(outputs, request)
        return actions, log_prob, value.cpu().numpy()

    def _checked(self, obs: ArrayLike) -> NDArray[Any]:
        """Convert observations to the env's shape and dtype."""
        like = self._rollout["obs"]
        array = np.ascontiguousarray(obs, like.dtype)
        if array.shape[1:] != like.shape[2:]:
            expected = list(like.shape[2:])
            raise ValueError(f"the observations have shape {list(array.shape)}: expected [rows] and then {expected}")
        return array

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the policy's weights by name."""
        return self._optimizer.arrays()

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the policy's weights."""
        self._optimizer.set_arrays(arrays)

    def statistics(self) -> dict[str, NDArray[np.float64]]:
        """Return the running statistics that belong to the policy."""
        return self._external.statistics()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return optimiser moments, running statistics and recurrent states."""
        arrays = {**self._optimizer.state(), **self._external.state()}
        for index, policy in enumerate(self._policies):
            if policy.state is not None:
                arrays[_state_name(index)] = policy.state.cpu().numpy().copy()
        return arrays

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replace the parts that `state` has."""
        self._optimizer.set_state(state)
        self._external.set_state(dict(state))
        self._features.set_statistics(self._external.statistics())
        for index, policy in enumerate(self._policies):
            array = state.get(_state_name(index))
            if policy.state is None or array is None:
                continue
            if array.shape != tuple(policy.state.shape):
                found, expected = list(array.shape), list(policy.state.shape)
                raise ValueError(f'"{_state_name(index)}" has shape {found}: expected {expected}')
            policy.state = torch.from_numpy(array.copy()).to(self._device)
