"""`hotloop runs show`: all that is known of one run."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from hotloop.cli.output import emit
from hotloop.cli.runs import PLAIN, JsonOption, RunArgument, StoreOption, finite, opened, shown


def show(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show all about one run: how it went, its settings, evaluations, checkpoints and events.

    \b
      hotloop runs show last
      hotloop runs show 3f2a --json | jq .config
    """
    with opened(store) as found:
        one = found.find(run)
        told = {
            **{name: getattr(one, name) for name in PLAIN},
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
        # Numbers as they are: to nine digits, times would be told to ten seconds only.
        emit("end", **finite(told))
        return
    for line in _in_words(told):
        print(line)


def _in_words(told: dict[str, Any]) -> Iterator[str]:
    from hotloop.cli.braille import short_signed
    from hotloop.text import duration, measured, short

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1 << 30
    ended = f" ({told['ended']})" if told["ended"] else ""
    yield f"{told['name']}  {told['id']}"
    yield f"{told['env']}, seed {told['seed']}: {told['status']}{ended}"
    yield f"begun {shown('created', told['created'])} on {told['host']}, process {told['process']}"
    yield (
        f"{short(told['steps'])} steps, {told['episodes']} episodes in {duration(told['seconds'])}, "
        f"return {shown('return', told['return'])}, best evaluation {shown('best', told['best'])}"
    )
    yield f"in {told['path']}"
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    yield f"{versions}; revision {told['git'] or 'unknown'}"
    for facts in told["evaluations"][-5:]:
        yield f"evaluation at step {short(facts['step'])}{_how(facts, told['config']['env'])}: {_result(facts)}"
    best = max((facts["step"] for facts in told["checkpoints"] if facts["is_best"]), default=None)
    for facts in told["checkpoints"][-3:]:
        yield f"checkpoint {facts['path']}{', the best' if facts['step'] == best else ''}"
    if told["replays"]:
        yield f"best episodes, for hotloop play --replay: {', '.join(f'replays/{name}' for name in told['replays'])}"
    for facts in told["events"][-10:]:
        yield f"{facts['level']} at step {short(facts['step'])}: {facts['what']}"
    for facts in told["resources"][-1:]:
        last = [entry for entry in told["resources"] if entry["time"] == facts["time"]]
        yield "; ".join(
            f"{entry['who']}: {measured(entry['cpu'], 3) if entry['cpu'] is not None else '-'} cores, "
            f"{(entry['memory'] or 0) / 2**20:.0f} MB"
            for entry in last
        )
    yield "last record:"
    for name, value in told["metrics"].items():
        yield f"  {name} {short_signed(value) if abs(value) >= 1e4 else measured(value)}"
    yield "settings:"
    for part, values in told["config"].items():
        line = f"  {part}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        yield from textwrap.wrap(line, width, subsequent_indent="    ", break_long_words=False)


def _how(evaluation: dict[str, Any], options: dict[str, Any]) -> str:
    """What was special about an evaluation that was asked for: other options of the env than the run's, and so on."""
    if evaluation["source"] == "training":
        return ""
    facts = evaluation["facts"]
    changed = {key: value for key, value in facts["options"].items() if options.get(key) != value}
    special = [f"env.{key}={value}" for key, value in changed.items()]
    special += [f"seed {facts['seed']}"] if facts["seed"] else []
    special += [] if facts["deterministic"] else ["drawn actions"]
    return " by hotloop eval" + (f" ({', '.join(special)})" if special else "")


def _result(evaluation: dict[str, Any]) -> str:
    mean = shown("mean", evaluation["mean"])
    if evaluation["facts"].get("exact"):
        return f"{mean} exactly"
    return (
        f"{mean} over {evaluation['episodes']} episodes "
        f"(95 %: {shown('low', evaluation['low'])} to {shown('high', evaluation['high'])})"
    )
