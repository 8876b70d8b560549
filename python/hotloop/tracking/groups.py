"""Groups of runs that repeat one experiment with other seeds, and the settings in which runs differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hotloop.tracking.store import StoredRun

# Settings that are meant to differ between repetitions, or that never change a result.
_IRRELEVANT: Final = {"train.seed", "runner.num_threads", "track.trackers"}
# Settings that a label names.
_MOST_NAMED: Final = 3


def group_seeds(runs: Iterable[StoredRun]) -> list[list[StoredRun]]:
    """Runs that differ in nothing but their seed, together, in the order in which the first of each comes.

    A seed counts once: a further run of the same seed is no independent sample, and is a group of its own.
    """
    groups: dict[tuple[str, int], list[StoredRun]] = {}
    seeds: dict[str, list[int]] = {}
    for run in runs:
        settings = {key: value for key, value in _settings(run).items() if key not in _IRRELEVANT}
        key = json.dumps(settings, sort_keys=True)
        earlier = seeds.setdefault(key, [])
        repetition = earlier.count(run.seed)
        earlier.append(run.seed)
        # Further runs of a seed are not pooled with each other, either.
        index = 0 if repetition == 0 else len(earlier)
        groups.setdefault((key, index), []).append(run)
    return list(groups.values())


def find_differences(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """The settings of each run in which not all are equal; seeds aside."""
    settings = [_settings(run) for run in runs]
    keys = sorted({key for one in settings for key in one} - {"train.seed"})
    differing = [key for key in keys if any(one.get(key) != settings[0].get(key) for one in settings)]
    if "env.name" in differing:
        # Options that only some of the envs have say nothing.
        differing = [key for key in differing if not key.startswith("env.") or all(key in one for one in settings)]
    return [{key: one.get(key) for key in differing} for one in settings]


def label_groups(groups: Sequence[Sequence[StoredRun]]) -> list[str]:
    """A name for each group in a legend: the run or the number of seeds, and the settings in which it differs."""
    labels = []
    for members, settings in zip(groups, find_differences([members[0] for members in groups]), strict=True):
        named = [f"{key}={value}" for key, value in settings.items() if key not in _IRRELEVANT]
        more = ["..."] if len(named) > _MOST_NAMED else []
        if len(members) > 1:
            labels.append(", ".join([members[0].env, *named[:_MOST_NAMED], *more, f"{len(members)} seeds"]))
        else:
            differing = ", ".join([*named[:_MOST_NAMED], *more])
            labels.append(f"{members[0].name} ({differing})" if differing else members[0].name)
    return labels


def _settings(run: StoredRun) -> dict[str, Any]:
    """The settings, and which weights the run began with if they were another run's."""
    weights = run.facts.get("initial_weights")
    return {**run.settings, "initial_weights": weights} if weights else run.settings
