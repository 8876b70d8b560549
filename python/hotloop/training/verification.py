"""Repeating a run from its stored config, and comparing what comes of it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import CheckpointError
from hotloop.tracking import journal
from hotloop.training.callbacks import Callback, CheckpointReport
from hotloop.training.checkpoint import checkpoint_paths, kept_first, newest_good, open_checkpoint
from hotloop.training.plan import Repetition
from hotloop.training.runs import find_run
from hotloop.training.trust import must_be_trusted, named_in

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.training.checkpoint import Checkpoint

# Times differ between repetitions; everything else is a function of version, config and seed.
# So does which episodes are noted in detail, by when they were asked for; what an evaluation was made for follows from
# limits, which may have changed since.
_PASSED_OVER: Final = {"seconds", "seconds_in", "steps_per_second", "time", "at", "sample", "confirms"}
# What is told on fixed counts of iterations; all else depends on the clock or the machine.
_REPEATED: Final = ("iteration", "evaluation", "control")
# Means over a record are summed in the pieces that the clock made, so their last digits may differ.
_CLOSE: Final = 1e-6


@dataclass(frozen=True)
class Verification:
    """Whether a run came out the same again."""

    path: Path
    steps: int
    iterations: int
    same_policy: bool
    """Whether the newest `policy.safetensors` is byte for byte the same."""
    records: int
    """How many lines of the metrics were compared."""
    differences: tuple[str, ...]
    """Checkpoints that are damaged or differ, and the first lines of the metrics that do, in words."""
    notes: tuple[str, ...]
    """What may explain a difference: another version, say."""

    @property
    def same(self) -> bool:
        """Whether all is the same."""
        return self.same_policy and not self.differences


def verify(
    run: str | Path, *, home: str | Path | None = None, callbacks: Sequence[Callback] = (), trust: bool = False
) -> Verification:
    """Repeats a run up to its newest checkpoint, in a folder of its own, and compares weights and metrics.

    All checkpoints that were kept are compared: the one that others act with is the best, which may not be the newest.
    """
    from hotloop import _core
    from hotloop.config.loader import stored_config
    from hotloop.envs.loader import load_env
    from hotloop.training import opponents, start

    path = find_run(run, home)
    config = stored_config(path / "config.yaml")
    must_be_trusted(path, [*named_in(config), *opponents.named_code(opponents.kept(path, config))], trust=trust)
    load_env(config.env.name)
    notes: list[str] = []
    kept, damages = _kept(path / "checkpoints")
    if not kept:
        raise CheckpointError("; ".join(damages) or f"the run {path.name!r} has no checkpoint to compare with")
    found = kept[-1]
    older = _Older(kept[:-1])
    version = found.manifest["versions"]["hotloop"]
    if version != _core.__version__:
        notes.append(f"the run was made with version {version}, this is {_core.__version__}")
    if len(past := found.manifest.get("learners", [])) > 1:
        notes.append(f"the run changed learners on its way ({', '.join(past)}): one learner cannot repeat its bits")
    with tempfile.TemporaryDirectory(prefix="hotloop-verify-") as folder:
        repeated = start.begin(
            _alone(config),
            name=path.name,
            home=folder,
            store="none",
            callbacks=[older, *callbacks],
            repeated=_repetition(path / "metrics.jsonl", kept),
            first=kept_first(path),
            opponents=opponents.kept(path, config),
        )
        again = repeated.run()
        notes += _other_conditions(found.manifest, newest_good(again.path / "checkpoints", notes.append))
        same = repeated.session.policy_bytes() == (found.path / "policy.safetensors").read_bytes()
        records, differences = compare_metrics(path / "metrics.jsonl", again.path / "metrics.jsonl", found.steps)
    return Verification(
        path=path,
        steps=again.steps,
        iterations=again.iterations,
        same_policy=same,
        records=records,
        differences=(*damages, *older.differences(), *differences),
        notes=tuple(notes),
    )


class _Older(Callback):
    """Compares the checkpoints before the newest with those that are made again."""

    def __init__(self, kept: Sequence[Checkpoint]) -> None:
        self._kept = {found.steps: found for found in kept}
        self._same: dict[int, bool] = {}

    def checkpoint(self, report: CheckpointReport) -> None:
        """Notes whether it is the same; after a rollback a step is reached once more, and the last time counts."""
        if (kept := self._kept.get(report.steps)) is not None:
            old, new = ((path / "policy.safetensors").read_bytes() for path in (kept.path, report.path))
            self._same[report.steps] = old == new

    def differences(self) -> list[str]:
        """Those that are not the same, in words."""
        told = {steps: self._same.get(steps) for steps in self._kept}
        return [
            f"the weights at step {steps} {'were not made again' if same is None else 'differ'}"
            for steps, same in told.items()
            if not same
        ]


def _kept(folder: Path) -> tuple[list[Checkpoint], list[str]]:
    """The checkpoints that are whole, oldest first, and what is wrong with the others."""
    whole, damages = [], []
    for path in checkpoint_paths(folder):
        try:
            whole.append(open_checkpoint(path))
        except CheckpointError as error:
            damages.append(str(error))
    return whole, damages


def _repetition(metrics: Path, kept: Sequence[Checkpoint]) -> Repetition:
    """All that was told up to a checkpoint is told again, also what fell on ends that the run has since gone beyond."""
    end = kept[-1]
    told = _records(metrics, end.steps)
    at = {kind: frozenset(when for event, when in told if event == kind) for kind in ("iteration", "evaluation")}
    checkpoints = frozenset(found.manifest["iterations"] for found in kept)
    return Repetition(end.manifest["iterations"], at["iteration"], at["evaluation"], checkpoints)


def _alone(config: Config) -> Config:
    """The same run, told to nobody."""
    return config.model_copy(update={"track": config.track.model_copy(update={"trackers": []})})


def _other_conditions(kept: dict[str, Any], repeated: Checkpoint | None) -> list[str]:
    """Which of the conditions under which the torch learner gives equal bits are not met."""
    now = {} if repeated is None else repeated.manifest.get("torch", {})
    before = kept.get("torch", {})
    return [
        f"torch: {name} was {before.get(name)}, is {value}" for name, value in now.items() if before.get(name) != value
    ]


def compare_metrics(kept: Path, repeated: Path, steps: int) -> tuple[int, list[str]]:
    """How many lines up to a step were compared, and how the first few that differ do."""
    old, new = (_records(path, steps) for path in (kept, repeated))
    differences = []
    for key, told in old.items():
        if key not in new:
            differences.append(f"{key[0]} at iteration {key[1]} was not repeated")
        elif (found := _difference(told, new[key])) is not None:
            differences.append(f"{key[0]} at iteration {key[1]}: {found}")
    return len(old), differences[:10]


def _records(path: Path, steps: int) -> dict[tuple[str, int], dict[str, Any]]:
    if not path.exists():
        return {}
    events = journal.valid(journal.read_all(path), steps)
    return {(event["event"], event["iterations"]): event for event in events if event["event"] in _REPEATED}


def _difference(old: Any, new: Any, name: str = "") -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if key not in _PASSED_OVER and (
                found := _difference(old.get(key), new.get(key), f"{name}.{key}".strip("."))
            ):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = (_difference(a, b, f"{name}[{i}]") for i, (a, b) in enumerate(zip(old, new, strict=True)))
        return next(filter(None, parts), None)
    # Whole numbers stand for themselves, and where the other one has a fraction, for a measured number.
    if {float} <= {type(old), type(new)} <= {float, int} and math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-9):
        return None
    return None if old == new else f"{name} was {old!r}, is {new!r}"
