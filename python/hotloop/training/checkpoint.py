"""Checkpoints: folders of arrays with a manifest that appear at once, and are refused if anything is wrong with them.

`policy.safetensors` (weights and statistics) is byte-identical for equal runs; `state.safetensors` has whatever else
resuming needs; `manifest.json` describes the policy and the machine, and has the checksums of all three. A run's
`checkpoints` fall on fixed counts of iterations; its `recovery` folder has at most one more, which the clock decides,
so that a kill loses little. Reading arrays never executes code, and code that a manifest names must be trusted.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import files
from hotloop.errors import CheckpointError, UnusableCheckpointError
from hotloop.files import UnreadableFileError
from hotloop.training.manifest_schema import ManifestError, check_manifest
from hotloop.training.trust import check_trust, code_in_manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hotloop.ppo.learners import Learner

FORMAT: Final = 2
# Format 1 had no seal, and named the best checkpoint in a file beside the checkpoints.
_UNSEALED: Final = 1
KIND: Final = "hotloop checkpoint"
FOLDER: Final = "checkpoints"
RECOVERY: Final = "recovery"
POLICY: Final = "policy.safetensors"
STATE: Final = "state.safetensors"
MANIFEST: Final = "manifest.json"
FIRST: Final = "first.safetensors"
_BEST: Final = "best.json"
# Prefixes of statistics among the arrays of a policy.
_STATISTICS: Final = ("observations.", "returns.")
_STEPS: Final = re.compile(r"0|[1-9][0-9]{0,18}")

Arrays = dict[str, "NDArray[Any]"]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files match their checksums, and whose code, if it names any, is trusted."""

    path: Path
    manifest: dict[str, Any]

    @property
    def steps(self) -> int:
        """Environment steps that the run had made."""
        steps: int = self.manifest["steps"]
        return steps

    def policy(self) -> tuple[Arrays, Arrays]:
        """Return weights and statistics by name."""
        return split_statistics(self._arrays(POLICY))

    def policy_bytes(self) -> bytes:
        """Return the content of `policy.safetensors`."""
        return _covered(self.path, POLICY, self.manifest)

    def state(self) -> tuple[Arrays, bytes, dict[str, Any]]:
        """Return the learner's state, the envs' snapshot, and the trainer's counters."""
        arrays = self._arrays(STATE)
        try:
            envs, trainer = arrays.pop("envs").tobytes(), json.loads(arrays.pop("trainer").tobytes())
        except (KeyError, ValueError, RecursionError):
            trainer = None
        if not isinstance(trainer, dict):
            raise CheckpointError(f"the checkpoint {self.path} is damaged: {STATE} lacks the envs or the counters")
        return arrays, envs, trainer

    def _arrays(self, name: str) -> Arrays:
        return _load_arrays(self.path / name, _covered(self.path, name, self.manifest))


def policy_bytes(learner: Learner) -> bytes:
    """Return the content of `policy.safetensors`: a function of the weights and statistics alone."""
    from safetensors.numpy import save

    return save({**learner.arrays(), **learner.statistics()})


def save(
    folder: Path,
    policy: bytes,
    learner: Arrays,
    envs: bytes,
    trainer: dict[str, Any],
    manifest: dict[str, Any],
) -> Path:
    """Write a checkpoint to `folder/<steps>`; a failure leaves nothing behind."""
    from safetensors.numpy import save as to_bytes

    state = {
        **learner,
        "envs": np.frombuffer(envs, np.uint8),
        "trainer": np.frombuffer(json.dumps(trainer).encode(), np.uint8),
    }
    content = {POLICY: policy, STATE: to_bytes(state)}
    evaluated = trainer["evaluated_at"] == trainer["iterations"]
    full = {
        "kind": KIND,
        "format": FORMAT,
        **manifest,
        # The best checkpoint is the one whose evaluation is: no other file could disagree.
        "evaluation": trainer["evaluation"] if evaluated else None,
        # Controllers that change the env forget the best: what was the best before still is, until there is another.
        "best": evaluated and trainer["best"] in (None, trainer["evaluation"]),
        "files": {name: files.checksum(data) for name, data in content.items()},
    }
    content[MANIFEST] = files.seal(full)
    target = folder / str(manifest["steps"])
    files.place_folder(target, content)
    return target


def policy_files(policy: bytes, manifest: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of a checkpoint to act with, which has no state to resume from."""
    covered = {POLICY: files.checksum(policy), STATE: files.checksum(b"")}
    full = {"kind": KIND, "format": FORMAT, **manifest, "evaluation": None, "best": False, "files": covered}
    return {POLICY: policy, MANIFEST: files.seal(full)}


def open_checkpoint(path: Path, *, trust: bool, with_state: bool = True) -> Checkpoint:
    """Return the checkpoint in a folder, checked; a `CheckpointError` says what is wrong with it.

    Args:
        path: The folder.
        trust: Whether code that it names may be executed even though the run was not made here.
        with_state: Whether it can be resumed from; a copy to act with has no state.
    """
    manifest = _read_manifest(path)
    check_trust(run_of(path), code_in_manifest(manifest), trust=trust)
    for name in (POLICY, STATE) if with_state else (POLICY,):
        _covered(path, name, manifest)
    return Checkpoint(path, manifest)


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint's folder, checked against its own checksum and its schema."""
    if path.is_symlink():
        raise CheckpointError(f"{path} is a symbolic link, which no checkpoint is: name the folder it leads to")
    try:
        manifest = files.read_object(path / MANIFEST)
    except UnreadableFileError as error:
        raise CheckpointError(f"{path} is no checkpoint, or is damaged: {error}") from None
    if manifest.get("kind") != KIND:
        raise CheckpointError(f"{path} is no checkpoint of Hotloop: {MANIFEST} does not say that it is one")
    version = manifest.get("format")
    if type(version) is int and version > FORMAT:
        raise UnusableCheckpointError(
            f"the checkpoint {path} has format {version}, this version reads {FORMAT}: use a newer hotloop"
        )
    if version not in (_UNSEALED, FORMAT) or (version == FORMAT and not files.is_sealed(manifest)):
        raise CheckpointError(f"the checkpoint {path} is damaged: {MANIFEST} does not match its checksum")
    try:
        check_manifest(manifest)
        if path.parent.name in (FOLDER, RECOVERY) and path.name != str(manifest["steps"]):
            raise ManifestError(f"steps is {manifest['steps']}, but the folder is {path.name}")
    except ManifestError as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {MANIFEST}: {error}") from None
    return manifest


def run_of(checkpoint: Path) -> Path:
    """Return the folder of the run that a checkpoint lies in."""
    return Path(os.path.abspath(checkpoint)).parent.parent  # noqa: PTH100 - links stay as they are


def open_policy(path: Path, *, trust: bool, warn: Callable[[str], None]) -> Checkpoint:
    """Return the checkpoint to act with: the one in this folder, or the best of this run, or its newest usable one.

    `warn` hears of checkpoints that cannot be used and may be the best, and what is used instead.
    """
    if os.path.lexists(path / MANIFEST):
        return open_checkpoint(path, trust=trust)
    try:
        for name in (FOLDER, RECOVERY):
            check_folder(path / name)
        paths = newest_first(path)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    if not paths:
        if not (path / FOLDER).is_dir():
            raise CheckpointError(f"{path} is neither a run nor a checkpoint: it has no {FOLDER} and no {MANIFEST}")
        raise CheckpointError(f"the run {path} has no checkpoint yet")
    best, unreadable = find_best(path / FOLDER)
    # Whether one without a manifest is the best cannot be known.
    reasons = list(unreadable.values())
    wanted = [path / FOLDER / str(best)] if best is not None else []
    for candidate in [*wanted, *(each for each in paths if each not in wanted)]:
        if candidate in unreadable:
            continue
        try:
            found = open_checkpoint(candidate, trust=trust)
        except CheckpointError as error:
            reasons.append(str(error))
        else:
            for reason in reasons:
                warn(f"{reason}; the checkpoint at step {found.steps} is used instead")
            return found
    raise CheckpointError("; ".join(reasons))


def check_folder(path: Path) -> None:
    """Raise a `CheckpointError` if there is anything but a real folder at a path."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        kind = "a symbolic link" if path.is_symlink() else "not a folder"
        raise CheckpointError(f"the run {path.parent} is damaged: {path.name} is {kind}; put the real folder there")


def checkpoint_paths(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first; links are none."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _STEPS.fullmatch(path.name) and path.is_dir()]
    return sorted((path for path in found if not path.is_symlink()), key=lambda path: int(path.name))


def newest_first(run: Path) -> list[Path]:
    """Return all checkpoints of a run, newest first; of two at the same step, that of `checkpoints` comes first."""
    found = [*checkpoint_paths(run / RECOVERY), *checkpoint_paths(run / FOLDER)]
    return sorted(found, key=lambda path: int(path.name))[::-1]


def best_steps(folder: Path) -> int | None:
    """Return which checkpoint had the best evaluation; `None` if none had any."""
    return find_best(folder)[0]


def find_best(folder: Path) -> tuple[int | None, dict[Path, str]]:
    """Return which checkpoint had the best evaluation, of equal ones the oldest, and why others cannot be considered.

    After a controller changed the env, returns do not compare any more, and a lower one can be the best.

    Checkpoints of version 0.1.0 do not say how they were evaluated; a file beside them names the best one.
    """
    best: tuple[int, float] | None = None
    unreadable: dict[Path, str] = {}
    old = False
    for path in checkpoint_paths(folder):
        try:
            manifest = _read_manifest(path)
        except CheckpointError as error:
            unreadable[path] = str(error)
            continue
        old = old or manifest["format"] == _UNSEALED
        mean = (manifest.get("evaluation") or {}).get("mean", math.nan)
        if manifest.get("best") and not math.isnan(mean):
            best = best if best is not None and mean == best[1] else (int(path.name), mean)
    for path in folder.iterdir() if folder.is_dir() else ():
        if _STEPS.fullmatch(path.name) and (path.is_symlink() or not path.is_dir()):
            unreadable[path] = f"{path} is not a folder, so it is no checkpoint"
    if old and os.path.lexists(folder / _BEST):
        try:
            named = files.read_object(folder / _BEST)
        except UnreadableFileError as error:
            unreadable[folder / _BEST] = f"the best checkpoint of {folder.parent} is unknown: {error}"
            named = {}
        steps, mean = named.get("steps"), named.get("mean")
        if type(steps) is int and isinstance(mean, int | float) and (folder / str(steps)).is_dir():
            best = best if best is not None and best[1] > mean else (steps, mean)
    return None if best is None else best[0], unreadable


def prune(run: Path, keep_last: int) -> None:
    """Remove old checkpoints and the recovery one; the best one stays, as do damaged ones, of which any may be it."""
    folder = run / FOLDER
    best, unreadable = find_best(folder)
    usable = [path for path in checkpoint_paths(folder) if path not in unreadable]
    for path in usable[:-keep_last]:
        if int(path.name) != best:
            files.remove_folder(path)
    if (run / RECOVERY).is_dir():
        files.remove_folder(run / RECOVERY)


def keep_only(path: Path) -> None:
    """Remove all other checkpoints of a folder."""
    for other in checkpoint_paths(path.parent):
        if other != path:
            files.remove_folder(other)


def set_aside(run: Path, paths: Sequence[Path]) -> Path:
    """Move checkpoints to a new folder `checkpoints.old-N` of the run; return that folder."""
    folder = files.unused_name(run, f"{FOLDER}.old")
    for path in paths:
        files.set_aside(path, folder)
    return folder


def load_first(data: bytes, path: Path) -> tuple[Arrays, Arrays]:
    """Return the initial weights and statistics in the content of `first.safetensors`."""
    return split_statistics(_load_arrays(path, data))


def split_statistics(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return the weights, and the statistics of observations and returns, of a policy's arrays."""
    weights = {name: array for name, array in arrays.items() if not name.startswith(_STATISTICS)}
    return weights, {name: array for name, array in arrays.items() if name.startswith(_STATISTICS)}


def _covered(path: Path, name: str, manifest: dict[str, Any]) -> bytes:
    """Return the content of a file that the manifest has the checksum of."""
    expected = manifest["files"][name]
    try:
        data = files.read_bytes(path / name, expected["bytes"])
    except UnreadableFileError as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {error}") from None
    if hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise CheckpointError(f"the checkpoint {path} is damaged: {name} does not match its checksum")
    return data


def _load_arrays(path: Path, data: bytes) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, KeyError, TypeError, ValueError, MemoryError) as error:
        raise CheckpointError(f"{path} is damaged: {str(error) or type(error).__name__}") from None
