"""`hotloop jobs submit` and `hotloop train --queue`: add jobs to the queue."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hotloop.cli.jobs import job_facts, opened, parse_after
from hotloop.cli.output import UserError, emit, say, tell
from hotloop.cli.runs import JsonOption, StoreOption, finite

if TYPE_CHECKING:
    from hotloop.orchestrator.job import Job, Request
    from hotloop.orchestrator.queue import Queue

# Keys of an entry of a batch, besides `run`.
_ENTRY: Final = ("name", "priority", "group", "after", "not_before", "cores", "memory", "gpus", "retries", "key")
_UNITS: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def submit(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KIND ARGUMENT...", help="train, eval, sweep, bench or verify ...")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="YAML file with jobs: run, name, after ...")] = None,
    priority: Annotated[int | None, typer.Option(metavar="N", help="Higher ones start first.")] = None,
    group: Annotated[str, typer.Option(metavar="NAME", help="Groups share the machine fairly.")] = "default",
    after: Annotated[list[str] | None, typer.Option(metavar="JOB,...", help="Jobs to come after (9:any).")] = None,
    not_before: Annotated[str | None, typer.Option(metavar="TIME", help="Earliest start: ISO date and time.")] = None,
    cores: Annotated[int, typer.Option(metavar="N", help="Cores it needs; it gets more if idle.")] = 1,
    memory: Annotated[str | None, typer.Option(metavar="BYTES", help="Memory it needs, such as 2G.")] = None,
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs it needs.")] = 0,
    retries: Annotated[int, typer.Option(metavar="N", help="Further attempts after it died.")] = 3,
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="Own identity: equal keys are one job.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run it even if an equal job is there.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Queue a command; 'hotloop jobs work' runs it.

    \b
      hotloop jobs submit train cartpole --seed 3
      hotloop jobs submit --priority 20 --after 12 eval last
      hotloop jobs submit --file nightly.yaml

    Options come before the kind; what follows is the command's own. Equal work
    that is queued, runs, or is completed exactly is not queued again.
    """
    options = {
        "priority": priority,
        "group": group,
        "after": parse_after(after or []),
        "not_before": _time(not_before),
        "cores": cores,
        "memory": parse_bytes(memory),
        "gpus": gpus,
        "retries": retries,
        "key": key,
    }
    if (file is None) == (not words):
        raise UserError("nothing to queue: give a command such as 'train cartpole --seed 3', or --file FILE")
    with opened(store) as queue:
        if file is not None:
            requests = _read_batch(queue, file, options)
        else:
            requests = build_requests(queue, words or [], options)
        report(queue, _submit(queue, requests, fresh=fresh), as_json=as_json)


def queue_training(parameters: Mapping[str, Any]) -> None:
    """Queue the run that parameters of `hotloop train` describe, or one per seed."""
    with opened(parameters["store"]) as queue:
        requests = _training_requests(queue, parameters, {})
        report(queue, _submit(queue, requests), as_json=parameters["as_json"])


def build_requests(queue: Queue, words: Sequence[str], options: Mapping[str, Any]) -> list[Request]:
    """Return the requests for a command: one, or one per seed."""
    from hotloop.config.orchestrator import OrchestratorConfig
    from hotloop.orchestrator.requests import command_request

    kind, *arguments = words
    if kind == "train":
        import typer.main

        from hotloop.cli import app

        commands: Any = typer.main.get_command(app)
        with commands.commands["train"].make_context("train", arguments) as context:
            return _training_requests(queue, context.params, options)
    default = OrchestratorConfig().rl_task_priority if kind == "sweep" else 0
    own = {**options, "priority": default if options.get("priority") is None else options["priority"]}
    return [command_request(kind, arguments, **own)]


def _training_requests(queue: Queue, given: Mapping[str, Any], options: Mapping[str, Any]) -> list[Request]:
    from hotloop.cli.seeds import parse_seeds
    from hotloop.cli.train import best_settings, parse_goal, resolve
    from hotloop.config.orchestrator import load_settings
    from hotloop.orchestrator.requests import train_request

    for name in ("resume", "restart", "debug", "serve"):
        if given[name]:
            raise UserError(f"--{name} cannot be queued: a job begins its own run, and resumes it when it was stopped")
    if given["env"] is None or "=" in given["env"]:
        raise UserError("nothing to train: name an env ('hotloop envs' lists them)")
    if given["seeds"] is not None and given["seed"] is not None:
        raise UserError("--seeds starts several runs: leave out --seed")
    seeds = [given["seed"]] if given["seeds"] is None else parse_seeds(given["seeds"])
    overrides = list(given["overrides"] or [])
    if given["worker_python"] is not None:
        overrides.append(f"runner.worker_python={given['worker_python']}")
    file = None if given["config"] is None else Path(given["config"])
    limits = {name: given[name] for name in ("steps", "episodes", "minutes")} | {"until": parse_goal(given["until"])}
    default = load_settings(file).rl_task_priority
    own = {**options, "priority": default if options.get("priority") is None else options["priority"]}
    best = {} if given["best_of"] is None else best_settings(given["best_of"], given["env"])
    requests = []
    for seed in seeds:
        config = resolve(given["env"], best, overrides, file, given["preset"], {**limits, "seed": seed})
        name = given["name"]
        chosen = {"key": f"{own['key']}-{seed}"} if own.get("key") and len(seeds) > 1 else {}
        requests.append(
            train_request(
                config,
                home=queue.home,
                init_from=given["init_from"],
                name=name if name is None or len(seeds) == 1 else f"{name}-{seed}",
                trust=given["trust"],
                **{**own, **chosen},
            )
        )
    return requests


def _read_batch(queue: Queue, file: Path, options: Mapping[str, Any]) -> list[Request]:
    """Return the requests of a YAML file; an entry's `after` names other entries, or numbers of jobs."""
    from dataclasses import replace

    from hotloop.config.loader import read_yaml

    entries = read_yaml(file).get("jobs")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{file} has no jobs: expected 'jobs:' with a list of entries below")
    requests = []
    for index, entry in enumerate(entries):
        where = f"{file}, job {index + 1}"
        if not isinstance(entry, Mapping) or "run" not in entry:
            raise UserError(f"{where}: expected a mapping with 'run', such as 'run: train cartpole --seed 3'")
        if unknown := [key for key in entry if key not in (*_ENTRY, "run")]:
            raise UserError(f"{where}: there is no key {unknown[0]!r}: expected run, {', '.join(_ENTRY)}")
        words = entry["run"] if isinstance(entry["run"], list) else shlex.split(str(entry["run"]))
        own = {**options, **{key: entry[key] for key in _ENTRY if key in entry and key not in ("name", "after")}}
        own["memory"] = parse_bytes(own["memory"])
        own["not_before"] = _time(own["not_before"])
        found = build_requests(queue, [str(word) for word in words], own)
        label = entry.get("name")
        if label is not None and len(found) > 1:
            raise UserError(f"{where}: --seeds makes {len(found)} jobs, which cannot share the name {label!r}")
        needs = entry.get("after", [])
        names = needs if isinstance(needs, list) else [needs]
        after = [*options["after"], *((need if isinstance(need, int) else str(need), "ok") for need in names)]
        label = None if label is None else str(label)
        requests += [replace(request, after=after, label=label, name=label or request.name) for request in found]
    return requests


def _submit(queue: Queue, requests: Sequence[Request], *, fresh: bool = False) -> list[Job]:
    from hotloop.orchestrator.api import submit_requests

    return submit_requests(queue, requests, fresh=fresh)


def report(queue: Queue, jobs: Sequence[Job], *, as_json: bool) -> None:
    """Print the jobs that answer a submission."""
    from hotloop.tracking.job_queries import orchestrator_status

    if as_json:
        for job in jobs:
            emit("job", **finite(job_facts(job)))
        emit("end", jobs=[job.number for job in jobs])
        return
    for job in jobs:
        why = f": {job.why}" if job.why else ""
        run = f" ({job.run})" if job.state == "completed" and job.run else ""
        say(f"job {job.number}: {job.name}, {job.state}{why}{run}")
    status = orchestrator_status(queue)
    if (status is None or not status["process"]) and any(not job.is_over for job in jobs):
        tell("No orchestrator runs: start one with 'hotloop jobs work'.")


def parse_bytes(text: str | int | None) -> int | None:
    """Parse an amount of memory.

    >>> parse_bytes("2G"), parse_bytes("512MB"), parse_bytes(None)
    (2000000000, 512000000, None)
    """
    if text is None or isinstance(text, int):
        return text
    number = text.strip().lower().removesuffix("b")
    unit = _UNITS.get(number[-1:], 1)
    try:
        value = float(number[:-1] if unit > 1 else number)
    except ValueError:
        raise UserError(f"memory is {text!r}: expected bytes, such as 2G or 512M") from None
    if not 0 < value < float("inf"):
        raise UserError(f"memory is {text!r}: expected more than 0")
    return int(value * unit)


def _time(text: object) -> float:
    if text is None or isinstance(text, int | float):
        return float(text or 0.0)
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        raise UserError(f"--not-before is {text!r}: expected a date and time such as 2026-11-17T22:00") from None
