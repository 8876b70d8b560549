"""Evaluation of a policy: whole episodes with its most probable actions, on envs and random keys of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hotloop import _core
from hotloop.envs.reward_weights import set_reward_weights
from hotloop.envs.spec import EnvSpec
from hotloop.errors import ConfigError
from hotloop.policies.evaluation import Evaluation
from hotloop.policies.protocol import ActRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.episodes.best_replays import Top
    from hotloop.policies.protocol import BatchPolicy

# Envs that play at once; each plays one episode, so that short episodes do not count more often than long ones.
_AT_ONCE: Final = 1024
# An episode that is not over by then counts as it stands: in some envs a policy can go in circles for ever.
LONGEST: Final = 10_000


def evaluation_seed(seed: int) -> int:
    """The seed of a run's evaluations: another stream than that of its training."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/eval".encode(), digest_size=8).digest(), "little")


class EvaluationRunner(Protocol):
    """The part of a runner that an evaluation needs; envs reset in the same step."""

    num_envs: int
    """Rows."""
    env_spec: EnvSpec

    def reset(self, *, seed: int) -> tuple[NDArray[Any], dict[str, Any]]: ...  # noqa: D102
    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], Any, Any, Any, dict[str, Any]]: ...  # noqa: D102
    def _take_episodes(self) -> _core._Episodes: ...


Progress = Callable[[int, int], object]
"""Called with the number of episodes that are over, and of all."""


@dataclass(frozen=True)
class Opponents:
    """Frozen policies of an evaluation, and who plays where."""

    policies: Sequence[BatchPolicy]
    table: Callable[[range], Sequence[Sequence[int]]]
    """The policy of each seat, for a range of envs."""


def evaluate(
    policy: BatchPolicy,
    env: str,
    options: dict[str, Any],
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    num_threads: int | None = None,
    action_repeat: int = 1,
    top: Top | None = None,
    reward_weights: Mapping[str, float] | None = None,
    opponents: Opponents | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Play episodes of a native env, one each of as many envs, and summarise them.

    Args:
        policy: The policy to evaluate.
        env: Name of a native env.
        options: Its options.
        episodes: Number of episodes. With several agents an episode counts once, with the mean over its agents.
        seed: Key of all randomness.
        deterministic: Whether to take the most probable actions.
        num_threads: Threads that step the envs.
        action_repeat: Ticks per step.
        top: Collects the best episodes.
        reward_weights: Weights of reward terms that differ from 1.
        opponents: Frozen policies that play some seats; their returns do not count.
        progress: Called after every step with the episodes that are done; an exception ends the evaluation.
    """
    played: list[_Episode] = []
    for first in range(0, episodes, _AT_ONCE):
        envs = range(first, min(first + _AT_ONCE, episodes))
        with closing(_NativeRunner(env, options, envs, num_threads, action_repeat)) as runner:
            runner.set_reward_weights(reward_weights or {})
            policies = [policy]
            if opponents is not None:
                policies += opponents.policies
                runner.set_policies(opponents.table(envs))
            taken: list[NDArray[Any]] | None = None if top is None else []
            found = _play(
                Players(policies, runner.num_envs),
                runner,
                quota=1,
                seed=seed,
                deterministic=deterministic,
                first_row=first * runner.env_spec.seats,
                taken=taken,
                progress=None if progress is None else partial(_shifted, progress, len(played), episodes),
            )
            played += [episode for episodes_of_env in found.values() for episode in episodes_of_env]
            if top is not None and taken is not None:
                returns = np.zeros(runner.num_envs)
                for unit, (episode, *_) in found.items():
                    returns[unit * runner.env_spec.seats] = episode.total
                top.add(first, runner.env_spec.seats, taken, returns)
    return _summary(played, runner)


def evaluate_on(
    policy: BatchPolicy,
    runner: EvaluationRunner,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    opponents: Sequence[BatchPolicy] = (),
    progress: Progress | None = None,
) -> Evaluation:
    """Play episodes on a runner, equally many of each env, and summarise them; one that a fault cut is played again.

    Args:
        policy: The policy to evaluate.
        runner: Envs that reset in the same step; opponents' seats are set already.
        episodes: Number of episodes. With several agents an episode counts once, with the mean over its agents,
            unless their rows end independently.
        seed: Key of all randomness.
        deterministic: Whether to take the most probable actions.
        opponents: Frozen policies that play some seats; their returns do not count.
        progress: Called after every step with the episodes that are done; an exception ends the evaluation.
    """
    quota = -(-episodes * _unit_size(runner.env_spec) // runner.num_envs)
    found = _play(
        Players([policy, *opponents], runner.num_envs),
        runner,
        quota=quota,
        seed=seed,
        deterministic=deterministic,
        progress=None if progress is None else lambda done: progress(min(done, episodes), episodes),
    )
    # Every env's first episodes, so that short ones do not count more often than long ones.
    rounds = [of_unit[i] for i in range(quota) for of_unit in found.values() if i < len(of_unit)]
    return _summary(rounds[:episodes], runner)


def check_fit(known: EnvSpec, spec: EnvSpec, env: str) -> None:
    """Raise a `ConfigError` unless a policy that was trained in an env with the known spec can act in this one."""
    if not known.fits(spec):
        raise ConfigError(f"the policy does not fit {env} with these options: other spaces")


class Players:
    """Policies that act together, each for its own rows and with a memory of its own."""

    def __init__(self, policies: Sequence[BatchPolicy], rows: int) -> None:
        self._policies = policies
        self._memories = [np.zeros((rows, policy.memory_len), np.float32) for policy in policies]

    def act(self, obs: NDArray[Any], info: dict[str, Any], **keys: Any) -> NDArray[Any]:
        """Return every row's action, by the policy that `info` names for it."""
        mask, valid = info.get("action_mask"), info.get("valid")
        if len(self._policies) == 1:
            return self._policies[0].act(ActRequest(obs, mask, state=self._memories[0], valid=valid, **keys))[0]
        actions: NDArray[Any] | None = None
        for index, (policy, memory) in enumerate(zip(self._policies, self._memories, strict=True)):
            mine = info["policy"] == index
            if mine.any():
                # All rows are passed, so that noise is keyed by row; only its own move a policy's memory.
                chosen = policy.act(ActRequest(obs, mask, state=memory, valid=mine & valid, **keys))[0]
                actions = chosen.copy() if actions is None else actions
                actions[mine] = chosen[mine]
        assert actions is not None
        return actions

    def end_episodes(self, over: NDArray[np.bool_]) -> None:
        """Clear the memory of rows whose episode ended."""
        for memory in self._memories:
            memory[over] = 0.0


class _NativeRunner:
    """A pool of native envs as an evaluation needs it, without the imports of a Gymnasium vector env."""

    def __init__(
        self, env: str, options: dict[str, Any], envs: range, num_threads: int | None, action_repeat: int
    ) -> None:
        self._pool = _core.Pool(
            env,
            len(envs),
            num_threads=num_threads,
            options=options,
            first_env=envs.start,
            autoreset="same_step",
            action_repeat=action_repeat,
        )
        self.env_spec = EnvSpec.from_json(self._pool.describe())
        self.num_envs = len(envs) * self.env_spec.seats
        self.step = self._pool.step
        self.close = self._pool.close

    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        set_reward_weights(self._pool, self.env_spec.terms, weights)

    def set_policies(self, table: Sequence[Sequence[int]]) -> None:
        self._pool.set_policies([policy for seats in table for policy in seats])

    def reset(self, *, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
        self._pool.seed(seed)
        return self._pool.reset()

    def _take_episodes(self) -> _core._Episodes:
        return self._pool.episodes()


@dataclass
class _Episode:
    """One episode: sums over the agents that the policy played."""

    agents: int
    total: float
    length: float
    extra: NDArray[np.float64]

    def add(self, total: float, length: float, extra: NDArray[Any]) -> None:
        self.agents += 1
        self.total += float(total)
        self.length += float(length)
        self.extra += extra


def _play(
    players: Players,
    runner: EvaluationRunner,
    *,
    quota: int,
    seed: int,
    deterministic: bool,
    first_row: int = 0,
    taken: list[NDArray[Any]] | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[int, list[_Episode]]:
    """Return the first episodes of every env, or of every row if rows end apart."""
    rows, size, spec = runner.num_envs, _unit_size(runner.env_spec), runner.env_spec
    runner._take_episodes()
    obs, info = runner.reset(seed=seed)
    everyone = np.ones(rows, np.bool_)
    # Seats that nobody takes, and those of opponents, have no episodes.
    mine = info.get("policy", np.zeros(rows, np.int32)) == 0
    takes_part = info.get("valid", everyone) & mine
    found: dict[int, dict[int, _Episode]] = {}
    # Of the episodes that are not over.
    total, length = np.zeros(rows), np.zeros(rows, np.int64)
    width = len(spec.terms) + len(spec.metrics)
    done = 0

    def episode(row: int, number: int) -> _Episode:
        of_unit = found.setdefault(row // size, {})
        return of_unit.setdefault(
            len(of_unit) if spec.independent_rows else number, _Episode(0, 0.0, 0.0, np.zeros(width))
        )

    def lacking() -> NDArray[np.intp]:
        units = np.unique(np.flatnonzero(takes_part) // size)
        return np.array([unit for unit in units.tolist() if len(found.get(unit, ())) < quota], np.intp)

    done, since_end = 0, np.zeros(rows // size, np.int64)
    for step in count():
        valid = info.get("valid", everyone)
        actions = players.act(obs, info, deterministic=deterministic, seed=seed, step=step, first_row=first_row)
        if taken is not None:
            # Choices are small numbers, and there may be many of them.
            taken.append(actions.astype(np.int16) if actions.dtype.kind == "i" else actions)
        obs, reward, terminated, truncated, info = runner.step(actions)
        if progress is not None:
            progress(done)
        total += reward
        length += valid
        takes_part |= info.get("valid", everyone) & mine
        over = terminated | truncated
        if over.any():
            players.end_episodes(over)
            total[over], length[over] = 0.0, 0
            # Asked for at every end, so that no row's first episode is pushed out of the list of recent ones.
            ended = runner._take_episodes()
            columns = (ended[name] for name in ("rows", "numbers", "returns", "lengths", "extras"))
            for row, number, *result in zip(*columns, strict=True):
                episode(int(row), int(number)).add(*result)
            done = sum(min(quota, len(of_unit)) for of_unit in found.values())
        since_end += 1
        since_end[np.flatnonzero(over) // size] = 0
        # The limit is one of episodes, not of the evaluation: each env may have several to play.
        if (over.any() or since_end.max() >= LONGEST) and not (since_end[lacking()] < LONGEST).any():
            break
    if progress is not None:
        progress(done)
    # Cut off by the limit: these count as they stand. Python envs report metrics at an episode's end only.
    unknown = np.zeros(width)
    unknown[len(spec.terms) :] = np.nan if spec.state_version == 0 else 0.0
    unfinished = np.isin(np.arange(rows) // size, lacking())
    for row in np.flatnonzero(unfinished & takes_part & (length > 0)).tolist():
        episode(row, 2**63).add(total[row], length[row], unknown)
    return {unit: list(of_unit.values())[:quota] for unit, of_unit in sorted(found.items())}


def _unit_size(spec: EnvSpec) -> int:
    """Return how many rows share an episode."""
    return 1 if spec.independent_rows else spec.seats


def _shifted(progress: Progress, before: int, episodes: int, done: int) -> None:
    progress(before + done, episodes)


def _summary(episodes: Sequence[_Episode], runner: EvaluationRunner) -> Evaluation:
    extra, terms = [each.extra / each.agents for each in episodes], len(runner.env_spec.terms)
    return Evaluation.of(
        np.array([each.total / each.agents for each in episodes]),
        np.array([each.length / each.agents for each in episodes]),
        {name: np.array([values[terms + i] for values in extra]) for i, name in enumerate(runner.env_spec.metrics)},
    )
