"""Alerts: a return that collapses, numbers that stop being finite."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import hotloop
from hotloop.tracking.alerts import Alerts
from hotloop.training import Callback
from hotloop.training.callbacks import IterationReport


class Records(Callback):
    def __init__(self) -> None:
        self.told: list[IterationReport] = []

    def iteration(self, report: IterationReport) -> None:
        self.told.append(report)


def a_record(home: Path) -> IterationReport:
    records = Records()
    hotloop.train("cartpole", steps=2048, config={"train.until": None}, home=home, store="none", callbacks=[records])
    return records.told[-1]


def kinds(record: IterationReport, changes: list[dict[str, Any]]) -> list[list[str]]:
    alerts = Alerts(100)
    steady: dict[str, Any] = {"episodes": 1000, "return_std": 10.0}
    return [[kind for kind, _ in alerts.look(dataclasses.replace(record, **steady, **told))] for told in changes]


def test_a_return_that_collapses_is_told_once_until_it_is_back(tmp_path: Path) -> None:
    course = [20, 200, 400, 390, 100, 50, 380, 400, 60]
    found = kinds(a_record(tmp_path), [{"return_recent": float(value)} for value in course])
    assert [i for i, told in enumerate(found) if "return-collapsed" in told] == [4, 8]


def test_noise_is_no_collapse(tmp_path: Path) -> None:
    course = [20, 22, 19, 21, 18, math.nan, 20]
    assert kinds(a_record(tmp_path), [{"return_recent": float(value)} for value in course]) == [[]] * len(course)


def test_numbers_that_stop_being_finite_are_told_and_those_that_never_were_are_not(tmp_path: Path) -> None:
    changes = [{"kl": math.nan}, {"kl": math.nan, "value_loss": math.inf}, {"kl": math.nan, "value_loss": math.inf}]
    assert kinds(a_record(tmp_path), [{**told, "return_recent": math.nan} for told in changes]) == [
        [],
        ["not-finite"],
        [],
    ]
