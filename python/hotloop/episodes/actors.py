"""Action sources for episodes: a trained policy or a random one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.policies.protocol import ActRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.envs.spec import Action
    from hotloop.episodes.episode import Chooser, Episode
    from hotloop.policies.policy import Policy


def random_actor(episode: Episode) -> Chooser:
    """Return a uniformly random policy over legal actions; unbounded dimensions get a range of 2."""
    action = episode.spec.action
    draws = np.random.default_rng([episode.seed, episode.index])

    def choose(obs: NDArray[Any], mask: NDArray[np.int8] | None, step: int) -> NDArray[Any]:
        rows, parts = len(obs), []
        if sets := action.choices:
            allowed = np.ones((rows, sum(sets)), np.int8) if mask is None else mask
            masks = np.split(allowed, np.cumsum(sets)[:-1], axis=1)
            parts.append(np.stack([_one_of_each(part, draws) for part in masks], 1))
        if action.low:
            low, high = _bounds(action)
            parts.append(low + (high - low) * draws.random((rows, len(low)), np.float32))
        return np.concatenate(parts, axis=1, dtype=action.dtype).reshape(rows, *action.shape)

    return choose


def _bounds(action: Action) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    low, high = np.array(action.low, np.float32), np.array(action.high, np.float32)
    below = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2, -1)).astype(np.float32)
    above = np.where(np.isfinite(high), high, below + 2).astype(np.float32)
    return below, above


def _one_of_each(allowed: NDArray[np.int8], draws: np.random.Generator) -> NDArray[np.int64]:
    """Return a random legal column of each row; 0 where none is legal."""
    keys = draws.random(allowed.shape) * (allowed != 0)
    first: NDArray[np.int64] = keys.argmax(1)
    return first


def policy_actor(agent: Policy, episode: Episode, *, deterministic: bool = True) -> Chooser:
    """Return a policy's mode actions, or actions sampled as in an evaluation with the episode's seed."""
    memory = np.zeros((episode.seats, agent.learner.memory_len), np.float32)

    def choose(obs: NDArray[Any], mask: NDArray[np.int8] | None, step: int) -> NDArray[Any]:
        request = ActRequest(
            obs,
            mask,
            deterministic=deterministic,
            seed=episode.seed,
            step=step,
            first_row=episode.index * episode.seats,
            state=memory,
            valid=episode.valid,
        )
        actions, _, _ = agent.learner.act(request)
        return actions

    return choose
