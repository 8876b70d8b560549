"""`hotloop runs show`: everything about one run."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from hotloop.cli.output import emit, say
from hotloop.cli.runs import JsonOption, RunArgument, StoreOption, finite, opened, shown


def show(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show one run: how it went, its settings, evaluations, checkpoints and events.

    \b
      hotloop runs show last
      hotloop runs show 3f2a --json | jq .config
    """
    from hotloop.tracking.filters import COLUMNS

    with opened(store) as found:
        one = found.find(run)
        details = {
            **{name: getattr(one, name) for name in COLUMNS},
            "path": str(one.path),
            "return": one.return_recent,
            **one.facts,
            "config": one.whole_config,
            "metrics": {name: float(found.series(one, name).values[-1]) for name in found.metric_names(one)},
            "evaluations": found.evaluations(one),
            "checkpoints": found.checkpoints(one),
            "events": found.events(one),
            "resources": found.resources(one)[-16:],
            "replays": sorted(path.name for path in one.path.glob("replays/*.replay")),
        }
    if as_json:
        # Not rounded: nine digits of a time are only exact to ten seconds.
        emit("end", **finite(details))
        return
    for line in _format(details):
        say(line)


def _format(details: dict[str, Any]) -> Iterator[str]:
    from hotloop.cli.braille import short_signed
    from hotloop.text import duration, measured, short

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1 << 30
    ended = f" ({details['ended']})" if details["ended"] else ""
    yield f"{details['name']}  {details['id']}"
    yield f"{details['env']}, seed {details['seed']}: {details['status']}{ended}"
    yield f"started {shown('created', details['created'])} on {details['host']}, process {details['process']}"
    yield (
        f"{short(details['steps'])} steps, {details['episodes']} episodes in {duration(details['seconds'])}, "
        f"return {shown('return', details['return'])}, best evaluation {shown('best', details['best'])}"
    )
    yield f"in {details['path']}"
    versions = ", ".join(f"{name} {version}" for name, version in (details["versions"] or {}).items())
    yield f"{versions}; revision {details['git'] or 'unknown'}"
    for facts in details["evaluations"][-5:]:
        yield f"evaluation at step {short(facts['step'])}{_special(facts, details['config']['env'])}: {_result(facts)}"
    best = max((facts["step"] for facts in details["checkpoints"] if facts["is_best"]), default=None)
    for facts in details["checkpoints"][-3:]:
        yield f"checkpoint {facts['path']}{', the best' if facts['step'] == best else ''}"
    if details["replays"]:
        yield f"best episodes, for hotloop play --replay: {', '.join(f'replays/{name}' for name in details['replays'])}"
    for facts in details["events"][-10:]:
        yield f"{facts['level']} at step {short(facts['step'])}: {facts['what']}"
    for facts in details["resources"][-1:]:
        last = [entry for entry in details["resources"] if entry["time"] == facts["time"]]
        yield "; ".join(
            f"{entry['who']}: {measured(entry['cpu'], 3) if entry['cpu'] is not None else '-'} cores, "
            f"{(entry['memory'] or 0) / 2**20:.0f} MB"
            for entry in last
        )
    yield "last record:"
    for name, value in details["metrics"].items():
        yield f"  {name} {short_signed(value) if abs(value) >= 1e4 else measured(value)}"
    yield "settings:"
    for part, values in details["config"].items():
        line = f"  {part}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        yield from textwrap.wrap(line, width, subsequent_indent="    ", break_long_words=False)


def _special(evaluation: dict[str, Any], options: dict[str, Any]) -> str:
    """Return the differences of an evaluation by `hotloop eval` from those in training."""
    if evaluation["source"] == "training":
        return ""
    facts = evaluation["facts"]
    changed = {key: value for key, value in facts["options"].items() if options.get(key) != value}
    special = [f"env.{key}={value}" for key, value in changed.items()]
    special += [f"seed {facts['seed']}"] if facts.get("seed") else []
    special += [] if facts.get("deterministic", True) else ["drawn actions"]
    return " by hotloop eval" + (f" ({', '.join(special)})" if special else "")


def _result(evaluation: dict[str, Any]) -> str:
    mean = shown("mean", evaluation["mean"])
    if evaluation["facts"].get("exact"):
        return f"{mean} exactly"
    return (
        f"{mean} over {evaluation['episodes']} episodes "
        f"(95 %: {shown('low', evaluation['low'])} to {shown('high', evaluation['high'])})"
    )
