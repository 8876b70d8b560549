"""`hotloop jobs top`: a live view of the queue, its running jobs and the orchestrator's decisions."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hotloop.cli.jobs import opened
from hotloop.cli.output import UserError, say
from hotloop.cli.runs import StoreOption
from hotloop.text import duration, printable, short

if TYPE_CHECKING:
    from hotloop.orchestrator.queue import Queue

_BAR: Final = 12
_SHOWN: Final = 15
_DECISIONS: Final = 4
# Seconds without a sign of life after which an orchestrator is shown as silent.
_SILENT: Final = 5.0


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the view once.")] = False,
    pace: Annotated[float, typer.Option(metavar="S", help="Seconds between redraws.")] = 1.0,
    store: StoreOption = None,
) -> None:
    """Watch the queue: limit, pressure, running jobs, and why the limit changed. Ctrl-C ends."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    if not 0.1 <= pace <= 3600:
        raise UserError(f"--pace is {pace}: expected 0.1 to 3600 seconds")
    with opened(store) as queue:
        speeds = Speeds()
        console = Console(highlight=False)
        if once or not console.is_terminal:
            say("\n".join(lines(queue, speeds)))
            return
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(Text("\n".join(lines(queue, speeds)), no_wrap=True, overflow="ellipsis"), refresh=True)
                time.sleep(pace)


class Speeds:
    """Steps per second of running jobs, between two looks; at first since each began to train."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, float]] = {}

    def of(self, job: int, steps: int, seconds: float) -> float:
        """Return the speed of a job that has made this many steps in this many seconds."""
        steps_before, seconds_before = self._before.get(job, (0, 0.0))
        if seconds > seconds_before:
            self._before[job] = steps, seconds
            return (steps - steps_before) / (seconds - seconds_before)
        return 0.0


def lines(queue: Queue, speeds: Speeds, now: Callable[[], float] = time.time) -> list[str]:
    """Return the view as lines of text."""
    from hotloop.cli.tables import table
    from hotloop.tracking.job_queries import job_counts, job_events, jobs_page, orchestrator_status

    counts, status = job_counts(queue), orchestrator_status(queue)
    found = [_header(status, now()), ", ".join(f"{number} {state}" for state, number in counts.items()) or "no jobs"]
    running = jobs_page(queue, states=["running"], limit=None).jobs[::-1]
    if running:
        headings = ["job", "name", "priority", "group", "progress", "steps", "steps/s", "threads", "time"]
        rows = [_running(job, speeds, now()) for job in running[:_SHOWN]]
        found += ["", *table(headings, rows, right=(0, 2, 5, 6, 7, 8))]
        if len(running) > _SHOWN:
            found.append(f"... and {len(running) - _SHOWN} more")
    waiting = jobs_page(queue, states=["queued", "waiting"], limit=_SHOWN)
    if waiting.jobs:
        rows = [
            [str(job["number"]), job["state"], printable(job["name"], 30), printable(job["why"], 60)]
            for job in waiting.jobs[::-1]
        ]
        found += ["", *table(["job", "state", "name", "why"], rows, right=(0,))]
    decisions = [event for event in job_events(queue, 0, limit=50) if event["why"].startswith("limit")][-_DECISIONS:]
    if decisions:
        found += ["", *(_decision(event) for event in decisions)]
    return found


def _header(status: dict[str, Any] | None, now: float) -> str:
    if status is None or not status["process"]:
        return "no orchestrator runs: 'hotloop jobs work' starts one"
    facts = status["facts"]
    silent = now - status["seen"]
    parts = [
        f"orchestrator: process {status['process']} on {status['host']}",
        f"limit {facts.get('limit')}{' (fixed)' if facts.get('fixed') else ''}",
        f"running {facts.get('running')}",
        f"goodput {facts.get('goodput', 0.0):.2f}",
    ]
    pressure = facts.get("pressure") or {}
    parts += [f"{kind} {value:.0f} %" for kind, value in pressure.items()]
    parts += ["queue paused"] if status["paused"] else []
    parts += [f"no sign of life for {duration(silent)}"] if silent > _SILENT else []
    return ", ".join(parts)


def _running(job: dict[str, Any], speeds: Speeds, now: float) -> list[str]:
    from pathlib import Path

    from hotloop.orchestrator.folder import JobFolder

    folder = None if job["folder"] is None else JobFolder(Path(job["folder"]))
    progress = None if folder is None else folder.read_progress()
    threads = None if folder is None else folder.asked_threads()
    bar = steps = speed = "-"
    if progress is not None:
        done = round(_BAR * max(0.0, min(1.0, progress.fraction)))
        bar = f"{'#' * done}{'.' * (_BAR - done)} {progress.fraction:4.0%}"
        steps = short(progress.steps)
        speed = short(speeds.of(job["number"], progress.steps, progress.seconds))
    return [
        *(str(job["number"]), printable(job["name"], 30), str(job["priority"]), printable(job["group_name"], 12), bar),
        *(steps, speed, str(threads or "-"), duration(max(0.0, now - (job["started"] or now)))),
    ]


def _decision(event: dict[str, Any]) -> str:
    facts = event["facts"]
    figures = ", ".join(
        f"{name} {facts[name]:g}" for name in ("running", "queued", "stall", "goodput") if name in facts
    )
    return f"{datetime.fromtimestamp(event['time']):%H:%M:%S}  {event['why']} ({figures})"
