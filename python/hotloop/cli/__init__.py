"""The command `hotloop`, one module per command.

Each command imports what it needs when it runs, so that help appears at once, without NumPy or Gymnasium.
"""

import sys
from typing import Annotated

import typer

from hotloop import __version__
from hotloop.cli import (
    bench,
    bench_faults,
    bench_orchestrator,
    bench_serve,
    bench_sweep,
    bench_tabular,
    bench_tracking,
    bench_train,
    bench_tune,
    envs,
    eval,
    export,
    jobs,
    jobs_submit,
    jobs_top,
    jobs_work,
    play,
    runs,
    runs_compare,
    runs_export,
    runs_plot,
    runs_report,
    runs_show,
    serve,
    sweep,
    sweep_results,
    train,
    verify,
)
from hotloop.cli.help import hide_types
from hotloop.cli.output import tell
from hotloop.cli.signals import INTERRUPTED
from hotloop.cli.streams import BROKEN_PIPE, ReaderGoneError, guard_streams

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.train)
app.command("eval")(eval.evaluate)
app.command("verify")(verify.verify)
app.command("play")(play.play)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("envs")(envs.envs)
bench.app.command("train")(bench_train.train)
bench.app.command("ladder")(bench_train.ladder)
bench.app.command("solve")(bench_train.solve)
bench.app.command("tracking")(bench_tracking.tracking)
runs.app.command("show")(runs_show.show)
runs.app.command("compare")(runs_compare.compare)
runs.app.command("plot")(runs_plot.plot)
runs.app.command("export")(runs_export.export)
runs.app.command("report")(runs_report.report)
bench.app.command("tabular")(bench_tabular.tabular)
bench.app.command("faults")(bench_faults.faults)
bench.app.command("serve")(bench_serve.serve)
bench.app.command("orchestrator")(bench_orchestrator.orchestrator)
bench.app.command("sweep")(bench_sweep.sweep)
bench.app.command("tune")(bench_tune.tune)
sweep.app.command("list")(sweep_results.show_list)
sweep.app.command("show")(sweep_results.show)
sweep.app.command("best")(sweep_results.best)
sweep.app.command("plot")(sweep_results.plot)
sweep.app.command("export")(sweep_results.export)
sweep.app.command("remake")(sweep_results.remake)
app.add_typer(sweep.app, name="sweep")
jobs.app.command("submit", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})(
    jobs_submit.submit
)
jobs.app.command("top")(jobs_top.top)
jobs.app.command("work")(jobs_work.work)
app.add_typer(runs.app, name="runs")
app.add_typer(jobs.app, name="jobs")
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hotloop {__version__}")
        raise typer.Exit


@app.callback()
def _hotloop(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train reinforcement-learning agents at the speed of the machine.

    \b
      hotloop train cartpole                train until solved, in a second
      hotloop eval last                     evaluate that policy
      hotloop play last                     watch it
      hotloop sweep cartpole                search for better settings
      hotloop runs list                     list all runs
      hotloop runs plot last                plot a run's learning curve
      hotloop serve                         open the dashboard
      hotloop jobs work                     run what is queued
      hotloop verify last                   repeat the run, compare every bit
      hotloop envs                          list the environments
      hotloop envs tag                      one in full: options, rewards
      hotloop bench envs cartpole --quick   measure its speed beside its peers
    """


def main() -> int:
    """Run the command line and return its exit code.

    A user's mistake, or a disk that refuses, is one line on standard error and exit code 2.
    """
    guard_streams()
    try:
        command = hide_types(typer.main.get_command(app))
        code = command(sys.argv[1:] or ["--help"], prog_name="hotloop", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except ReaderGoneError:
        return BROKEN_PIPE
    except Exception as error:
        message = explain(error)
        if message is None or "--debug" in sys.argv:
            # Anything else is a bug and keeps its traceback.
            raise
        if message:
            tell(f"hotloop: {message}")
        return getattr(error, "exit_code", 2)
    return code or 0


def explain(error: Exception) -> str | None:
    """Return the line for an error that says itself what is wrong; None for any other."""
    if (format_message := getattr(error, "format_message", None)) is not None:
        return str(format_message())
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return None
