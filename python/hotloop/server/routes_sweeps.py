"""Routes of sweeps and their trials."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from hotloop.server.models import sweeps as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.services import Services, services
from hotloop.tracking.sweeps import find_stored_sweep, sweeps_page, trials_page

router = APIRouter()

SweepPath = Annotated[str, Path(max_length=200, description="The number or the name of a sweep.")]


@router.get("/sweeps", response_model=models.SweepPage)
async def list_sweeps(
    request: Request,
    after: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List sweeps, the newest first."""
    found = services(request)

    def make() -> dict[str, Any]:
        page = sweeps_page(found.store, after=after, limit=limit)
        return {"sweeps": page.rows, "next": page.next}

    return json_response(request, await found.access.run(make))


@router.get("/sweeps/{sweep}", response_model=models.Sweep)
async def get_sweep(request: Request, sweep: SweepPath) -> Response:
    """Return a sweep."""
    found = services(request)
    return json_response(request, await found.access.run(_find, found, sweep))


@router.get("/sweeps/{sweep}/trials", response_model=models.TrialPage)
async def list_trials(
    request: Request,
    sweep: SweepPath,
    sort: Annotated[str, Query(max_length=50, description="A column, with - before it: descending.")] = "trial",
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 500,
) -> Response:
    """List the trials of a sweep."""
    found = services(request)

    def make() -> dict[str, Any]:
        number = _find(found, sweep)["number"]
        trials, total = trials_page(found.store, number, sort=sort, offset=offset, limit=limit)
        return {
            "trials": [{key: value for key, value in row.items() if key != "sweep"} for row in trials],
            "total": total,
        }

    return json_response(request, await found.access.run(make))


def _find(found: Services, name: str) -> dict[str, Any]:
    row = find_stored_sweep(found.store, name)
    if row is None:
        raise ProblemError(404, f"there is no sweep {name!r}")
    return row
