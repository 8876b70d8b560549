"""The policy that a run had at any of its steps: a kept one, or one that is trained again from a checkpoint before it.

A run with native envs and the native learner is a function of its config and seed, so what is trained again is the same
policy, bit for bit.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.envs.loader import load_env
from hotloop.errors import CheckpointError
from hotloop.tracking import journal
from hotloop.training import checkpoint as checkpoints
from hotloop.training import opponents
from hotloop.training.checkpoint import Checkpoint, open_checkpoint
from hotloop.training.exactness import inexact_reason
from hotloop.training.plan import Repetition
from hotloop.training.policy_ladder import LADDER, LIVE
from hotloop.training.runs import CONFIG, STATUS, RunFolder, read_first
from hotloop.training.trainer import Trainer
from hotloop.training.trust import stored_config

if TYPE_CHECKING:
    from hotloop.config import Config

Kind = Literal["exact", "checkpoint", "newest"]
# Seconds of training that are repeated without asking.
QUICK: Final = 5.0


@dataclass(frozen=True)
class FoundPolicy:
    """A policy of a run, and how near it is to what was asked for."""

    checkpoint: Checkpoint
    kind: Kind
    step: int | None
    note: str | None = None


def kept_policy(run: Path, which: str, *, trust: bool) -> FoundPolicy:
    """Return a kept policy: `best`, `last`, `newest` (of a running run that is watched), or a step's."""
    if which == "best":
        notes: list[str] = []
        found = checkpoints.open_policy(run, trust=trust, warn=notes.append)
        return FoundPolicy(found, "checkpoint", found.steps, "; ".join(notes) or None)
    paths = _paths(run)
    if which in ("last", "newest"):
        full = [path for path in paths if path.parent.name in (checkpoints.FOLDER, checkpoints.RECOVERY)]
        candidates = [path for path in paths if path.parent.name == LIVE] + full if which == "newest" else full
    else:
        candidates = [path for path in paths if path.name == which]
    for path in sorted(candidates, key=lambda path: int(path.name), reverse=True):
        with contextlib.suppress(CheckpointError):
            found = _open(path, trust=trust)
            return FoundPolicy(found, "newest" if which == "newest" else "checkpoint", found.steps)
    raise CheckpointError(f"the run {run.name!r} has no policy {which!r}" if paths else _no_policy(run))


def _no_policy(run: Path) -> str:
    return f"the run {run.name!r} has no checkpoint yet"


def _paths(run: Path) -> list[Path]:
    """Every kept policy, with or without the state to resume from."""
    folders = (checkpoints.RECOVERY, LADDER, LIVE, checkpoints.FOLDER)
    return [path for folder in folders for path in checkpoints.checkpoint_paths(run / folder)]


def _open(path: Path, *, trust: bool) -> Checkpoint:
    return open_checkpoint(path, trust=trust, with_state=path.parent.name not in (LADDER, LIVE))


def _inexact_reason(config: Config, events: Sequence[dict[str, Any]]) -> str | None:
    learners = [str(event.get("learner", "")) for event in events if event["event"] == "start"]
    if (reason := inexact_reason(config.model_dump(mode="json"), learners)) is not None:
        return reason
    has_controllers = bool(config.control.schedules or config.control.stages)
    if not has_controllers and any(event["event"] == "control" for event in events):
        return "its controllers are not part of its config"
    return None


@contextlib.contextmanager
def policy_at(run: Path, step: int, *, trust: bool, exact: bool = False) -> Iterator[FoundPolicy]:
    """Give the policy that a run had at a step, for as long as the context is entered.

    If training again takes longer than some seconds, the nearest kept policy before the step is given instead, unless
    it is to be `exact`.
    """
    config = stored_config(run, trust=trust)
    events = journal.read_all(run / journal.NAME)
    records = [(event["steps"], event["iterations"], event["seconds"]) for event in events if _is_record(event)]
    if not records:
        raise CheckpointError(_no_policy(run))
    steps, iterations, seconds = max((found for found in records if found[0] <= step), default=records[0])
    kept = sorted(_paths(run), key=lambda path: int(path.name))
    for path in kept:
        if int(path.name) == steps:
            with contextlib.suppress(CheckpointError):
                found = _open(path, trust=trust)
                break
    else:
        found = None
    if found is not None:
        yield FoundPolicy(found, "exact", steps)
        return
    why_not = _inexact_reason(config, events)
    base = _newest_before(run, iterations, trust=trust)
    cost = seconds - (_seconds_at(records, base) if base is not None else 0.0)
    if why_not is None and (exact or cost <= QUICK):
        with _rebuilt(run, config, base, iterations, events, trust=trust) as checkpoint:
            yield FoundPolicy(checkpoint, "exact", steps)
        return
    reason = why_not or f"training again to step {steps} takes about {cost:.0f} s"
    before = [path for path in kept if int(path.name) <= steps] or kept[:1]
    for path in reversed(before):
        with contextlib.suppress(CheckpointError):
            found = _open(path, trust=trust)
            yield FoundPolicy(found, "checkpoint", steps, f"{reason}: the nearest kept policy is that of {found.steps}")
            return
    raise CheckpointError(_no_policy(run))


def _is_record(event: dict[str, Any]) -> bool:
    return event["event"] == "iteration" and all(
        isinstance(event.get(key), int | float) for key in ("steps", "iterations", "seconds")
    )


def _newest_before(run: Path, iterations: int, *, trust: bool) -> Checkpoint | None:
    """Return the newest checkpoint with state that lies before an iteration."""
    for path in checkpoints.newest_first(run):
        with contextlib.suppress(CheckpointError):
            found = open_checkpoint(path, trust=trust)
            if found.manifest["iterations"] <= iterations:
                return found
    return None


def _seconds_at(records: Sequence[tuple[int, int, float]], checkpoint: Checkpoint) -> float:
    return max((seconds for steps, _, seconds in records if steps <= checkpoint.steps), default=0.0)


@contextlib.contextmanager
def _rebuilt(
    run: Path,
    config: Config,
    base: Checkpoint | None,
    iterations: int,
    events: Sequence[dict[str, Any]],
    *,
    trust: bool,
) -> Iterator[Checkpoint]:
    """Train a run again from a checkpoint, or from its start, in a folder of its own."""
    load_env(config.env.name)
    with tempfile.TemporaryDirectory(prefix="hotloop-rebuild-") as folder:
        copy = Path(folder) / "runs" / run.name
        copy.mkdir(parents=True)
        for name in (CONFIG, STATUS):
            if (run / name).is_file():
                shutil.copyfile(run / name, copy / name)
        if base is not None:
            shutil.copytree(base.path, copy / checkpoints.FOLDER / base.path.name)
        trainer = Trainer(
            _without_extras(config),
            RunFolder(copy),
            first=read_first(run),
            opponents=opponents.kept(run, config, trust=trust),
            debug=False,
            callbacks=(),
            store=None,
            repeated=_schedule(config, events, iterations),
            recorded=False,
        )
        if base is not None:
            trainer.restore_newest()
        trainer.run()
        yield open_checkpoint(checkpoints.newest_first(copy)[0], trust=True)


def _schedule(config: Config, events: Sequence[dict[str, Any]], iterations: int) -> Repetition:
    at = {
        kind: frozenset(
            event["iterations"]
            for event in events
            if event["event"] == kind and 0 < event.get("iterations", 0) <= iterations
        )
        for kind in ("iteration", "evaluation")
    }
    return Repetition(iterations, at["iteration"], at["evaluation"] if _is_controlled(config) else frozenset())


def _is_controlled(config: Config) -> bool:
    return bool(config.control.schedules or config.control.stages)


def _without_extras(config: Config) -> Config:
    """Return the config without what does not change a weight: trackers, checkpoints and, mostly, evaluations."""
    quiet: dict[str, Any] = {"checkpoint_every": 0, "keep_last": 1}
    if not _is_controlled(config):
        quiet |= {"evaluate_every": 0, "evaluate_episodes": 0, "until": None}
    return config.model_copy(
        update={
            "train": config.train.model_copy(update=quiet),
            "track": config.track.model_copy(update={"trackers": []}),
        }
    )
