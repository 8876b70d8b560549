"""Alerts of a running training: a return that collapses, losses that are not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

# The fraction of the gained return that must be lost again.
_LOST: Final = 0.5
# Gains and losses of fewer standard errors of the recent return are noise.
_CLEAR: Final = 5.0
# Finished episodes below which a mean says little.
_FEWEST: Final = 50
_NUMBERS: Final = ("policy_loss", "value_loss", "entropy", "kl", "gradient_norm")


class Record(Protocol):
    """The part of a record that alerts depend on."""

    @property
    def return_recent(self) -> float: ...  # noqa: D102
    @property
    def return_std(self) -> float: ...  # noqa: D102
    @property
    def episodes(self) -> int: ...  # noqa: D102
    @property
    def losses(self) -> Mapping[str, float]: ...  # noqa: D102


class Alerts:
    """Checks every record; reports a condition once, and again only after it has ended."""

    def __init__(self, recent_episodes: int) -> None:
        self._recent = recent_episodes
        self._lowest = math.inf
        self._best = -math.inf
        self._from = math.inf
        """The lowest return before the best."""
        self._collapsed = False
        self._measured: set[str] = set()
        """Names that were finite once: not every algorithm measures all of them."""
        self._broken: tuple[str, ...] = ()

    def look(self, report: Record) -> list[tuple[str, str]]:
        """Kind and message of each new alert."""
        return [*self._look_at_return(report), *self._look_at_numbers(report)]

    def _look_at_return(self, report: Record) -> list[tuple[str, str]]:
        now = report.return_recent
        if not math.isfinite(now) or report.episodes < min(_FEWEST, self._recent):
            return []
        self._lowest = min(self._lowest, now)
        if now > self._best:
            self._best, self._from = now, self._lowest
        gained, lost = self._best - self._from, self._best - now
        noise = report.return_std / math.sqrt(min(self._recent, report.episodes))
        if self._collapsed:
            self._collapsed = lost > _LOST / 2 * gained
            return []
        # NaN, from a record in which no episode ended, proves nothing.
        if not (gained > _CLEAR * noise and lost > _LOST * gained and lost > _CLEAR * noise):
            return []
        self._collapsed = True
        return [("return-collapsed", f"the return collapsed: {now:.4g}, after {self._best:.4g}")]

    def _look_at_numbers(self, report: Record) -> list[tuple[str, str]]:
        finite = {name for name in _NUMBERS if math.isfinite(report.losses.get(name, math.nan))}
        self._measured |= finite
        broken = tuple(name for name in _NUMBERS if name in self._measured - finite)
        before, self._broken = self._broken, broken
        if not broken or broken == before:
            return []
        return [("not-finite", f"not finite: {', '.join(broken)}")]
