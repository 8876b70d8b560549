"""`hotloop verify`: repeats a run and compares, so that anyone can check anyone's result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.output import UserError, emit, tell
from hotloop.cli.signals import INTERRUPTED

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.cli.progress import PartsProgress
    from hotloop.training.callbacks import Callback

# The run was repeated, and something came out differently.
DIFFERENT = 1


def verify(
    run: Annotated[str, typer.Argument(metavar="RUN|SWEEP", help="A path, a name, the beginning of one, or 'last'.")],
    trial: Annotated[int | None, typer.Option(metavar="N", help="Of a sweep, this trial only.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import code that a run made elsewhere names.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Repeat a run from its stored config up to its newest checkpoint, and compare.

    \b
      hotloop verify last
      hotloop verify my-sweep               a whole sweep
      hotloop verify my-sweep --trial 17    one of its trials

    Checkpoints must be the same byte for byte (weights, optimiser, envs), and
    every record, evaluation, event and replay the same, whatever machine,
    number of threads or interruptions were involved. Claims that a repetition
    cannot check are listed. The exit code is 0 if there is no difference, 1 if
    there is any, and 130 after Ctrl-C.
    """
    from hotloop.cli import run_lookup
    from hotloop.cli.progress import PartsProgress
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.training import verify as repeat

    if is_sweep(run) or trial is not None:
        from hotloop.cli.sweep_results import remake, verify_whole

        if trial is None:
            verify_whole(run, trust=trust, as_json=as_json)
        else:
            remake(run, trial=trial, trust=trust, as_json=as_json)
        return
    path = run_lookup.find(run)
    try:
        with PartsProgress(1) as bar:
            found = repeat(path, callbacks=_watching(path, bar, as_json=as_json), trust=trust)
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        tell("interrupted: nothing was compared")
        raise typer.Exit(INTERRUPTED) from None
    for note in found.notes:
        tell(note)
    if as_json:
        emit(
            "end",
            run=path.name,
            path=str(path),
            same=found.same,
            same_policy=found.same_policy,
            steps=found.steps,
            iterations=found.iterations,
            records=found.records,
            differences=list(found.differences),
            unchecked=list(found.unchecked),
        )
    elif found.same:
        print(f"same: weights at step {found.steps} byte for byte, and {found.records} records")
        print(f"not checked: {'; '.join(found.unchecked)}")
    else:
        print(f"different at step {found.steps}: weights {'the same' if found.same_policy else 'differ'}")
        for difference in found.differences:
            print(f"  {difference}")
    if not found.same:
        raise typer.Exit(DIFFERENT)


def _watching(run: Path, bar: PartsProgress, *, as_json: bool) -> list[Callback]:
    """Shows how far the repetition of a run is on its way to the newest checkpoint."""
    from hotloop.text import short
    from hotloop.training.callbacks import Callback, ProgressReport
    from hotloop.training.checkpoint import checkpoint_paths

    paths = checkpoint_paths(run / "checkpoints")
    if not paths:
        return []
    steps = int(paths[-1].name)

    class Watching(Callback):
        def progress(self, report: ProgressReport) -> None:
            share = min(1.0, report.steps / max(1, steps))
            what = f"step {short(report.steps)} of {short(steps)}"
            bar.at("repeating", what, share)
            if as_json:
                emit("progress", fraction=share, what=what)

    return [Watching()]


def is_sweep(name: str) -> bool:
    """Return whether a sweep, and no run, has exactly this name or path."""
    from pathlib import Path

    from hotloop.sweeps.journal import DEFINITION, sweeps_folder

    return bool(name) and any((folder / DEFINITION).is_file() for folder in (Path(name), sweeps_folder() / name))
