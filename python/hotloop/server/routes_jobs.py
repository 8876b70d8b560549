"""Routes of jobs: the queue, one job with its events and log, submission and actions."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from hotloop.errors import JobError
from hotloop.server.models import jobs as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.services import Services, services
from hotloop.tracking.job_queries import job_counts, job_events, jobs_page, orchestrator_status

router = APIRouter()

JobPath = Annotated[int, Path(ge=1, lt=2**63, description="The number of a job.")]
# Bytes of a log's end that are shown.
_LOG: Final = 64 * 1024
_USE: Final = "use 'hotloop train ENV --queue'"


@router.get("/jobs", response_model=models.JobPage)
async def list_jobs(
    request: Request,
    state: Annotated[list[models.State], Query(max_length=6)] = [],  # noqa: B006
    group: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> Response:
    """List jobs, the newest first, with the state of the queue and the decisions about its limit."""
    found = services(request)

    def make() -> dict[str, Any]:
        page = jobs_page(found.store, states=state, group=group, limit=limit, offset=offset)
        decisions = [event for event in job_events(found.store, 0, limit=50) if event["why"].startswith("limit")]
        return {
            "jobs": page.jobs,
            "total": page.total,
            "counts": job_counts(found.store),
            "orchestrator": orchestrator_status(found.store),
            "decisions": decisions,
        }

    return json_response(request, await found.access.run(make))


@router.post("/jobs", response_model=models.Submitted, status_code=201)
async def submit_job(request: Request, body: models.Submission) -> Response:
    """Queue a training run of a native env, or return the job that does the same already."""
    found = services(request)

    def make() -> dict[str, Any]:
        from hotloop.config import load_config
        from hotloop.orchestrator.api import submit
        from hotloop.training.trust import code_in_config

        if named := code_in_config(load_config(body.env, overrides=body.config)):
            raise ProblemError(403, f"the settings name code, an interpreter or a service ({', '.join(named)}): {_USE}")
        handle = submit(
            body.env,
            config=body.config,
            steps=body.steps,
            seed=body.seed,
            priority=body.priority,
            group=body.group,
            store=found.settings.store,
        )
        return {"job": handle.number, "state": handle.state}

    if ":" in body.env:
        raise ProblemError(403, f"only native envs can be queued here, since others name code: {_USE}")
    try:
        return json_response(request, await found.access.run(make), status=201)
    except (JobError, ValueError) as error:
        raise ProblemError(422, str(error)) from None


@router.get("/jobs/{job}", response_model=models.JobDetails)
async def show_job(request: Request, job: JobPath) -> Response:
    """Show a job with its events and the end of its log."""
    found = services(request)
    return json_response(request, await found.access.run(_details, found, job))


@router.post("/jobs/{job}/{action}", response_model=models.Submitted)
async def change_job(request: Request, job: JobPath, action: Literal["cancel", "pause", "resume", "retry"]) -> Response:
    """Cancel, pause, resume or retry a job."""
    found = services(request)

    def make() -> dict[str, Any]:
        from hotloop.orchestrator.queue import Queue

        with Queue(found.settings.store, found.settings.home) as queue:
            changed = getattr(queue, action)(job)
        return {"job": changed.number, "state": changed.state}

    try:
        return json_response(request, await found.access.run(make))
    except JobError as error:
        raise ProblemError(404 if "there is no job" in str(error) else 409, str(error)) from None


def _details(found: Services, number: int) -> dict[str, Any]:
    from pathlib import Path as FilePath

    from hotloop.orchestrator.folder import JobFolder
    from hotloop.tracking.job_queries import find_job

    job = find_job(found.store, number)
    if job is None:
        raise ProblemError(404, f"there is no job {number}")
    folder = None if job["folder"] is None else JobFolder(FilePath(job["folder"]))
    progress = None if folder is None else folder.read_progress()
    return {
        "job": job,
        "events": job_events(found.store, number),
        "progress": None if progress is None else progress._asdict(),
        "log": "" if folder is None else folder.read_log(_LOG),
    }
