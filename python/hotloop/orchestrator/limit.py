"""The adaptive limit: how many jobs run at a time, as a function of measured signals.

A probe changes the limit by a step and is kept if it paid: upwards if goodput rose by more than its noise, downwards
if it did not fall by more. A probe upwards that did not pay is followed by a pause that doubles each time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from hotloop.config.orchestrator import OrchestratorConfig

# Fraction of a job's time in the CPU's queue from which steps upwards are small, and from which steps downwards pay.
_BUSY: Final = 0.05
_CROWDED: Final = 0.40
# Relative change of goodput that counts as noise.
_NOISE: Final = 0.03
_LONGEST_PAUSE: Final = 16
# Attempts over which deaths are counted, and the fewest from which a rate follows.
DEATH_WINDOW: Final = 20
_FEWEST_ATTEMPTS: Final = 5

Probe = Literal["", "up", "down"]


@dataclass(frozen=True)
class Signals:
    """Measurements of one interval."""

    running: int
    """Jobs that ran throughout."""
    queued: int
    """Jobs that could start if the limit allowed it."""
    stall: float = 0.0
    """Fraction of our threads' time that they were runnable but waited for a core."""
    goodput: float = 0.0
    """Sum over jobs of speed relative to the best speed per thread."""
    memory_pressure: bool = False
    """Whether memory is short."""
    deaths: int = 0
    """Attempts that died, of the last `attempts`."""
    attempts: int = 0
    gpu_wait: float = 0.0
    """Mean seconds for which jobs have waited for a GPU."""


@dataclass(frozen=True)
class Limit:
    """The limit and what the law remembers between intervals."""

    value: int
    probe: Probe = ""
    """Direction of the change whose effect is being measured."""
    step: int = 0
    before: float = 0.0
    """Goodput before that change."""
    pause: int = 0
    """Intervals until the next probe upwards."""
    next_pause: int = 1


def adapt(limit: Limit, seen: Signals, settings: OrchestratorConfig) -> tuple[Limit, str]:
    """Return the limit for the next interval, and the reason."""
    low, high = settings.min_limit, min(settings.max_limit, settings.max_concurrent_tasks)

    def to(value: int, probe: Probe = "", **changes: int) -> Limit:
        value = max(low, min(high, value))
        return replace(limit, value=value, probe=probe, step=abs(value - limit.value), before=seen.goodput, **changes)

    if seen.memory_pressure:
        return to(min(limit.value, seen.running - 1), pause=limit.next_pause), "memory is short"
    if seen.attempts >= _FEWEST_ATTEMPTS and seen.deaths / seen.attempts > settings.error_rate_high:
        return to(limit.value // 2), f"{seen.deaths} of the last {seen.attempts} attempts died"
    if limit.probe and seen.running < limit.value:
        if seen.queued and limit.probe == "up":
            return limit, "the probe is not filled yet"
        # Nothing is left to measure it with.
        return to(limit.value), "fewer jobs than the limit"
    if limit.probe == "up":
        if seen.goodput > limit.before * (1 + _NOISE):
            kept = to(limit.value, next_pause=1)
            return _probe_up(kept, seen, settings, high) or (kept, "goodput rose: kept")
        back = to(
            limit.value - limit.step, pause=limit.next_pause, next_pause=min(_LONGEST_PAUSE, 2 * limit.next_pause)
        )
        return back, "goodput did not rise: taken back"
    if limit.probe == "down":
        if seen.goodput < limit.before * (1 - _NOISE):
            worse = to(limit.value + limit.step, pause=limit.next_pause)
            return replace(worse, next_pause=min(_LONGEST_PAUSE, 2 * limit.next_pause)), "goodput fell: taken back"
        kept = to(limit.value)
        return _probe_down(kept, seen, settings, low) or (kept, "goodput held with fewer jobs: kept")
    if limit.pause:
        return replace(limit, pause=limit.pause - 1), "pause after a probe that did not pay"
    return (
        _probe_down(limit, seen, settings, low)
        or _probe_up(limit, seen, settings, high)
        or (limit, "nothing to gain" if seen.queued else "nothing waits for a slot")
    )


def _probe_up(limit: Limit, seen: Signals, settings: OrchestratorConfig, high: int) -> tuple[Limit, str] | None:
    demand = seen.running + seen.queued
    if not seen.queued or seen.running < limit.value or demand <= settings.queue_high_watermark * limit.value:
        return None
    if limit.value >= high or seen.stall > _CROWDED or seen.gpu_wait > settings.gpu_wait_high:
        return None
    step = 1 if seen.stall >= _BUSY else settings.increase_step
    step = min(step, high - limit.value)
    return replace(limit, value=limit.value + step, probe="up", step=step, before=seen.goodput), "probe up"


def _probe_down(limit: Limit, seen: Signals, settings: OrchestratorConfig, low: int) -> tuple[Limit, str] | None:
    if seen.stall <= _CROWDED or seen.running < limit.value or limit.value <= low:
        return None
    step = min(settings.decrease_step, limit.value - low)
    return replace(limit, value=limit.value - step, probe="down", step=step, before=seen.goodput), "probe down"
