"""Routes of runs: lists, groups, one run in full and its rows."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import statistics
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from hotloop.server.models import base
from hotloop.server.models import runs as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.rows import evaluation, is_live
from hotloop.server.services import services
from hotloop.tracking.chart_series import interval
from hotloop.tracking.filters import COLUMNS, Condition, RunValues
from hotloop.tracking.groups import find_differences, group_seeds, label_groups
from hotloop.tracking.marks import write_marks
from hotloop.tracking.queries import page
from hotloop.tracking.row_pages import RowPage, metric_summaries, resource_usage, row_page
from hotloop.tracking.store import is_here

if TYPE_CHECKING:
    from hotloop.tracking.run_cache import CachedStore
    from hotloop.tracking.store import StoredRun

router = APIRouter()

RunPath = Annotated[str, Path(max_length=200, description="An id, a name, the beginning of one, or `last`.")]
Text = Annotated[str, Query(max_length=500)]
Texts = Annotated[list[Annotated[str, Query(max_length=500)]], Query(max_length=50)]
After = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=5000)]
GROUP_METRICS: Final = ("best", "return_recent", "steps_per_second")


@router.get("/runs", response_model=models.RunPage)
@router.get("/sessions", name="list_sessions", response_model=models.RunPage, description="An alias of `/runs`.")
async def list_runs(
    request: Request,
    where: Texts = [],  # noqa: B006
    q: Text = "",
    sort: Text = "-created",
    columns: Annotated[str, Query(max_length=2000, description="Keys, separated by commas.")] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """List runs that match all filters, which are those of `hotloop runs list`."""
    found = services(request)
    names = [name.strip() for name in columns.split(",") if name.strip()]

    def make() -> dict[str, Any]:
        some = page(found.store, where=where, text=q, sort=sort, columns=names, limit=limit, cursor=cursor)
        stale = found.store.away_since is not None
        rows = found.rows.rows(some.runs, some.values, with_sparklines=not stale)
        return {"runs": rows, "total": some.total, "cursor": some.cursor, "stale": stale, "columns": names}

    return json_response(request, await found.access.run(make))


@router.get("/keys", response_model=models.Keys)
async def list_keys(request: Request) -> Response:
    """Names that filters and columns can use."""
    found = services(request)

    def make() -> dict[str, Any]:
        settings = sorted({key for run in found.store.runs() for key in run.settings})
        return {"columns": list(COLUMNS), "settings": settings, "metrics": found.store.metric_names()}

    return json_response(request, await found.access.run(make))


@router.get("/groups", response_model=models.Groups)
async def list_groups(
    request: Request,
    where: Texts = [],  # noqa: B006
    q: Text = "",
    by: Annotated[str, Query(max_length=200, description="`seed`, or a key whose value runs share.")] = "seed",
) -> Response:
    """Group runs that differ only in their seed, or by the value of a key."""
    found = services(request)
    return json_response(request, await found.access.run(_groups, found.store, where, q, by))


def _groups(store: CachedStore, where: Sequence[str], text: str, by: str) -> dict[str, Any]:
    chosen = page(store, where=where, text=text).runs
    groups = group_runs(store, chosen, by)
    firsts = [members[0] for members in groups]
    settings = find_differences(firsts) if firsts else []
    labels = label_groups(groups) if groups else []
    found = []
    for members, label, differing in zip(groups, labels, settings, strict=True):
        metrics = {name: _statistic(members, name) for name in GROUP_METRICS}
        ids = [run.id for run in members]
        found.append({"label": label, "env": members[0].env, "runs": ids, "settings": differing, "metrics": metrics})
    return {"groups": found}


def group_runs(store: CachedStore, runs: Sequence[StoredRun], by: str) -> list[list[StoredRun]]:
    """Runs in groups: by seed, or by the value of a key."""
    full = {run.number: run for run in store.runs(numbers=[run.number for run in runs])}
    chosen = [full[run.number] for run in runs if run.number in full]
    if by == "seed":
        return group_seeds(chosen)
    Condition.parse(f"{by}=")
    values = RunValues(store, [by])
    groups: dict[str, list[StoredRun]] = {}
    for run in chosen:
        groups.setdefault(str(values.of(run, by)), []).append(run)
    return list(groups.values())


def _statistic(runs: Sequence[StoredRun], name: str) -> dict[str, Any]:
    values = {run.id: _result(run, name) for run in runs}
    known = {run: value for run, value in values.items() if value is not None}
    if not known:
        return {"mean": None, "std": None, "n": 0, "low": None, "high": None}
    numbers = list(known.values())
    low, high = interval(numbers, ids=list(known))
    spread = statistics.stdev(numbers) if len(numbers) > 1 else None
    return {"mean": statistics.fmean(numbers), "std": spread, "n": len(numbers), "low": low, "high": high}


def _result(run: StoredRun, name: str) -> float | None:
    if name == "steps_per_second":
        return run.steps / run.seconds if run.seconds > 0 else None
    value: float | None = getattr(run, name)
    return value


@router.get("/runs/{run}", response_model=models.RunDetail)
async def show_run(request: Request, run: RunPath) -> Response:
    """Show a run in full."""
    found = services(request)
    return json_response(request, await found.access.run(lambda: found.rows.detail(found.store.find(run))))


@router.patch("/runs/{run}", response_model=models.RunDetail)
async def mark_run(request: Request, run: RunPath, body: models.RunPatch) -> Response:
    """Set a run's tags, note, pinned and hidden."""
    found = services(request)
    changes = body.model_dump(exclude_none=True)

    def change() -> dict[str, Any]:
        one = found.store.find(run)
        write_marks(found.store, one, changes)
        return found.rows.detail(one)

    detail = await found.access.run(change)
    row = {key: value for key, value in detail.items() if key in models.RunRow.model_fields}
    found.hub.publish("runs", "runs", {"runs": [row]})
    return json_response(request, detail)


@router.delete("/runs/{run}", status_code=204)
async def delete_run(request: Request, run: RunPath) -> Response:
    """Delete a run from the store, and its folder if that is on this machine."""
    found = services(request)

    def delete() -> str:
        one = found.store.find(run)
        if one.status == "running" or is_live(one):
            raise ProblemError(409, f"the run {one.name!r} is running: stop it first")
        found.store.delete(one)
        return one.id

    found.hub.publish("runs", "deleted", {"run": await found.access.run(delete)})
    return Response(status_code=204)


@router.post("/runs/{run}/stop", status_code=202, response_model=base.Accepted)
async def stop_run(request: Request, run: RunPath, body: base.Empty) -> Response:
    """Ask the process of a run to end with a checkpoint, as Ctrl-C does."""
    found = services(request)

    def stop() -> str:
        one = found.store.find(run)
        if one.host != platform.node():
            raise ProblemError(409, f"the run {one.name!r} is on {one.host}: stop it there")
        if not is_live(one) or not _holds(one.process, one.path):
            raise ProblemError(409, f"the run {one.name!r} is not running")
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.process, signal.SIGTERM)
        return one.id

    return json_response(request, {"run": await found.access.run(stop), "what": "stopping"}, 202)


def _holds(process: int, folder: FilePath) -> bool:
    """Whether a process has a run's folder open: its number may be another program's by now."""
    try:
        handles = list(FilePath(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False
    for handle in handles:
        with contextlib.suppress(OSError):
            if handle.samefile(folder):
                return True
    return False


@router.get("/runs/{run}/metrics", response_model=models.Metrics)
@router.get(
    "/sessions/{run}/metrics",
    name="list_session_metrics",
    response_model=models.Metrics,
    description="An alias of `/runs/{run}/metrics`.",
)
async def list_metrics(
    request: Request,
    run: RunPath,
    brief: Annotated[bool, Query(description="Only names and last values, which takes no time.")] = False,
) -> Response:
    """List the metrics of a run with their last, lowest and highest values."""
    found = services(request)

    def make() -> Any:
        one = found.store.find(run)
        key = ("metrics", one.id, found.store.position(one), brief)
        rows = found.series.get(key, lambda: (metric_summaries(found.store, one, brief=brief), 20_000))
        return {"metrics": rows}

    return json_response(request, await found.access.run(make))


async def _page(
    request: Request,
    run: str,
    table: Literal["evaluations", "checkpoints", "events", "episodes"],
    after: int | None,
    limit: int,
) -> tuple[StoredRun, RowPage]:
    found = services(request)

    def make() -> tuple[StoredRun, RowPage]:
        one = found.store.find(run)
        return one, row_page(found.store, table, one, after=after, limit=limit)

    return await found.access.run(make)


@router.get("/runs/{run}/evaluations", response_model=models.Evaluations)
async def list_evaluations(request: Request, run: RunPath, after: After = None, limit: Limit = 1000) -> Response:
    """List evaluations, in training and by `hotloop eval`."""
    _, found = await _page(request, run, "evaluations", after, limit)
    return json_response(request, {"evaluations": [evaluation(row) for row in found.rows], "next": found.next})


@router.get("/runs/{run}/events", response_model=models.Events)
async def list_events(request: Request, run: RunPath, after: After = None, limit: Limit = 1000) -> Response:
    """List faults, rollbacks, alerts, decisions of controllers and verifications."""
    _, found = await _page(request, run, "events", after, limit)
    return json_response(request, {"events": found.rows, "next": found.next})


@router.get("/runs/{run}/episodes", response_model=models.Episodes)
async def list_episodes(request: Request, run: RunPath, after: After = None, limit: Limit = 1000) -> Response:
    """List finished episodes, record by record, with a sample of each."""
    _, found = await _page(request, run, "episodes", after, limit)
    return json_response(request, {"episodes": found.rows, "next": found.next})


@router.get("/runs/{run}/checkpoints", response_model=models.Checkpoints)
async def list_checkpoints(request: Request, run: RunPath, after: After = None, limit: Limit = 1000) -> Response:
    """List checkpoints that were saved, and policies without the state to resume from."""
    one, found = await _page(request, run, "checkpoints", after, limit)
    rows = await services(request).access.run(_checkpoints, one, found.rows, with_policies=after is None)
    return json_response(request, {"checkpoints": rows, "next": found.next})


def _checkpoints(run: StoredRun, rows: Sequence[dict[str, Any]], *, with_policies: bool) -> list[dict[str, Any]]:
    from hotloop.training.checkpoint import FOLDER, checkpoint_paths
    from hotloop.training.policy_ladder import LADDER

    here = is_here(run)
    found = [
        {
            "name": path.name,
            "step": int(path.name),
            "time": path.stat().st_mtime,
            "is_best": False,
            "exists": True,
            "bytes": _size(path),
            "policy_only": True,
        }
        for path in (checkpoint_paths(run.path / LADDER) if here and with_policies else ())
    ]
    best = max((row["step"] for row in rows if row["is_best"]), default=None)
    for row in rows:
        folder = run.path / FOLDER / str(row["step"])
        size = _size(folder) if here else None
        found.append(
            {
                "name": str(row["step"]),
                "step": row["step"],
                "time": row["time"],
                "is_best": row["step"] == best,
                "exists": size is not None,
                "bytes": size,
                "policy_only": False,
            }
        )
    return sorted(found, key=lambda entry: entry["step"])


def _size(folder: FilePath) -> int | None:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return None


@router.get("/runs/{run}/resources", response_model=models.Resources)
async def list_resources(
    request: Request, run: RunPath, points: Annotated[int, Query(ge=50, le=4000)] = 600
) -> Response:
    """CPU and memory over time, of the process, its workers, the machine and its GPUs."""
    found = services(request)
    usage = await found.access.run(lambda: resource_usage(found.store, found.store.find(run), points))
    return json_response(request, {"resources": usage})
