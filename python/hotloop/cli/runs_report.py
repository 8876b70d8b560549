"""`hotloop runs report`: runs with their charts and replays in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotloop.cli.output import UserError, emit, tell
from hotloop.cli.runs import JsonOption, RunsArgument, StoreOption


def report(
    runs: RunsArgument,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="File to write.", show_default=False)],
    replays: Annotated[int, typer.Option(metavar="N", help="Best replays of each run.")] = 2,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report of runs that opens in any browser, without a server or a network.

    \b
      hotloop runs report last --html report.html
      hotloop runs report 'cartpole-*' --html seeds.html --replays 1

    It has the dashboard's charts, the settings in which the runs differ,
    evaluations, events and the best replays, to be played.
    """
    from hotloop.cli.serve import check_installed
    from hotloop.errors import ConfigError, StoreError
    from hotloop.files import output_file

    if not 0 <= replays <= 20:
        raise UserError(f"--replays is {replays}: expected 0 to 20")
    check_installed()
    from hotloop.server.access import QUERY_SECONDS
    from hotloop.server.report import write_report
    from hotloop.tracking.run_cache import CachedStore
    from hotloop.training.runs import home

    try:
        with CachedStore(store, home=home(), read_only=False, query_limit=12 * QUERY_SECONDS) as found:
            content = write_report(found, runs, replays)
        with output_file(html) as part:
            part.write_bytes(content)
    except (ConfigError, StoreError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {html}: {error.strerror}") from None
    if as_json:
        emit("end", file=str(html), bytes=len(content))
    else:
        tell(f"{html}: {len(content) / 1e6:.1f} MB")
