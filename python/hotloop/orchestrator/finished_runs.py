"""Completed exact runs as answers: a submission that asks for the same bits gets them at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.orchestrator.job import CHOSEN
from hotloop.orchestrator.requests import train_key
from hotloop.tracking.store import is_in_use
from hotloop.training.checkpoint import FIRST, checkpoint_paths

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Request
    from hotloop.orchestrator.queue import Queue


def find_equal_run(queue: Queue, request: Request) -> tuple[str, Mapping[str, Any]] | None:
    """Return folder and result of a completed run in the store that a training job would only repeat."""
    if not request.exact or request.spec["init_from"] is not None or request.spec["name"] is not None:
        return None
    if request.key.startswith(CHOSEN):
        return None
    config = request.spec["config"]
    with queue.reading() as database:
        rows = database.execute(
            "SELECT path, name, config, facts, ended, steps, iterations, return_recent, best FROM runs "
            "WHERE env = ? AND seed = ? AND status = 'completed' AND ended <> 'callback' "
            # Controllers that were given in Python are not in the config.
            "AND NOT EXISTS (SELECT 1 FROM events WHERE run = runs.number AND kind = 'control')",
            (config["env"]["name"], str(config["train"]["seed"])),
        ).fetchall()
    for path, name, config_text, facts_text, ended, steps, iterations, recent, best in rows:
        version = json.loads(facts_text).get("versions", {}).get("hotloop", "")
        if train_key(json.loads(config_text), version) != request.key:
            continue
        folder = Path(path)
        weights = _last_weights(folder)
        if weights is None or (folder / FIRST).exists() or is_in_use(folder):
            continue
        result = {
            "run": name,
            "steps": steps,
            "iterations": iterations,
            "ended": ended,
            "return": recent,
            "evaluation": None,
            "best": best,
            "weights": weights,
        }
        return str(folder), result
    return None


def _last_weights(run: Path) -> str | None:
    paths = checkpoint_paths(run / "checkpoints") if run.is_dir() else []
    try:
        return hashlib.sha256((paths[-1] / "policy.safetensors").read_bytes()).hexdigest() if paths else None
    except OSError:
        return None
