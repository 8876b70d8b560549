"""`hotloop jobs work`: the orchestrator, which runs what is queued."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hotloop.cli.output import UserError, emit, tell
from hotloop.cli.runs import JsonOption, StoreOption


def work(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="orchestrator.max_limit=8 and so on.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Run N jobs at a time; no adaptation.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="YAML file with a section orchestrator.")] = None,
    until_done: Annotated[bool, typer.Option("--until-done", help="Exit when no job is left.")] = False,
    grace: Annotated[float, typer.Option(metavar="S", help="Seconds until a stopped job is killed.")] = 10.0,
    trust: Annotated[bool, typer.Option("--trust", help="Run code named by jobs submitted elsewhere.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run queued jobs, as many at a time as pay, until Ctrl-C.

    \b
      hotloop jobs work
      hotloop jobs work --limit 2
      hotloop jobs work orchestrator.adaptation_interval=5

    Running jobs go on when this ends, however it ends: the next one adopts them.
    A store has one orchestrator at a time.
    """
    from hotloop.config.orchestrator import load_settings
    from hotloop.errors import ConfigError, JobError, LeaseLostError, StoreError
    from hotloop.orchestrator.orchestrator import Orchestrator
    from hotloop.training.runs import home

    if limit is not None and limit < 1:
        raise UserError(f"--limit is {limit}: expected 1 or more")
    if not 0 <= grace < float("inf"):
        raise UserError(f"--grace is {grace}: expected 0 or more seconds")
    try:
        settings = load_settings(config, overrides or [])
        orchestrator = Orchestrator(
            store,
            home(),
            settings,
            run_command=run_command,
            limit=limit,
            trust=trust,
            until_done=until_done,
            grace=grace,
            say=(lambda message: emit("notice", what=message)) if as_json else tell,
        )
        orchestrator.run()
    except (ConfigError, JobError, LeaseLostError, StoreError) as error:
        raise UserError(str(error)) from None
    if as_json:
        emit("end", stopped=True)


def run_command(arguments: list[str]) -> int:
    """Run a command of `hotloop` in this process and return its exit code."""
    from hotloop.cli import main

    sys.argv = ["hotloop", *arguments]
    return main()
