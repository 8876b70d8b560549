"""Replays of the best evaluation episodes in a run's folder: a few, chosen deterministically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import files
from hotloop.episodes.episode import Episode
from hotloop.episodes.replay import Replay, read_replay, replay_bytes
from hotloop.errors import ReplayError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SUFFIX: Final = ".replay"
_MOST: Final = 3


class Top:
    """Collects the best episodes during one evaluation."""

    def __init__(
        self,
        env: str,
        options: Mapping[str, Any],
        *,
        seed: int,
        action_repeat: int = 1,
        most: int = _MOST,
        policies: Callable[[int], list[str]] | None = None,
        reward_weights: Mapping[str, float] | None = None,
    ) -> None:
        self._env = env
        self._options = options
        self._seed = seed
        self._action_repeat = action_repeat
        self._most = most
        self._policies = policies
        self._reward_weights = reward_weights
        self._best: list[tuple[float, int, NDArray[Any]]] = []

    def add(self, first_env: int, seats: int, taken: list[NDArray[Any]], returns: NDArray[Any]) -> None:
        """Consider a batch of envs: every row's actions, step by step, and its return."""
        totals = np.asarray(returns, np.float64).reshape(-1, seats).sum(1)
        for env in np.argsort(-totals, kind="stable")[: self._most].tolist():
            rows = slice(env * seats, (env + 1) * seats)
            actions = np.stack([step[rows] for step in taken])
            self._best.append((float(totals[env]), first_env + env, actions))
        self._best = sorted(self._best, key=lambda found: (-found[0], found[1]))[: self._most]

    def replays(self, least: float, **about: Any) -> list[Replay]:
        """Return the best episodes as replays, best first, with a return above `least`."""
        found = []
        for total, index, actions in self._best:
            if total <= least:
                break
            episode = Episode(
                self._env,
                self._options,
                seed=self._seed,
                index=index,
                action_repeat=self._action_repeat,
                reward_weights=self._reward_weights,
            )
            for step in actions:
                if episode.ended is not None:
                    break
                episode.step(step.astype(np.int64) if step.dtype.kind == "i" else step)
            policies = {} if self._policies is None else {"policies": self._policies(index)}
            found.append(Replay.of(episode, **about, **policies))
            episode.close()
        return found


def kept(folder: Path) -> list[tuple[Path, Replay]]:
    """Return the replays in a run's folder, best first; ties by age, then by index."""
    return sorted(_read(folder)[0], key=lambda entry: _rank(entry[1]))


def _read(folder: Path) -> tuple[list[tuple[Path, Replay]], dict[Path, str]]:
    """Return the replays in a folder, and what is wrong with the damaged ones."""
    found, damaged = [], {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            replay = read_replay(path)
            if type(replay.about.get("steps")) is not int:
                raise ReplayError(f"the replay {path} is damaged: it does not say at which step it was made")
        except ReplayError as error:
            damaged[path] = str(error)
        else:
            found.append((path, replay))
    return found, damaged


def keep(folder: Path, top: Top, **about: Any) -> None:
    """Save an evaluation's best episodes in a run's folder if they are among the best so far.

    Args:
        folder: The folder of a run's replays.
        top: The evaluation's best episodes.
        about: Metadata; `steps`, the run's progress, decides between equal episodes.
    """
    held = kept(folder)
    least = held[-1][1].total if len(held) >= _MOST else -np.inf
    for replay in top.replays(least, **about):
        folder.mkdir(exist_ok=True)
        files.write_atomically(folder / f"{about['steps']}-{replay.index}{SUFFIX}", replay_bytes(replay))
    for path, _ in kept(folder)[_MOST:]:
        path.unlink()


def forget_after(folder: Path, steps: int) -> list[str]:
    """Delete replays made after the step from which a run resumes; set damaged ones aside, and return what is wrong."""
    found, damaged = _read(folder)
    before = sorted((entry for entry in found if entry[1].about["steps"] <= steps), key=lambda entry: _rank(entry[1]))
    kept_paths = [path for path, _ in before[:_MOST]]
    for path, _ in found:
        # Those beyond the best few are left where one could not be read for a moment.
        if path not in kept_paths:
            path.unlink()
    if not damaged:
        return []
    aside = files.unused_name(folder.parent, f"{folder.name}.old")
    for path in damaged:
        files.set_aside(path, aside)
    return [f"{reason}; it is now in {aside.name}" for reason in damaged.values()]


def _rank(replay: Replay) -> tuple[float, int, int]:
    return -replay.total, replay.about["steps"], replay.index
