"""How well a policy does: whole episodes with its most probable actions, on envs and keys of their own."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.envs.spec import native_spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.episodes.best_replays import Top
    from hotloop.policies.protocol import BatchPolicy

# Envs that play at once; each plays one episode, so that short episodes do not count more often than long ones.
_AT_ONCE: Final = 1024
# An episode that is not over by then counts as it stands: in some envs a policy can go in circles for ever.
LONGEST: Final = 10_000


@dataclass(frozen=True)
class Evaluation:
    """The mean return of some episodes, and where the true mean lies with 95 % confidence."""

    mean: float
    low: float
    high: float
    std: float
    episodes: int
    length_mean: float
    metrics: dict[str, float]
    """Means of what the env counts, `success` among it where the env defines that."""
    return_min: float = math.nan
    return_median: float = math.nan
    return_max: float = math.nan
    length_min: float = math.nan
    length_max: float = math.nan
    exact: bool = field(default=False, kw_only=True)
    """Whether it was worked out by enumeration, without playing."""

    @classmethod
    def of(cls, returns: NDArray[Any], lengths: NDArray[Any], metrics: dict[str, NDArray[Any]]) -> Evaluation:
        """From the episodes, each one entry."""
        count = len(returns)
        if not count:
            return cls(math.nan, math.nan, math.nan, math.nan, 0, math.nan, {})
        exact = returns.astype(np.float64)
        mean = math.fsum(exact) / count
        std = math.sqrt(math.fsum((exact - mean) ** 2) / (count - 1)) if count > 1 else 0.0
        margin = _student(count - 1) * std / math.sqrt(count)
        means = {name: math.fsum(values) / len(values) for name, values in metrics.items() if len(values)}
        return cls(
            mean,
            mean - margin,
            mean + margin,
            std,
            count,
            float(lengths.mean()),
            means,
            *(float(part(exact)) for part in (np.min, np.median, np.max)),
            *(float(part(lengths)) for part in (np.min, np.max)),
        )


def evaluation_seed(seed: int) -> int:
    """The seed of a run's evaluations: another stream than that of its training."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/eval".encode(), digest_size=8).digest(), "little")


def evaluate(
    learner: BatchPolicy,
    env: str,
    options: dict[str, Any],
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    num_threads: int | None = None,
    action_repeat: int = 1,
    top: Top | None = None,
) -> Evaluation:
    """Plays episodes of fresh envs, one per env (and agent), and counts them; `top` gets to see the best."""
    parts = []
    first_env = 0
    spec = native_spec(env, options)
    seats, metrics, terms = spec.seats, spec.metrics, len(spec.terms)
    envs = -(-episodes // seats)
    while first_env < envs:
        count = min(_AT_ONCE, envs - first_env)
        pool = _core.Pool(
            env,
            count,
            num_threads=num_threads,
            options=options,
            first_env=first_env,
            autoreset="same_step",
            action_repeat=action_repeat,
        )
        pool.seed(seed)
        taken: list[NDArray[Any]] | None = None if top is None else []
        parts.append(_play(learner, pool, count * seats, first_env * seats, seed, deterministic, taken))
        if top is not None and taken is not None:
            top.add(first_env, seats, taken, parts[-1][0])
        pool.close()
        first_env += count
    # Seats that nobody takes have no episodes.
    taken_seats = np.concatenate([part[3] for part in parts])
    returns, lengths = (np.concatenate([part[i] for part in parts])[taken_seats][:episodes] for i in range(2))
    extras = np.concatenate(
        [part[2][part[3]] for part in parts if part[2].size] or [np.zeros((0, terms + len(metrics)))]
    )
    return Evaluation.of(returns, lengths, {name: extras[:episodes, terms + i] for i, name in enumerate(metrics)})


def _play(
    learner: BatchPolicy,
    pool: _core.Pool,
    rows: int,
    first_row: int,
    seed: int,
    deterministic: bool,
    taken: list[NDArray[Any]] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Every row's first episode: returns, lengths, sums of terms and metrics, and whether it takes part, by row."""
    obs, info = pool.reset()
    played = np.zeros(rows, np.bool_)
    takes_part = np.array(info.get("valid", np.ones(rows, np.bool_)))
    returns, lengths, extras = np.zeros(rows), np.zeros(rows, np.int64), np.zeros((rows, 0))
    memory = np.zeros((rows, learner.memory_len), np.float32)
    for step in range(LONGEST):
        actions, _, _ = learner.act(
            obs,
            info.get("action_mask"),
            deterministic=deterministic,
            seed=seed,
            step=step,
            first_row=first_row,
            memory=memory,
            valid=info.get("valid"),
        )
        if taken is not None:
            # Choices are small numbers, and there may be many of them.
            taken.append(actions.astype(np.int16) if actions.dtype.kind == "i" else actions)
        obs, reward, terminated, truncated, info = pool.step(actions)
        returns += np.where(played, 0.0, reward)
        lengths += ~played
        if "valid" in info:
            takes_part |= info["valid"]
        over = terminated | truncated
        if over.any():
            memory[over] = 0.0
            played |= over
            # Asked for at every end, so that no row's first episode is pushed out of the list of recent ones.
            told = pool.episodes()
            first = told["numbers"] == 0
            found = told["rows"][first]
            if not extras.size:
                extras = np.zeros((rows, told["extras"].shape[1]))
            # What the core counts is exact about agents that leave early.
            returns[found], lengths[found], extras[found] = (
                told[name][first] for name in ("returns", "lengths", "extras")
            )
            if (played | ~takes_part).all():
                break
    return returns, lengths, extras, takes_part


def _student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion, which is within 0.2 % from 3 on."""
    if freedom < 1:
        return 0.0
    if freedom < 3:
        return (12.706, 4.303)[freedom - 1]
    z = 1.959963984540054
    n = float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
