"""Routes of the server itself: status, sign-in, alerts, performance, live events, Prometheus."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.util import find_spec
from typing import Annotated, Any, Final

import psutil
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hotloop import _core
from hotloop.envs.adapters.factory import ADAPTERS
from hotloop.errors import NoSuchRunError, StoreAwayError
from hotloop.server.models import base
from hotloop.server.models import system as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.services import Services, services
from hotloop.server.stream import EventStream
from hotloop.tracking.marks import alerts, count_unseen, mark_seen
from hotloop.tracking.performance import summary, trends

router = APIRouter()
root = APIRouter()

_MOST_TOPICS: Final = 64


@router.get("/status", response_model=models.ServerState)
async def status(request: Request) -> Response:
    """The state of the server, its store and its machine."""
    found = services(request)
    state = await found.access.run(_status, found)
    state["can_write"] = bool(request.scope["state"].get("authorised")) and not found.settings.read_only
    return json_response(request, state)


def _status(found: Services) -> dict[str, Any]:
    counts: dict[str, int] = {}
    try:
        runs = found.store.runs(with_config=False)
        unseen = count_unseen(found.store) if found.store.away_since is None else 0
    except StoreAwayError:
        runs, unseen = [], 0
    for run in runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    file = found.store.url.file
    process = psutil.Process()
    times = process.cpu_times()
    return {
        "version": _core.__version__,
        "boot": found.hub.boot,
        "store": {
            "url": found.store.url.shown,
            "away_since": found.store.away_since,
            "bytes": file.stat().st_size if file is not None and file.exists() else None,
            "lag": found.poller.lag,
        },
        "runs": counts,
        "adapters": [
            entry.prefix for entry in ADAPTERS if entry.prefix and (entry.module is None or find_spec(entry.module))
        ],
        "machine": _machine(found),
        "streams": found.hub.count,
        "read_only": found.settings.read_only or found.store.read_only,
        "server": {
            "started": found.started,
            "cpu": times.user + times.system,
            "memory": process.memory_info().rss,
            "port": found.settings.port,
        },
        "alerts_unseen": unseen,
    }


def _machine(found: Services) -> dict[str, Any]:
    memory = psutil.virtual_memory()
    cores = os.cpu_count() or 1
    disk = shutil.disk_usage(found.settings.home) if found.settings.home.exists() else None
    return {
        "host": platform.node(),
        "cores": cores,
        "memory": memory.total,
        "cpu": psutil.cpu_percent() / 100 * cores,
        "memory_used": memory.total - memory.available,
        "disk_free": disk.free if disk else None,
        "disk_total": disk.total if disk else None,
        "gpus": [
            {
                "name": gpu["name"],
                "memory": gpu["memory_total"],
                "memory_used": gpu["memory"],
                "utilisation": gpu["load"],
            }
            for gpu in found.sampler.gpus().values()
        ],
    }


@router.post("/session", status_code=204)
async def sign_in(request: Request, body: models.SessionRequest) -> Response:
    """Start a session by the code of the printed link, or by the token: sets a cookie."""
    found = services(request)
    client = request.client.host if request.client else ""
    if found.sessions.is_blocked(client):
        raise ProblemError(429, "too many wrong tokens: wait a minute", headers={"Retry-After": "60"})
    if not (
        (body.code is not None and found.sessions.use_code(body.code))
        or (body.token is not None and found.sessions.has_token(body.token))
    ):
        found.sessions.note_wrong(client)
        raise ProblemError(401, "the code or token is wrong or too old: 'hotloop serve' prints a new link")
    response = Response(status_code=204)
    found.sessions.set_cookie(response, int((request.scope.get("server") or ("", 0))[1] or 0))
    return response


@router.get("/alerts", response_model=models.AlertList)
async def list_alerts(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    before: Annotated[float | None, Query(allow_inf_nan=False, description="Only older ones.")] = None,
) -> Response:
    """Warnings and errors of all runs, the newest first."""
    found = services(request)

    def make() -> dict[str, Any]:
        return {"alerts": alerts(found.store, limit, before), "unseen": count_unseen(found.store)}

    return json_response(request, await found.access.run(make))


@router.post("/alerts/{number}/seen", status_code=204)
async def see_alert(request: Request, number: Annotated[int, Path(ge=0, lt=2**63)], body: base.Empty) -> Response:
    """Mark an alert as seen."""
    found = services(request)
    if not await found.access.run(mark_seen, found.store, number):
        raise ProblemError(404, f"there is no alert {number}")
    return Response(status_code=204)


@router.get("/performance/summary", response_model=models.PerformanceSummary)
async def performance_summary(request: Request) -> Response:
    """Speed by env, learner and version."""
    found = services(request)
    return json_response(request, {"groups": await found.access.run(summary, found.store)})


@router.get("/performance/trends", response_model=models.Trends)
async def performance_trends(request: Request) -> Response:
    """Speed of every run over time, by env and learner."""
    found = services(request)
    return json_response(request, {"trends": await found.access.run(trends, found.store)})


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events until the client leaves."}},
)
async def events(
    request: Request,
    topics: Annotated[str, Query(max_length=4000, description="runs, alerts, run:ID, separated by commas.")] = "runs",
    metrics: Annotated[str, Query(max_length=8000, description="Metrics to send points of; all by default.")] = "",
    after: Annotated[str | None, Query(max_length=100, description="As the header `Last-Event-ID`.")] = None,
) -> Response:
    """Server-sent events. `Last-Event-ID` resumes a stream without a gap, or answers `reset`."""
    found = services(request)
    names = dict.fromkeys(name.strip() for name in topics.split(",") if name.strip())
    if len(names) > _MOST_TOPICS:
        raise ProblemError(400, f"{len(names)} topics: at most {_MOST_TOPICS} in one stream")
    # A page that reconnects by itself cannot set headers.
    last_id = request.headers.get("last-event-id", after)
    resolved, gapless = [], True
    for name in names:
        if name in ("runs", "alerts"):
            resolved.append(name)
        elif name.startswith("run:"):
            try:
                run = await found.find(name.removeprefix("run:"))
            except NoSuchRunError:
                continue  # it may have been deleted: the stream says nothing of it
            gapless = await found.access.run(found.poller.watch, run) and gapless
            resolved.append(f"run:{run.id}")
        else:
            raise ProblemError(400, f"there is no topic {name!r}: expected runs, alerts or run:ID")
    hello = {"version": _core.__version__, "boot": found.hub.boot}
    if last_id is not None and not gapless:
        last_id = "forgotten-0"
    client = str(request.scope["state"].get("session") or "")
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    return EventStream(found.hub, found.hub.join(client, resolved, wanted, last_id, hello))


@root.get("/healthz", response_model=models.Health)
async def healthz(request: Request) -> Response:
    """A sign of life."""
    return json_response(request, {"ok": True})


@root.get("/metrics", responses={200: {"content": {"text/plain": {}}, "description": "For Prometheus."}})
async def metrics(request: Request) -> Response:
    """Metrics of the server and of recent runs, for Prometheus."""
    from hotloop.server.prometheus import exposition

    found = services(request)
    text = await found.access.run(exposition, found)
    return Response(text, headers={"Cache-Control": "no-store"}, media_type="text/plain; version=0.0.4; charset=utf-8")
