"""`hotloop jobs list`, `show`, `log` and the commands that change a job, and what they share."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hotloop.cli.output import UserError, count, emit, say, tell
from hotloop.cli.runs import JsonOption, StoreOption, finite

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Condition, Job
    from hotloop.orchestrator.queue import Queue

app = typer.Typer(no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Number of a job, or 'last'.")]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Numbers of jobs, ranges (3-7), 'last'.")]
# Seconds between looks at a log that is followed.
_FOLLOW: Final = 0.2
_MOST: Final = 10_000


@app.callback()
def _jobs() -> None:
    """Queue trainings and other work, and run them.

    \b
      hotloop train cartpole --seeds 0-9 --queue
      hotloop jobs work                run what is queued, until Ctrl-C
      hotloop jobs top                 watch it
    """


@contextlib.contextmanager
def opened(store: str | None) -> Iterator[Queue]:
    """The queue; its errors become one-line messages."""
    from hotloop.errors import ConfigError, JobError, StoreError, TrainingError
    from hotloop.orchestrator.queue import Queue
    from hotloop.training.runs import home

    try:
        with Queue(store, home()) as queue:
            yield queue
    except (ConfigError, JobError, StoreError, TrainingError) as error:
        raise UserError(str(error)) from None


@app.command("list")
def list_jobs(
    state: Annotated[str | None, typer.Option(metavar="STATE,...", help="Jobs in these states only.")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Jobs of this group only.")] = None,
    limit: Annotated[int, typer.Option(parser=count, metavar="N", help="Maximum number of jobs.")] = 30,
    every: Annotated[bool, typer.Option("--all", help="Show all jobs.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first.

    \b
      hotloop jobs list
      hotloop jobs list --state queued,running
    """
    from hotloop.orchestrator.job import STATES
    from hotloop.tracking.job_queries import jobs_page

    states = [] if state is None else [each.strip() for each in state.split(",")]
    if unknown := [each for each in states if each not in STATES]:
        raise UserError(f"--state is {unknown[0]!r}: expected {', '.join(STATES)}")
    if limit < 1:
        raise UserError(f"--limit is {limit}: expected 1 or more")
    with opened(store) as queue:
        page = jobs_page(queue, states=states, group=group, limit=None if every else limit)
    if as_json:
        for job in page.jobs:
            emit("job", **finite(job))
        emit("end", jobs=page.total, shown=len(page.jobs))
        return
    if not page.jobs:
        tell("No job matches." if states or group else "There are no jobs yet: 'hotloop train ENV --queue' makes one.")
        return
    from hotloop.cli.tables import table

    headings = ["job", "state", "kind", "name", "priority", "group", "tries", "time", "why"]
    say("\n".join(table(headings, [_cells(job) for job in page.jobs], right=(0, 4, 6, 7))))
    if len(page.jobs) < page.total:
        tell(f"{page.total - len(page.jobs)} more: --all shows them.")


@app.command()
def show(job: JobArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a job: its settings, result and history.

    \b
      hotloop jobs show 12
      hotloop jobs show last --json
    """
    from hotloop.tracking.job_queries import job_events

    with opened(store) as queue:
        found = queue.job(queue.find(job))
        events = job_events(queue, found.number)
    if as_json:
        for event in events:
            emit("event", **finite(event))
        emit("end", **finite(job_facts(found)))
        return
    say(f"job {found.number}: {found.kind}, {found.name}")
    facts = job_facts(found)
    for name in (
        "state",
        "why",
        "priority",
        "group",
        "cores",
        "memory",
        "gpus",
        "retries",
        "attempts",
        "run",
        "folder",
    ):
        if facts[name] not in (None, ""):
            say(f"  {name:<10} {facts[name]}")
    for name, value in (found.result or {}).items():
        if name != "run":
            say(f"  {name:<10} {value}")
    for event in events:
        states = f"{event['before']} -> {event['after']}" if event["before"] != event["after"] else event["after"]
        say(f"  {datetime.fromtimestamp(event['time']):%H:%M:%S}  {states:<21} {event['why']}".rstrip())


@app.command()
def cancel(jobs: JobsArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Cancel jobs; a running one ends with a checkpoint, and all its processes with it."""
    _each(jobs, store, "cancel", as_json=as_json)


@app.command()
def pause(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...", help="Jobs; none: the whole queue.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause jobs; a running one ends with a checkpoint. Without JOB nothing new starts, and running jobs go on."""
    _each_or_all(jobs, store, "pause", as_json=as_json)


@app.command()
def resume(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...", help="Jobs; none: the whole queue.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume paused jobs, or the whole queue; a job goes on from its checkpoint, bit for bit."""
    _each_or_all(jobs, store, "resume", as_json=as_json)


@app.command()
def retry(jobs: JobsArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Queue failed or cancelled jobs again; they go on from their last checkpoints."""
    _each(jobs, store, "retry", as_json=as_json)


@app.command()
def move(
    job: JobArgument,
    priority: Annotated[int | None, typer.Option(metavar="N", help="New priority.")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="New group.")] = None,
    after: Annotated[str | None, typer.Option(metavar="JOB,...", help="Jobs to come after; '': none.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a job in the queue.

    \b
      hotloop jobs move 12 --priority 20
      hotloop jobs move 12 --after 7,9:any
    """
    if (priority, group, after) == (None, None, None):
        raise UserError("nothing to change: give --priority, --group or --after")
    with opened(store) as queue:
        needs = None if after is None else parse_after([after] if after else [])
        moved = queue.move(queue.find(job), priority=priority, group=group, after=needs)
        _report([moved], as_json=as_json)


@app.command()
def log(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    store: StoreOption = None,
) -> None:
    """Print what a job wrote to its standard output and error."""
    from hotloop.orchestrator.folder import JobFolder

    with opened(store) as queue:
        number = queue.find(job)
        found, position = queue.job(number), 0
        while True:
            if found.folder is not None:
                position = _print_from(JobFolder(found.path).log, position)
            elif not follow:
                raise UserError(f"job {number} has no log: it is {found.state} and was never started")
            if not follow or found.is_over:
                break
            time.sleep(_FOLLOW)
            found = queue.job(number)


def _print_from(path: Path, position: int) -> int:
    """Print a file from a position on; return its end. A file that became shorter is printed from its start."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(position if position <= size else 0)
            say_raw(file.read().decode(errors="replace"))
            return file.tell()
    except FileNotFoundError:
        return position


def say_raw(text: str) -> None:
    """Print text from a file as it is, without control characters."""
    from hotloop.text import printable

    sys.stdout.write("\n".join(map(printable, text.split("\n"))))
    sys.stdout.flush()


def parse_jobs(queue: Queue, texts: list[str]) -> list[int]:
    """Return the numbers of jobs that texts such as `3`, `5-8` and `last` name."""
    numbers: dict[int, None] = {}
    for text in texts:
        first, dash, last = text.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            if not 0 <= int(last) - int(first) < _MOST:
                raise UserError(f"{text!r} is not a range of at most {_MOST} jobs")
            numbers |= dict.fromkeys(range(int(first), int(last) + 1))
        else:
            numbers[queue.find(text)] = None
    return list(numbers)


def parse_after(texts: list[str]) -> list[tuple[int, Condition]]:
    """Parse jobs to come after: `7,9:any`.

    >>> parse_after(["7,9:any"])
    [(7, 'ok'), (9, 'any')]
    """
    needs: list[tuple[int, Condition]] = []
    for part in (part.strip() for text in texts for part in text.split(",")):
        number, colon, condition = part.partition(":")
        if not number.isdecimal() or (colon and condition not in ("ok", "any")):
            raise UserError(f"--after is {part!r}: expected the number of a job, or NUMBER:any if it may fail")
        needs.append((int(number), "any" if condition == "any" else "ok"))
    return needs


def _each_or_all(jobs: list[str] | None, store: str | None, action: str, *, as_json: bool) -> None:
    if jobs:
        _each(jobs, store, action, as_json=as_json)
        return
    with opened(store) as queue:
        queue.pause_all(paused=action == "pause")
    if as_json:
        emit("end", jobs=[], paused=action == "pause")
    else:
        print("queue paused: running jobs go on" if action == "pause" else "queue resumed")


def _each(jobs: list[str], store: str | None, action: str, *, as_json: bool) -> None:
    with opened(store) as queue:
        _report([getattr(queue, action)(number) for number in parse_jobs(queue, jobs)], as_json=as_json)


def _report(jobs: list[Job], *, as_json: bool) -> None:
    if as_json:
        for job in jobs:
            emit("job", **finite(job_facts(job)))
        emit("end", jobs=[job.number for job in jobs])
        return
    for job in jobs:
        paused = " (paused)" if job.paused else ""
        say(f"job {job.number}: {job.state}{f', {job.wish} requested' if job.wish else ''}{paused}")


def job_facts(job: Job) -> dict[str, Any]:
    """Return a job for `--json`."""
    left_out = ("spec", "shape", "deaths", "needs", "group_name")
    facts = {name: value for name, value in vars(job).items() if name not in left_out}
    return {**facts, "group": job.group_name, "after": job.needs, "deaths": job.deaths}


def _cells(job: dict[str, Any]) -> list[str]:
    from hotloop.text import duration, printable

    since = job["started"] if job["state"] == "running" or job["ended"] else job["submitted"]
    seconds = max(0.0, (job["ended"] or time.time()) - (since or job["submitted"]))
    state = f"{job['state']}{' (paused)' if job['paused'] else ''}"
    return [
        *(str(job["number"]), state, job["kind"], printable(job["name"], 40), str(job["priority"])),
        *(printable(job["group_name"], 20), str(job["attempts"]), duration(seconds), printable(job["why"], 60)),
    ]
