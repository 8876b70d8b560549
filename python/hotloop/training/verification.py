"""Verification: repeat a run from its stored config, and compare everything that its folder claims."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import CheckpointError
from hotloop.files import UnreadableFileError, checksum, is_sealed, read_bytes, read_object
from hotloop.text import plain
from hotloop.tracking import journal
from hotloop.training import checkpoint as checkpoints
from hotloop.training.callbacks import Callback, CheckpointReport
from hotloop.training.checkpoint import Checkpoint, open_checkpoint
from hotloop.training.comparison import (
    compare_checkpoints,
    compare_events,
    compare_replays,
    compare_status,
    difference,
    read_events,
)
from hotloop.training.lookup import find_run
from hotloop.training.plan import Repetition
from hotloop.training.policy_ladder import LADDER
from hotloop.training.recorder import recorded_options
from hotloop.training.runs import CONFIG, STATUS, config_changes, differences, read_first, read_status
from hotloop.training.trust import stored_config

if TYPE_CHECKING:
    from hotloop.config import Config

_LIMITS: Final = ("steps", "episodes", "minutes", "until")
# Parts of a config that a resumed run may have changed, or that --debug changes for a while.
_CHANGEABLE: Final = {"train": (*_LIMITS, "learner"), "track": ("interval",), "runner": ("num_threads",)}
_NEVER_CHECKED: Final = (
    "dates, times and speeds; host, threads, learner and versions; episodes that records list in detail; the store"
)


@dataclass(frozen=True)
class Verification:
    """The result of repeating a run."""

    path: Path
    steps: int
    iterations: int
    same_policy: bool
    """Whether the newest `policy.safetensors` is byte for byte the same."""
    records: int
    """Number of records, evaluations, checkpoints and events of the journal that were compared."""
    differences: tuple[str, ...]
    """Everything that is damaged or differs, the first few of each kind."""
    notes: tuple[str, ...]
    """Possible explanations of a difference, such as another version."""
    unchecked: tuple[str, ...] = ()
    """Claims of the run's folder that a repetition cannot check."""

    @property
    def same(self) -> bool:
        """Whether there is no difference."""
        return self.same_policy and not self.differences


def verify(
    run: str | Path, *, home: str | Path | None = None, callbacks: Sequence[Callback] = (), trust: bool = False
) -> Verification:
    """Repeat a run up to its newest checkpoint, in a folder of its own, and compare everything with it.

    Compared are the config with the one that the run was started with, every checkpoint that was kept (weights,
    optimiser, envs, counters, description) and which one is best, every record, evaluation and event, the status, the
    replays, and the results that `hotloop eval` recorded. `unchecked` lists what a repetition cannot check.
    """
    from hotloop.envs.loader import load_env
    from hotloop.envs.registry import is_native
    from hotloop.training import opponents
    from hotloop.training.start import begin

    path = find_run(run, home)
    config = stored_config(path, trust=trust)
    load_env(config.env.name)
    kept, found = _kept(path, trust=trust)
    if not kept:
        raise CheckpointError("; ".join(found) or f"the run {path.name!r} has no checkpoint to compare with")
    events = read_events(path / journal.NAME)
    newest, native = kept[-1], is_native(config.env.name)
    found += _check_claims(path, config, newest, events)
    notes = _explanations(newest, events, native=native)
    comparison = _Comparison(kept, with_envs=native)
    with tempfile.TemporaryDirectory(prefix="hotloop-verify-") as folder:
        trainer = begin(
            _without_trackers(config),
            # Replays have the name, and a colleague's copy may lie in a folder of another name.
            name=str(read_status(path).get("run") or path.name),
            home=folder,
            store="none",
            callbacks=[comparison, *callbacks],
            repeated=_repetition(events, kept),
            first=read_first(path),
            opponents=opponents.kept(path, config, trust=trust),
        )
        again = trainer.run()
        if again.ended == "interrupted":
            # A repetition that was cut short says nothing about the run.
            raise KeyboardInterrupt
        same = trainer.session.policy_bytes() == newest.policy_bytes()
        notes += _other_conditions(newest.manifest, checkpoints.newest_first(again.path))
        found += comparison.differences()
        best, repeated_best = (checkpoints.best_steps(each / checkpoints.FOLDER) for each in (path, again.path))
        if best != repeated_best:
            found.append(f"the best checkpoint is that of step {repeated_best}, not of step {best}")
        repeated = read_events(again.path / journal.NAME)
        records, changed = compare_events(events, repeated, newest.steps)
        status = read_status(path)
        at_end = status.get("iterations") == newest.manifest["iterations"]
        found += [*changed, *compare_status(status, read_status(again.path), complete=at_end)] if status else changed
        ended = any(event["event"] == "end" for event in events)
        found += _check_ends(config, events, repeated, newest, status)
        kept_names, names = (
            {path.name for path in checkpoints.checkpoint_paths(each / checkpoints.FOLDER)}
            for each in (path, again.path)
        )
        found += [f"the checkpoint at step {name} is missing" for name in sorted(names - kept_names, key=int)]
        found += compare_replays(path / "replays", again.path / "replays", newest.steps, ended=ended) if native else []
    played, unplayed = _check_evaluations(path, config, events, kept, trust=trust, native=native)
    return Verification(
        path=path,
        steps=again.steps,
        iterations=again.iterations,
        same_policy=same,
        records=records,
        differences=tuple(found + played),
        notes=tuple(notes),
        unchecked=(_NEVER_CHECKED, *_unchecked(path, config, events, newest, native=native), *unplayed),
    )


class _Comparison(Callback):
    """Compares the checkpoints of a run with those of its repetition, as they are written."""

    def __init__(self, kept: Sequence[Checkpoint], *, with_envs: bool) -> None:
        self._kept = {found.steps: found for found in kept}
        self._with_envs = with_envs
        self._found: dict[int, list[str]] = {}

    def checkpoint(self, report: CheckpointReport) -> None:
        """Compare; after a rollback a step is reached once more, and the last time counts."""
        if (kept := self._kept.get(report.steps)) is not None:
            repeated = open_checkpoint(report.path, trust=True)
            self._found[report.steps] = compare_checkpoints(kept, repeated, with_envs=self._with_envs)

    def differences(self) -> list[str]:
        """Return all differences, also those of checkpoints that were not repeated."""
        missing = [f"the checkpoint at step {steps} was not repeated" for steps in self._kept.keys() - self._found]
        return [*sorted(missing), *(each for found in self._found.values() for each in found)]


def _kept(run: Path, *, trust: bool) -> tuple[list[Checkpoint], list[str]]:
    """Return the complete checkpoints, oldest first, and what is wrong with everything else."""
    complete: dict[int, Checkpoint] = {}
    wrong = []
    for path in reversed(checkpoints.newest_first(run)):
        try:
            found = open_checkpoint(path, trust=trust)
            complete[found.steps] = found
        except CheckpointError as error:
            wrong.append(str(error))
    for folder in (run / checkpoints.FOLDER, run / checkpoints.RECOVERY):
        known = {path.name for path in checkpoints.checkpoint_paths(folder)} | {"best.json"}
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            wrong.append(f"{folder.name} is not a folder")
        elif folder.is_dir():
            strange = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
            wrong += [f"{folder.name}/{name} is no checkpoint" for name in sorted(strange) if name not in known]
    return list(complete.values()), wrong


def _repetition(events: Sequence[dict[str, Any]], kept: Sequence[Checkpoint]) -> Repetition:
    """Return the schedule of the run up to its newest checkpoint, as its journal and that checkpoint have it."""
    newest = kept[-1]
    last = newest.manifest["iterations"]
    known = journal.valid(events, newest.steps)
    at = {
        kind: {event.get("iterations", 0) for event in known if event["event"] == kind}
        for kind in ("iteration", "evaluation", "checkpoint")
    }
    _, _, counters = newest.state()
    # The checkpoint knows of a last record and evaluation even if the journal has lost them.
    since, evaluated_at = counters.get("since"), counters.get("evaluated_at")
    if isinstance(since, dict) and since.get("iterations") == 0:
        at["iteration"].add(last)
    if evaluated_at == last:
        at["evaluation"].add(last)
    at["checkpoint"].update(found.manifest["iterations"] for found in kept)
    within = {kind: frozenset(when for when in found if 0 < when <= last) for kind, found in at.items()}
    return Repetition(last, within["iteration"], within["evaluation"], within["checkpoint"])


def _without_trackers(config: Config) -> Config:
    return config.model_copy(update={"track": config.track.model_copy(update={"trackers": []})})


def _explanations(newest: Checkpoint, events: Sequence[dict[str, Any]], *, native: bool) -> list[str]:
    """Return known reasons for which a repetition may differ."""
    from hotloop import _core

    found = []
    version = newest.manifest["versions"]["hotloop"]
    if version != _core.__version__:
        found.append(f"the run was made with version {version}, this is {_core.__version__}")
    if len(past := newest.manifest.get("learners", [])) > 1:
        found.append(f"the run changed learners on its way ({', '.join(past)}): one learner cannot repeat its bits")
    if not native and sum(event["event"] == "start" for event in events) > 1:
        found.append("the run was resumed, and its envs may not offer their state: such a run cannot be repeated")
    return found


def _other_conditions(kept: dict[str, Any], repeated: Sequence[Path]) -> list[str]:
    """Return which of the conditions under which the torch learner repeats its bits are not met."""
    now = open_checkpoint(repeated[0], trust=True).manifest.get("torch", {}) if repeated else {}
    before = kept.get("torch", {})
    return [
        f"torch: {name} was {before.get(name)}, is {value}" for name, value in now.items() if before.get(name) != value
    ]


def _check_claims(run: Path, config: Config, newest: Checkpoint, events: Sequence[dict[str, Any]]) -> list[str]:
    """Return contradictions between the files of a run that need no repetition."""
    found = [f"{CONFIG}: {each}" for each in config_changes(run, config)]
    try:
        covered = read_status(run).get("files", {}).get(CONFIG)
        if not found and covered is not None and checksum(read_bytes(run / CONFIG)) != covered:
            found.append(f"{CONFIG} does not match its checksum in {STATUS}")
        if newest.manifest["format"] > 1 and not is_sealed(read_object(run / STATUS)):
            found.append(f"{STATUS} does not match its checksum")
    except UnreadableFileError as error:
        found.append(str(error))
    starts = [event for event in events if event["event"] == "start"]
    if not starts:
        found.append(f"{journal.NAME} does not say how the run was started")
    expected = _fixed(config.model_dump(mode="json"))
    for event in starts:
        recorded = event.get("config")
        changes = differences(_fixed(recorded), expected) if isinstance(recorded, dict) else ["the config is missing"]
        # As the journal has them: with numbers of nine digits.
        options = plain(recorded_options(config.env))
        facts = {"env": config.env.name, "seed": config.train.seed, "env_options": options}
        changes += differences({key: event.get(key) for key in facts}, facts)
        found += [f"start at step {event.get('steps')}: {each}" for each in changes[:3]]
    return found


def _fixed(config: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a config that resuming a run cannot change."""
    parts = {key: value for key, value in config.items() if key != "torch"}
    return {
        part: {key: value for key, value in values.items() if key not in _CHANGEABLE.get(part, ())}
        for part, values in parts.items()
        if isinstance(values, dict)
    }


def _check_ends(
    config: Config,
    events: Sequence[dict[str, Any]],
    repeated: Sequence[dict[str, Any]],
    newest: Checkpoint,
    status: dict[str, Any],
) -> list[str]:
    """Return what is wrong with how the run is said to have ended."""
    ends = [event for event in events if event["event"] == "end" and event.get("status") != "failed"]
    again = next((event for event in reversed(repeated) if event["event"] == "end"), None)
    ended = status.get("ended")
    if not ends or again is None:
        return [f"{STATUS}: it ended ({ended}), but {journal.NAME} has no end"] if ended is not None else []
    last, found = ends[-1], []
    if ended is not None and last.get("ended") != ended:
        found.append(f"its end: ended was {last.get('ended')!r}, {STATUS} has {ended!r}")
    if not _could_end(config, str(last.get("ended")), newest):
        found.append(f"it cannot have ended by {last.get('ended')}")
    if last.get("iterations") != newest.manifest["iterations"]:
        found.append(f"it ended at iteration {last.get('iterations')}, where there is no checkpoint")
    for key in ("episodes", "return_recent"):
        change = difference(last.get(key), again.get(key), (), key)
        if change is not None and not found:
            found.append(f"its end: {change}")
    beyond = [event for event in events if event.get("steps", 0) > newest.steps]
    if beyond:
        found.append(f"{len(beyond)} events after step {newest.steps}, where it ended")
    return found


def _could_end(config: Config, ended: str, newest: Checkpoint) -> bool:
    """Return whether a limit was reached at the newest checkpoint; minutes and code of the user cannot be checked."""
    train, (_, _, counters) = config.train, newest.state()
    if ended in ("steps", "episodes"):
        limit = getattr(train, ended)
        return limit is not None and counters.get(ended, 0) >= limit
    if ended == "solved":
        evaluation = counters.get("evaluation")
        return train.until is not None and isinstance(evaluation, dict) and evaluation["mean"] >= train.until
    return ended in ("minutes", "interrupted", "callback", "controller")


def _check_evaluations(
    run: Path,
    config: Config,
    events: Sequence[dict[str, Any]],
    kept: Sequence[Checkpoint],
    *,
    trust: bool,
    native: bool,
) -> tuple[list[str], list[str]]:
    """Play what `hotloop eval` recorded again; return what differs, and what cannot be played."""
    from hotloop.loading import checkpoint_policy
    from hotloop.training.recorded_evaluation import repeat_evaluation

    by_steps = {found.steps: found for found in kept}
    found, unplayed = [], []
    for event in events:
        if event["event"] != "eval":
            continue
        steps, claimed = event.get("steps"), event.get("evaluation")
        checkpoint = by_steps.get(steps) if isinstance(steps, int) else None
        if not native or checkpoint is None or config.opponents.policies:
            unplayed.append(f"an evaluation by 'hotloop eval' at step {steps}")
            continue
        try:
            again = repeat_evaluation(checkpoint_policy(checkpoint), event)
        except (KeyError, TypeError, ValueError) as error:
            found.append(f"eval at step {steps} cannot be played again: {error}")
            continue
        if again is None:
            unplayed.append(f"an evaluation by an older 'hotloop eval' at step {steps}")
        elif (change := difference(claimed, plain(vars(again)))) is not None:
            found.append(f"eval at step {steps}: {change}")
    return found, unplayed


def _unchecked(
    run: Path, config: Config, events: Sequence[dict[str, Any]], newest: Checkpoint, *, native: bool
) -> list[str]:
    """Return claims of this run that its repetition cannot check."""
    found = []
    troubles = {str(event.get("kind")) for event in events if event["event"] == "trouble"}
    if machine := sorted(troubles - {"rolled-back", "not-finite", "return-collapsed"}):
        found.append(f"events of the machine: {', '.join(machine)}")
    if any(event["event"] == "resources" for event in events):
        found.append("resources that the run took")
    if later := sum(event.get("steps", 0) > newest.steps for event in events):
        found.append(f"{later} events after the newest checkpoint")
    if not native:
        found.append("the state of Python envs")
    if config.train.minutes is not None:
        found.append("whether its minutes were over")
    if checkpoints.checkpoint_paths(run / LADDER):
        found.append(f"policies kept for watching ({LADDER})")
    return found
