"""Checkpoints: folders of arrays and a manifest that appear at once, and are refused when anything is wrong with them.

`policy.safetensors` (weights and statistics) is byte-identical for equal runs; `state.safetensors` has what going on
needs besides; `manifest.json` has what differs between machines. Loading one never executes code.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.errors import CheckpointError
from hotloop.training.files import place_folder, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hotloop.ppo.learners import Learner

FORMAT: Final = 1
_KIND: Final = "hotloop checkpoint"
_POLICY: Final = "policy.safetensors"
_STATE: Final = "state.safetensors"
_MANIFEST: Final = "manifest.json"
_BEST: Final = "best.json"
_FIRST: Final = "first.safetensors"
# What statistics are called among the arrays of a policy.
_STATISTICS: Final = ("observations.", "returns.")

Arrays = dict[str, "NDArray[Any]"]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose manifest was read and whose files are whole."""

    path: Path
    manifest: dict[str, Any]

    @property
    def steps(self) -> int:
        """How many steps the run had made."""
        steps: int = self.manifest["steps"]
        return steps

    def policy(self) -> tuple[Arrays, Arrays]:
        """Weights and statistics by name."""
        return _parted(_arrays(self.path / _POLICY))

    def state(self) -> tuple[Arrays, bytes, dict[str, Any]]:
        """The learner's state, the envs' snapshot, and the trainer's counters."""
        arrays = _arrays(self.path / _STATE)
        envs, trainer = arrays.pop("envs").tobytes(), arrays.pop("trainer").tobytes()
        return arrays, envs, json.loads(trainer)


def policy_bytes(learner: Learner) -> bytes:
    """What `policy.safetensors` holds: a function of the weights and statistics alone."""
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
    """Writes a checkpoint to `folder/<steps>`; a failure leaves nothing behind."""
    from safetensors.numpy import save as to_bytes

    told = json.dumps(trainer).encode()
    state = {
        **learner,
        "envs": np.frombuffer(envs, np.uint8),
        "trainer": np.frombuffer(told, np.uint8),
    }
    files = {_POLICY: policy, _STATE: to_bytes(state)}
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    full = {"kind": _KIND, "format": FORMAT, **manifest, "files": sums}
    files[_MANIFEST] = json.dumps(full, indent=2).encode() + b"\n"
    target = folder / str(manifest["steps"])
    place_folder(target, files)
    return target


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder, checked; a `CheckpointError` tells what is wrong with it."""
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} is no checkpoint: cannot read {_MANIFEST}: {error.strerror}") from None
    except ValueError:
        raise CheckpointError(f"the checkpoint {path} is damaged: {_MANIFEST} is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != _KIND:
        raise CheckpointError(f"{path} is no checkpoint of Hotloop: {_MANIFEST} does not say that it is one")
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint {path} has format {manifest.get('format')!r}, this version reads {FORMAT}"
        )
    for name in (_POLICY, _STATE):
        expected = manifest.get("files", {}).get(name, {})
        try:
            data = (path / name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"the checkpoint {path} is damaged: cannot read {name}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
            raise CheckpointError(f"the checkpoint {path} is damaged: {name} is not what the manifest says")
    return Checkpoint(path, manifest)


def newest_good(folder: Path, refused: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; why newer ones are not is told."""
    for path in reversed(checkpoint_paths(folder)):
        try:
            return open_checkpoint(path)
        except CheckpointError as error:
            refused(str(error))
    return None


def open_policy(path: Path) -> Checkpoint:
    """The checkpoint to act with: the one in this folder, or the best of this run, or its newest that is whole."""
    if (path / _MANIFEST).is_file():
        return open_checkpoint(path)
    folder = path / "checkpoints"
    if not folder.is_dir():
        raise CheckpointError(f"{path} is neither a run nor a checkpoint: it has no checkpoints and no {_MANIFEST}")
    reasons: list[str] = []
    if (best := best_steps(folder)) is not None:
        try:
            return open_checkpoint(folder / str(best))
        except CheckpointError as error:
            reasons.append(str(error))
    found = newest_good(folder, reasons.append)
    if found is None:
        raise CheckpointError("; ".join(reasons) or f"the run {path} has no checkpoint yet")
    return found


def checkpoint_paths(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = [path for path in folder.glob("*") if path.name.isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def best_steps(folder: Path) -> int | None:
    """Which checkpoint is the best, if an evaluation said so."""
    try:
        told = json.loads((folder / _BEST).read_bytes())
        return int(told["steps"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def tell_best(folder: Path, steps: int, mean: float) -> None:
    """Notes down which checkpoint is the best."""
    write_atomically(folder / _BEST, json.dumps({"steps": steps, "mean": mean}).encode() + b"\n")


def prune(folder: Path, keep_last: int) -> None:
    """Removes old checkpoints; the best one stays."""
    best = best_steps(folder)
    for path in checkpoint_paths(folder)[:-keep_last]:
        if int(path.name) != best:
            shutil.rmtree(path)


def forget_after(folder: Path, steps: int) -> None:
    """Removes what was made after the step that a run goes on from."""
    for path in _after(folder, steps):
        shutil.rmtree(path)
    if (best := best_steps(folder)) is not None and best > steps:
        (folder / _BEST).unlink()


def keep_first(run: Path, source: Checkpoint) -> None:
    """Copies the weights that a run begins with into its folder."""
    write_atomically(run / _FIRST, (source.path / _POLICY).read_bytes())


def kept_first(run: Path) -> tuple[Arrays, Arrays] | None:
    """The weights and statistics that a run began with, if they were another's."""
    path = run / _FIRST
    return _parted(_arrays(path)) if path.exists() else None


def _parted(arrays: Arrays) -> tuple[Arrays, Arrays]:
    weights = {name: array for name, array in arrays.items() if not name.startswith(_STATISTICS)}
    return weights, {name: array for name, array in arrays.items() if name.startswith(_STATISTICS)}


def _after(folder: Path, steps: int) -> Iterator[Path]:
    return (path for path in checkpoint_paths(folder) if int(path.name) > steps)


def _arrays(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from None
