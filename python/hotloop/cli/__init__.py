"""The command `hotloop`, one module per command.

What a command needs is imported when it runs: help must come at once, without NumPy or Gymnasium.
"""

import sys
from typing import Annotated

import typer

from hotloop import __version__
from hotloop.cli import (
    bench,
    bench_faults,
    bench_tabular,
    bench_tracking,
    bench_train,
    bench_tune,
    envs,
    eval,
    export,
    play,
    runs,
    runs_compare,
    runs_export,
    runs_plot,
    runs_show,
    train,
    verify,
)

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
app.command("train")(train.train)
app.command("eval")(eval.evaluate)
app.command("verify")(verify.verify)
app.command("play")(play.play)
app.command("export")(export.export)
app.command("envs")(envs.envs)
bench.app.command("train")(bench_train.train)
bench.app.command("ladder")(bench_train.ladder)
bench.app.command("solve")(bench_train.solve)
bench.app.command("tracking")(bench_tracking.tracking)
runs.app.command("show")(runs_show.show)
runs.app.command("compare")(runs_compare.compare)
runs.app.command("plot")(runs_plot.plot)
runs.app.command("export")(runs_export.export)
bench.app.command("tabular")(bench_tabular.tabular)
bench.app.command("faults")(bench_faults.faults)
bench.app.command("tune")(bench_tune.tune)
app.add_typer(runs.app, name="runs")
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
      hotloop eval last                     how well that policy does
      hotloop play last                     watch it
      hotloop runs list                     the runs there are
      hotloop runs plot last                how one of them went
      hotloop verify last                   repeat the run, compare every bit
      hotloop envs                          the envs there are
      hotloop envs tag                      one in full: options, rewards
      hotloop bench envs cartpole --quick   its speed here, beside its peers
    """


def main() -> None:
    """Run the command line; a user's mistake ends in one line on standard error and exit code 2."""
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="hotloop", standalone_mode=False)
    except Exception as error:
        # Typer's complaints and ours say themselves what is wrong; anything else is a bug and keeps its traceback.
        explain = getattr(error, "format_message", None)
        if explain is None:
            raise
        if message := explain():
            print(f"hotloop: {message}", file=sys.stderr)
        code = getattr(error, "exit_code", 2)
    sys.exit(code)
