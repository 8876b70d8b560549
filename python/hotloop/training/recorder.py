"""The recorder: a listener that writes what happened to `metrics.jsonl`, a line each."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from hotloop.training.callbacks import Callback
from hotloop.training.files import write_atomically

if TYPE_CHECKING:
    from io import TextIOWrapper
    from pathlib import Path

    from hotloop.training.callbacks import (
        EvaluationReport,
        IterationReport,
        StartReport,
        TroubleReport,
    )
    from hotloop.training.runs import Run


class Recorder(Callback):
    """Writes every record and evaluation at once, so that a killed run has lost none.

    When a run goes on from a checkpoint, lines of later steps are removed: they will be written again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIOWrapper | None = None

    def start(self, report: StartReport) -> None:
        """Opens the file, and cuts it where the run goes on."""
        self._open(report.resumed_at)

    def _open(self, cut_after: int | None) -> None:
        if self._path.exists():
            kept = [] if cut_after is None else lines_until(self._path, cut_after)
            write_atomically(self._path, b"".join(kept))
        # One write per line: the system has it when the next iteration begins.
        self._file = self._path.open("a", buffering=1)

    def iteration(self, report: IterationReport) -> None:
        """Writes a record."""
        self._write("iteration", dataclasses.asdict(report))

    def evaluation(self, report: EvaluationReport) -> None:
        """Writes an evaluation."""
        self._write("evaluation", dataclasses.asdict(report))

    def trouble(self, report: TroubleReport) -> None:
        """Writes what went wrong, and drops the records that a rollback made void."""
        if report.back_to is not None:
            self.close()
            self._open(report.back_to)
        self._write("trouble", dataclasses.asdict(report))

    def end(self, run: Run) -> None:
        """Closes the file."""
        self.close()

    def close(self) -> None:
        """Closes the file, also of a run that failed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps({"event": event, **plain(fields)}) + "\n")


def lines_until(path: Path, steps: int) -> list[bytes]:
    """The whole lines of a metrics file up to a step."""
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            told = json.loads(line)
        except ValueError:
            break  # a line that a kill cut short; nothing can follow it
        if not line.endswith(b"\n") or told["steps"] > steps:
            break
        kept.append(line)
    return kept


def plain(value: Any) -> Any:
    """What JSON can hold: numbers to nine digits, and null for those that are not finite."""
    match value:
        case float():
            return float(f"{value:.9g}") if math.isfinite(value) else None
        case dict():
            return {key: plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [plain(entry) for entry in value]
    return value
