"""Routes of episodes to watch: kept replays and fresh ones."""

from __future__ import annotations

import hashlib
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from hotloop import _core
from hotloop.envs.registry import is_native
from hotloop.episodes.best_replays import SUFFIX
from hotloop.episodes.frames import replay_frames
from hotloop.episodes.replay import Replay, read_replay
from hotloop.errors import ReplayError
from hotloop.server.models import base
from hotloop.server.models import watch as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.routes_runs import RunPath
from hotloop.server.rows import is_live
from hotloop.server.services import services
from hotloop.tracking.store import is_here
from hotloop.training.policy_ladder import note_watcher

if TYPE_CHECKING:
    from hotloop.tracking.store import StoredRun

router = APIRouter()

ReplayName = Annotated[str, Path(max_length=200)]
# Bytes of a replay file that is read: those of Hotloop are far smaller.
MAX_REPLAY: Final = 50_000_000


def _folder(run: StoredRun) -> FilePath:
    if not is_here(run):
        raise ProblemError(409, f"the folder of the run {run.name!r} is on {run.host}, not on this machine")
    return run.path / "replays"


def replay_files(run: StoredRun) -> dict[str, FilePath]:
    """The replays in a run's folder by their names; links are none."""
    folder = _folder(run)
    if folder.is_symlink() or not folder.is_dir():
        return {}
    return {
        path.name: path
        for path in folder.iterdir()
        if path.suffix == SUFFIX and path.is_file() and not path.is_symlink()
    }


def find_replay(run: StoredRun, name: str) -> FilePath:
    """The file of a replay; only names of the listing are looked up."""
    files = replay_files(run)
    if name not in files:
        raise ProblemError(404, f"the run {run.name!r} has no replay of that name", near=sorted(files)[:3])
    return files[name]


def read_bounded(path: FilePath) -> Replay:
    """A replay whose file has a reasonable size."""
    if path.stat().st_size > MAX_REPLAY:
        raise ReplayError("the replay is too large to be one of Hotloop")
    try:
        return read_replay(path)
    except ReplayError as error:
        # No paths of this machine in answers.
        raise ReplayError(str(error).replace(str(path), path.name)) from None


@router.get("/runs/{run}/replays", response_model=models.Replays)
async def list_replays(request: Request, run: RunPath) -> Response:
    """List the kept replays of a run, the best first."""
    found = services(request)

    def make() -> dict[str, Any]:
        one = found.store.find(run)
        if not is_here(one):
            return {"replays": [], "folder_here": False}
        entries = [_entry(path) for path in replay_files(one).values()]
        entries.sort(key=lambda entry: (entry["return"] is None, -(entry["return"] or 0.0), entry["name"]))
        return {"replays": entries, "folder_here": True}

    return json_response(request, await found.access.run(make))


def _entry(path: FilePath) -> dict[str, Any]:
    facts: dict[str, Any] = {"return": None, "steps": 0, "seed": "0", "index": 0, "step": None, "note": None}
    size, changed = path.stat().st_size, path.stat().st_mtime
    try:
        replay = read_bounded(path)
    except ReplayError as error:
        facts["note"] = str(error)
    else:
        step = replay.about.get("steps")
        facts |= {"return": replay.total, "steps": replay.steps, "seed": str(replay.seed), "index": replay.index}
        facts["step"] = step if isinstance(step, int) else None
    return {"name": path.name, **facts, "time": changed, "bytes": size}


@router.get(
    "/runs/{run}/replays/{name}",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The file."}},
)
async def get_replay(request: Request, run: RunPath, name: ReplayName) -> Response:
    """The file of a replay, for `hotloop play --replay`."""
    found = services(request)
    path = await found.access.run(lambda: find_replay(found.store.find(run), name))
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


@router.get("/runs/{run}/replays/{name}/frames", response_model=models.Frames)
async def get_frames(request: Request, run: RunPath, name: ReplayName) -> Response:
    """A replay as drawing data, once it was checked that it repeats as recorded."""
    found = services(request)

    def make() -> bytes:
        path = find_replay(found.store.find(run), name)
        digest = (
            hashlib.blake2b(path.read_bytes(), digest_size=16).digest() if path.stat().st_size < MAX_REPLAY else b""
        )
        body: bytes = found.frames.get(("frames", name, digest), lambda: _frames(path))
        return body

    return json_response(request, await found.access.run(make))


@router.post("/runs/{run}/play", response_model=models.Frames)
async def play(request: Request, run: RunPath, body: models.PlayRequest) -> Response:
    """Play one episode with a policy of the run: its best, a kept one, or the one it had at a step."""
    found = services(request)

    def prepare() -> tuple[StoredRun, str]:
        one = found.store.find(run)
        _folder(one)
        if body.checkpoint == "newest" and is_live(one):
            note_watcher(one.path)
        return one, str(one.path)

    _, path = await found.access.run(prepare)
    return json_response(request, await found.player.play({**body.model_dump(), "path": path}))


@router.post("/runs/{run}/verify", status_code=202, response_model=base.Accepted)
async def verify(request: Request, run: RunPath, body: base.Empty) -> Response:
    """Repeat a run and compare every bit; progress and result come as `verify` events."""
    found = services(request)

    def prepare() -> StoredRun:
        one = found.store.find(run)
        _folder(one)
        if is_live(one):
            raise ProblemError(409, f"the run {one.name!r} is running: verify it when it has ended")
        return one

    one = await found.access.run(prepare)
    found.verifier.start(one, str(found.settings.home))
    return json_response(request, {"run": one.id, "what": "verifying"}, 202)


def _frames(path: FilePath) -> tuple[dict[str, Any], int]:
    replay = read_bounded(path)
    if not is_native(replay.env) or not _core.has_env(replay.env):
        raise ProblemError(
            422, f"the replay is of {replay.env}, whose code the server does not load: watch it with 'hotloop play'"
        )
    drawn = replay_frames(replay, f"{replay.env}, return {replay.total:.6g}")
    # About what it takes as Python objects.
    return drawn, 100 * len(drawn["shapes"]) + 10 * sum(map(len, drawn["frames"])) + 2000 * len(drawn["rewards"])
