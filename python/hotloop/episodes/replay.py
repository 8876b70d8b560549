"""Replays: an episode as its env's options, its key and its actions, in a small file.

Rewards and checksums of observations come along, by which a replay is known to be exact. A file holds arrays and JSON;
reading one never executes code.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.envs.spec import native_spec
from hotloop.episodes.episode import Episode
from hotloop.errors import EnvError, ReplayError
from hotloop.files import output_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT: Final = 1
_KIND: Final = "hotloop replay"
_FACTS: Final = "replay"


@dataclass(frozen=True)
class Replay:
    """One episode."""

    env: str
    state_version: int
    """Version of the env's rules and state; 0 for Python envs."""
    options: dict[str, Any]
    """All options of the env."""
    action_repeat: int
    seed: int
    index: int
    """The env's index among those that share the seed."""
    actions: NDArray[Any]
    """Step by step, of every seat."""
    rewards: NDArray[np.float32]
    """Step by step, of every seat."""
    observations: NDArray[np.uint32]
    """Checksums of all seats' observations: one more than steps."""
    made_by: str
    """The version of Hotloop."""
    about: dict[str, Any] = field(default_factory=dict)
    """Metadata: the run, its step, how actions were chosen."""
    reward_weights: dict[str, float] = field(default_factory=dict)
    """Weights of reward terms that differ from 1."""
    wrap: dict[str, Any] = field(default_factory=dict)
    """Wrappers of a Python env."""

    @classmethod
    def of(cls, episode: Episode, **about: Any) -> Self:
        """Make a replay of an episode as far as it was played."""
        return cls(
            env=episode.env,
            state_version=episode.spec.state_version,
            options=episode.options,
            action_repeat=episode.action_repeat,
            seed=episode.seed,
            index=episode.index,
            actions=np.array(episode.actions),
            rewards=np.array(episode.rewards, np.float32).reshape(-1, episode.seats),
            observations=np.array(episode.sums, np.uint32),
            made_by=_core.__version__,
            about=about,
            reward_weights=episode.reward_weights,
            wrap=episode.wrap,
        )

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.actions)

    @property
    def total(self) -> float:
        """Return of all seats together; of a run with opponents, of those that the learner played."""
        played = self.about.get("policies") or ["learner"] * self.rewards.shape[1]
        mine = [seat for seat, policy in enumerate(played) if policy == "learner"]
        return float(self.rewards[:, mine].sum(dtype=np.float64))

    def begin(self, render_mode: str | None = None) -> Episode:
        """Return the env at the start of the episode; raises `ReplayError` if this version cannot make it."""
        if not is_native(self.env):
            return self._episode(render_mode)
        if not _core.has_env(self.env):
            raise ReplayError(f"the replay is of the env {self.env!r}, which this version does not have")
        try:
            version = native_spec(self.env, self.options).state_version
        except (ValueError, TypeError) as error:
            raise ReplayError(
                f"the replay was made by hotloop {self.made_by} with options that this version refuses: {error}"
            ) from None
        if version != self.state_version:
            raise ReplayError(
                f"the replay is of version {self.state_version} of {self.env}, and this hotloop has version {version}: "
                f"show it with hotloop {self.made_by}"
            )
        return self._episode()

    def _episode(self, render_mode: str | None = None) -> Episode:
        return Episode(
            self.env,
            self.options,
            seed=self.seed,
            index=self.index,
            action_repeat=self.action_repeat,
            render_mode=render_mode,
            reward_weights=self.reward_weights,
            wrap=self.wrap,
        )

    def check(self) -> None:
        """Play the replay; raise `ReplayError` if a reward or an observation differs."""
        episode = self.begin()
        try:
            for step, actions in enumerate(self.actions):
                if episode.sums[-1] != self.observations[step]:
                    raise self._other(f"the observation before step {step}")
                if episode.ended is not None:
                    raise self._other(f"the length, which now ends at step {step}")
                try:
                    episode.step(actions)
                except (ValueError, TypeError, EnvError) as error:
                    raise ReplayError(f"the replay is damaged: at step {step}, {error}") from None
                if not np.array_equal(episode.rewards[-1], self.rewards[step]):
                    raise self._other(f"the reward of step {step}")
            if episode.sums[-1] != self.observations[self.steps]:
                raise self._other("the last observation")
        finally:
            episode.close()

    def _other(self, what: str) -> ReplayError:
        versions = f"it was made by hotloop {self.made_by}, this is {_core.__version__}"
        return ReplayError(f"the replay does not repeat as recorded: {what} differs ({versions})")


def write_replay(path: Path, replay: Replay) -> None:
    """Write a replay to a file that a user names; on failure leave nothing behind."""
    with output_file(path) as part:
        part.write_bytes(replay_bytes(replay))


def replay_bytes(replay: Replay) -> bytes:
    """Return the content of a replay's file."""
    from safetensors.numpy import save

    facts = {
        "kind": _KIND,
        "format": FORMAT,
        **{name: getattr(replay, name) for name in _PLAIN},
        "return": replay.total,
    }
    arrays = {name: np.ascontiguousarray(getattr(replay, name)) for name in _ARRAYS}
    return save(arrays, {_FACTS: json.dumps(facts)})


def read_replay(path: Path) -> Replay:
    """Read a replay; raises `ReplayError` if it is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):  # noqa: PTH113 - a name of any length is no error
        raise ReplayError(f"there is no replay {path}")
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {}).get(_FACTS, "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except OSError as error:
        raise ReplayError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, ValueError, RecursionError):
        raise ReplayError(f"{path} is not a replay or is damaged") from None
    if not isinstance(facts, dict) or facts.get("kind") != _KIND:
        raise ReplayError(f"{path} is not a Hotloop replay")
    if facts.get("format") != FORMAT:
        raise ReplayError(f"the replay {path} has format {facts.get('format')!r}, this version reads {FORMAT}")
    try:
        # Replays of version 0.1 have neither.
        facts = {"reward_weights": {}, "wrap": {}, **facts}
        replay = Replay(**{name: facts[name] for name in _PLAIN}, **{name: arrays[name] for name in _ARRAYS})
        _check(replay)
    except (KeyError, TypeError, ValueError) as error:
        raise ReplayError(f"the replay {path} is damaged: {error}") from None
    return replay


_PLAIN: Final = {
    "env": str,
    "state_version": int,
    "options": dict,
    "wrap": dict,
    "action_repeat": int,
    "reward_weights": dict,
    "seed": int,
    "index": int,
    "made_by": str,
    "about": dict,
}
_ARRAYS: Final = ("actions", "rewards", "observations")


def _check(replay: Replay) -> None:
    for name, kind in _PLAIN.items():
        if type(found := getattr(replay, name)) is not kind:
            raise ValueError(f"{name} is {str(found)[:80]!r}")
    if replay.rewards.ndim != 2:
        raise ValueError(f"rewards have the shape {replay.rewards.shape}")
    steps = len(replay.actions)
    if len(replay.rewards) != steps or replay.observations.shape != (steps + 1,):
        raise ValueError(
            f"{steps} actions, {len(replay.rewards)} rewards and {len(replay.observations)} observations do not fit"
        )
