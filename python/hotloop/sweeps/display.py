"""Progress of a sweep in lines, and its result in a few of them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

from hotloop.sweeps.results import ranking
from hotloop.text import duration, measured, short

if TYPE_CHECKING:
    from hotloop.sweeps.results import Trial
    from hotloop.sweeps.sweep import Sweep
    from hotloop.sweeps.tasks import Result, Task

_PACE: Final = 2.0


class Silent:
    """Follows a sweep and says nothing; counts what views need."""

    def __init__(self) -> None:
        self.sweep: Sweep | None = None
        self.stage = ""
        self.counts: dict[str, int] = {}
        self.fresh = 0
        """Trials that ended in this session."""
        self.last: list[Result] = []
        self.running: dict[str, int] = {}
        self.best: tuple[float, Result] | None = None
        self._start = time.monotonic()

    def begin(self, sweep: Sweep, slots: int) -> None:
        """Count what is known from earlier sessions."""
        self.sweep, self.slots = sweep, slots
        self._start = time.monotonic()
        for line in sweep.results.values():
            self._count(line)

    def phase(self, name: str) -> None:
        """Note the phase."""
        self.stage = name

    def finished(self, result: Result) -> None:
        """Count a result."""
        self.running.pop(result["task"], None)
        self.fresh += 1
        self.last = [*self.last[-7:], result]
        self._count(result)

    def moved(self, task: Task, steps: int) -> None:
        """Note progress."""
        self.running[task.id] = steps

    def note(self, text: str) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""

    def _count(self, line: Result) -> None:
        if line["task"].partition("/")[0] not in ("trial", "rung", "member"):
            return
        self.counts[line["state"]] = self.counts.get(line["state"], 0) + 1
        if line["state"] == "completed" and line["evaluations"]:
            value = sum(each["value"] for each in line["evaluations"]) / len(line["evaluations"])
            if self.best is None or value > self.best[0]:
                self.best = value, line

    @property
    def done(self) -> int:
        """Trials that have ended."""
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        """Tasks per second of this session."""
        return self.fresh / max(1e-9, time.monotonic() - self._start)

    @property
    def seconds(self) -> float:
        """Seconds of this session."""
        return time.monotonic() - self._start

    @property
    def pruned_share(self) -> float:
        """Share of the trials that were pruned."""
        return self.counts.get("pruned", 0) / max(1, self.done)


class PlainLines(Silent):
    """A line every two seconds, and the result."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream or sys.stderr
        self._shown = 0.0

    def begin(self, sweep: Sweep, slots: int) -> None:
        """Print what is about to run."""
        super().begin(sweep, slots)
        for line in opening(sweep, slots):
            self._print(line)

    def note(self, text: str) -> None:
        """Print it."""
        self._print(text)

    def tick(self) -> None:
        """Print how far the sweep is."""
        if time.monotonic() - self._shown >= _PACE:
            self._shown = time.monotonic()
            assert self.sweep is not None
            best = "-" if self.best is None else shown_value(self.sweep, self.best[0])
            self._print(
                f"{self.stage}: {self.done} done, {self.rate:.1f} a second, "
                f"{self.pruned_share:.0%} pruned, best so far {best}"
            )

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def opening(sweep: Sweep, slots: int) -> list[str]:
    """Return what a sweep is about to do, and what it promises."""
    definition, space = sweep.definition, sweep.definition.space
    known = f", {len(sweep.results)} results known" if sweep.results else ""
    return [
        f"{sweep.name}: {definition.env}, {definition.trials} trials by {definition.sampler}, {slots} at once{known}",
        *(f"  {each.name}: {each.distribution}" for each in space.dimensions),
        f"  {definition.promise}",
    ]


def shown_value(sweep: Sweep, value: float) -> str:
    """Return a value of the objective for people: steps are minimised, and negative inside."""
    return short(-value) if sweep.definition.sweep.metric == "steps" else measured(value)


def conclusion(sweep: Sweep) -> list[str]:
    """Return the result of a sweep in lines."""
    trials = sweep.trials
    counts: dict[str, int] = {}
    for trial in trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    cpu = sum(line["cpu"] for line in sweep.results.values())
    spread = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    lines = [f"{sweep.name}: {len(trials)} trials ({spread}), {duration(cpu)} of CPU time"]
    best = sweep.best
    if best is None:
        lines.append("no trial was confirmed")
        return lines
    lines.append(f"best: trial {best.index}, {describe_score(sweep, best)}")
    lines += [f"  {key}={format_setting(value)}" for key, value in best.settings.items()]
    if run := sweep.kept.get(best.index):
        lines.append(f"  its run: {run}")
    if sweep.definition.sweep.has_cost:
        lines.append("front, not confirmed (cost, value): " + ", ".join(_point(sweep, trial) for trial in sweep.front))
    lines.append(f"train with it: hotloop train {sweep.definition.env} --best-of {sweep.name}")
    return lines


def describe_score(sweep: Sweep, trial: Trial) -> str:
    """Return a trial's score with its interval over fresh seeds, or that it is not confirmed."""
    metric, found = sweep.definition.sweep.metric, trial.confirmation
    if found is None:
        assert trial.value is not None
        return f"{metric} {shown_value(sweep, trial.value)} (not confirmed)"
    ends = sorted((found.low, found.high), key=abs) if metric == "steps" else (found.low, found.high)
    low, high = (shown_value(sweep, end) for end in ends)
    return (
        f"{metric} {shown_value(sweep, found.mean)} over {found.episodes} fresh seeds (95 % interval {low} to {high})"
    )


def _point(sweep: Sweep, trial: Trial) -> str:
    assert trial.value is not None
    return f"{measured(trial.cost, 3)} s {shown_value(sweep, trial.value)} (trial {trial.index})"


def trial_rows(sweep: Sweep, count: int | None) -> list[dict[str, Any]]:
    """Return the best trials, and then the others by index, as rows."""
    trials = sweep.trials
    best = ranking(trials)
    indices = {trial.index for trial in best}
    ordered = [*best, *(trial for trial in trials if trial.index not in indices)]
    return [trial_row(sweep, trial) for trial in ordered[:count]]


def trial_row(sweep: Sweep, trial: Trial) -> dict[str, Any]:
    """Return a trial as a flat row, with the objective as users know it."""
    sign = -1.0 if sweep.definition.sweep.metric == "steps" else 1.0
    confirmation = trial.confirmation
    return {
        "index": trial.index,
        "state": trial.state,
        "value": None if trial.value is None else sign * trial.value,
        "confirmed": None if confirmation is None else sign * confirmation.mean,
        "confirmed_low": None if confirmation is None else min(sign * confirmation.low, sign * confirmation.high),
        "confirmed_high": None if confirmation is None else max(sign * confirmation.low, sign * confirmation.high),
        "steps": trial.steps,
        "cost": trial.cost,
        "seconds": trial.seconds,
        "cpu": trial.cpu,
        "memory": trial.memory,
        "seeds": list(trial.seeds),
        "sha256": trial.sha256,
        "why": trial.why,
        "settings": trial.settings,
        "rungs": [list(each) for each in trial.rungs],
    }


def format_setting(value: Any) -> str:
    """Return a setting as the command line takes it."""
    if isinstance(value, list):
        return "[" + ",".join(map(format_setting, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
