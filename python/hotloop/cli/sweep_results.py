"""`hotloop sweep list`, `show`, `best`, `export`, `remake` and `plot`: what came of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hotloop.cli.output import UserError, emit, say
from hotloop.cli.sweep import JsonOption, SweepArgument, TrustOption, opened


def show_list(as_json: JsonOption = False) -> None:
    """List all sweeps, the newest first."""
    from hotloop.cli.tables import table
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.sweeps.display import shown_value
    from hotloop.sweeps.journal import SweepFolder, list_sweeps
    from hotloop.sweeps.sweep import Sweep

    rows: list[list[str]] = []
    for path in list_sweeps():
        try:
            sweep = Sweep(SweepFolder(path), trust=True)
        except (ConfigError, TrainingError) as error:
            rows.append([path.name, "", "", "damaged", "", str(error)[:60]])
            continue
        trials, best = sweep.trials, sweep.best
        value = None if best is None else best.confirmation.mean if best.confirmation else best.value
        status = "completed" if sweep.is_complete else "unfinished"
        facts = {"name": sweep.name, "env": sweep.definition.env, "status": status, "trials": len(trials)}
        if as_json:
            emit("sweep", **facts, created=sweep.folder.created, sampler=sweep.definition.sampler, best=value)
            continue
        shown = "-" if value is None else shown_value(sweep, value)
        created = sweep.folder.created[:16].replace("T", " ")
        rows.append([sweep.name, sweep.definition.env, str(len(trials)), status, shown, created])
    if as_json:
        emit("end", sweeps=len(list_sweeps()))
    elif rows:
        for line in table(["sweep", "env", "trials", "status", "best", "created"], rows, right=[2, 4]):
            say(line)
    else:
        print("there are no sweeps yet: hotloop sweep cartpole")


def show(
    name: SweepArgument = "last",
    rows: Annotated[int, typer.Option("-n", metavar="N", help="Number of trials to show.")] = 20,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a sweep: its result, the importance of its settings, its trials."""
    from hotloop.cli.tables import table
    from hotloop.sweeps.display import conclusion, format_setting, trial_rows
    from hotloop.text import measured, short

    sweep = opened(name, trust=trust)
    found = trial_rows(sweep, rows)
    if as_json:
        for row in found:
            emit("trial", **row)
        emit("end", sweep=sweep.name, completed=sweep.is_complete, importance=sweep.importance, kept=sweep.kept)
        return
    for line in conclusion(sweep):
        say(line)
    shares = sorted(sweep.importance.items(), key=lambda each: -each[1])
    print("importance: " + ", ".join(f"{key} {share:.0%}" for key, share in shares))
    print()
    cells = [
        [
            str(row["index"]),
            row["state"],
            "-" if row["value"] is None else measured(row["value"]),
            "-" if row["confirmed"] is None else measured(row["confirmed"]),
            short(row["steps"]),
            " ".join(f"{key.rpartition('.')[2]}={format_setting(value)}" for key, value in row["settings"].items()),
        ]
        for row in found
    ]
    for line in table(["trial", "state", "value", "confirmed", "steps", "settings"], cells, right=[0, 2, 3, 4]):
        say(line)
    if len(sweep.trials) > len(found):
        print(f"... {len(sweep.trials) - len(found)} more: -n {len(sweep.trials)}")


def best(name: SweepArgument = "last", trust: TrustOption = False, as_json: JsonOption = False) -> None:
    """Print the winner's settings as overrides of 'hotloop train'."""
    from hotloop.sweeps.display import describe_score, format_setting, trial_row

    sweep = opened(name, trust=trust)
    found = sweep.best
    if found is None:
        raise UserError(
            f"the sweep {sweep.name!r} has no confirmed trial yet: finish it with 'hotloop sweep --resume {sweep.name}'"
        )
    if as_json:
        emit("end", sweep=sweep.name, **trial_row(sweep, found))
        return
    say(f"# trial {found.index}: {describe_score(sweep, found)}")
    for key, value in found.settings.items():
        say(f"{key}={format_setting(value)}")


def export(
    name: SweepArgument = "last",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="FILE.csv or FILE.jsonl (default: stdout).")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Export all trials as CSV or JSON lines, by index."""
    import csv
    import io
    import json

    from hotloop.files import output_file
    from hotloop.sweeps.display import trial_row

    sweep = opened(name, trust=trust)
    rows = [trial_row(sweep, trial) for trial in sweep.trials]
    if output is not None and output.suffix == ".csv":
        flat = [_flat(row) for row in rows]
        names = list(dict.fromkeys(key for row in flat for key in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(flat)
        content = text.getvalue()
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows)
    if output is None:
        print(content, end="")
        return
    with output_file(output) as part:
        part.write_text(content)
    print(f"{len(rows)} trials written to {output}")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without nesting: settings by key, seeds and rungs as text."""
    from hotloop.sweeps.display import format_setting

    own = {key: value for key, value in row.items() if key not in ("settings", "rungs", "seeds")}
    settings = {key: format_setting(value) for key, value in row["settings"].items()}
    return {**own, "seeds": " ".join(map(str, row["seeds"])), **settings}


def plot(
    name: SweepArgument = "last",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="PNG to write (default: SWEEP.png).")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Draw a sweep as PNG: history, importance, front, parallel coordinates, slices."""
    from hotloop.errors import ConfigError
    from hotloop.files import output_file
    from hotloop.sweeps.plot import plot_sweep

    sweep = opened(name, trust=trust)
    target = output or Path(f"{sweep.name}.png")
    try:
        with output_file(target) as part:
            plot_sweep(sweep, part)
    except ConfigError as error:
        raise UserError(str(error)) from None
    print(f"written to {target}")


def remake(
    name: SweepArgument,
    trial: Annotated[int | None, typer.Option(metavar="N", help="Trial to make again (default: the best).")] = None,
    member: Annotated[int | None, typer.Option(metavar="N", help="Member of a population to make again.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write a checkpoint of it here.")
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a trial's policy again from its line in the journal, and compare its hash.

    \b
      hotloop sweep remake last --trial 17 -o trial-17
      hotloop sweep remake my-pbt --member 3
      hotloop eval trial-17/100352
    """
    from hotloop.cli.progress import PartsProgress
    from hotloop.cli.verify import DIFFERENT
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.sweeps.remake import remake_trial
    from hotloop.text import short

    sweep = opened(name, trust=trust)
    index = trial if member is None else member
    trials = {each.index: each for each in sweep.trials}
    if index is None:
        found = sweep.best
        if found is None:
            raise UserError(f"the sweep {sweep.name!r} has no confirmed trial yet: name one with --trial")
    elif index in trials:
        found = trials[index]
    else:
        raise UserError(f"the sweep {sweep.name!r} has no trial {index}: it has {len(trials)}")
    try:
        with PartsProgress(1) as bar:
            remade = remake_trial(
                sweep.definition,
                found,
                lambda steps: bar.at(f"trial {found.index}", f"step {short(steps)}", 0.5),
                save_to=output,
            )
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    facts = {"trial": found.index, "same": not remade.differences, "sha256": remade.result["sha256"]}
    if as_json:
        emit("end", sweep=sweep.name, **facts, differences=list(remade.differences), output=str(output or "") or None)
    elif remade.differences:
        print(f"trial {found.index} differs: {'; '.join(remade.differences)}")
    else:
        print(f"same: trial {found.index}, weights {remade.result['sha256']}")
    if remade.differences:
        raise typer.Exit(DIFFERENT)


def verify_whole(name: str, *, trust: bool, as_json: bool) -> None:
    """Repeat a whole sweep and compare every result."""
    from hotloop.cli.signals import INTERRUPTED
    from hotloop.cli.verify import DIFFERENT
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.sweeps.display import PlainLines
    from hotloop.sweeps.verification import verify_sweep
    from hotloop.training.interrupts import Interrupts

    sweep = opened(name, trust=trust)
    try:
        with Interrupts() as interrupts:
            found = verify_sweep(sweep, PlainLines(), interrupts)
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        emit("end", sweep=sweep.name, same=not found.differences, lines=found.lines, differences=found.differences)
    elif found.differences:
        print(f"different: {len(found.differences)} of {found.lines} results")
        for line in found.differences[:10]:
            say(f"  {line}")
    else:
        print(f"same: {found.lines} results of {sweep.name}, weights included")
    if found.differences:
        raise typer.Exit(DIFFERENT)
