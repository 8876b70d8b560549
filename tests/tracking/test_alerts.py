"""Alerts: a return that collapses, numbers that stop being finite."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import hotloop
from hotloop.config import load_config
from hotloop.tracking import journal
from hotloop.tracking.alerts import Alerts
from hotloop.training import Callback
from hotloop.training.callbacks import IterationReport
from hotloop.training.start import begin, resume
from hotloop.training.trainer import Trainer


class Records(Callback):
    def __init__(self) -> None:
        self.reports: list[IterationReport] = []

    def iteration(self, report: IterationReport) -> None:
        self.reports.append(report)


def a_record(home: Path) -> IterationReport:
    records = Records()
    hotloop.train("cartpole", steps=2048, config={"train.until": None}, home=home, store="none", callbacks=[records])
    return records.reports[-1]


def kinds(record: IterationReport, changes: list[dict[str, Any]]) -> list[list[str]]:
    alerts = Alerts(100)
    steady: dict[str, Any] = {"episodes": 1000, "return_std": 10.0}
    return [[kind for kind, _ in alerts.look(dataclasses.replace(record, **steady, **change))] for change in changes]


def test_a_collapsed_return_is_reported_once_until_it_recovers(tmp_path: Path) -> None:
    course = [20, 200, 400, 390, 100, 50, 380, 400, 60]
    found = kinds(a_record(tmp_path), [{"return_recent": float(value)} for value in course])
    assert [i for i, reports in enumerate(found) if "return-collapsed" in reports] == [4, 8]


def test_noise_is_no_collapse(tmp_path: Path) -> None:
    course = [20, 22, 19, 21, 18, math.nan, 20]
    assert kinds(a_record(tmp_path), [{"return_recent": float(value)} for value in course]) == [[]] * len(course)


def test_numbers_are_reported_when_they_stop_being_finite(tmp_path: Path) -> None:
    record = a_record(tmp_path)
    changes = [{"kl": math.nan}, {"kl": math.nan, "value_loss": math.inf}, {"kl": math.nan, "value_loss": math.inf}]
    changed = [{"losses": record.losses | losses, "return_recent": math.nan} for losses in changes]
    assert kinds(record, changed) == [
        [],
        ["not-finite"],
        [],
    ]


class Stop(Callback):
    """Ends a run in an orderly way after so many iterations."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.trainer: Trainer | None = None

    def iteration(self, report: IterationReport) -> None:
        if report.iterations == self.iterations:
            assert self.trainer is not None
            self.trainer.request_stop()


def collapses(run: Path) -> list[int]:
    events = journal.read_all(run / journal.NAME)
    return [event["iterations"] for event in events if event.get("kind") == "return-collapsed"]


def test_a_collapse_is_reported_once_whenever_the_run_is_interrupted(tmp_path: Path) -> None:
    # The env becomes much harder halfway, so that returns collapse.
    config = load_config(
        "cartpole",
        overrides={
            "train": {"steps": 64 * 32 * 60, "until": None, "evaluate_episodes": 0, "until_episodes": 50},
            "runner": {"num_envs": 64},
            "ppo": {"horizon": 32},
            "track": {"interval": 1},
            "control": {
                "schedules": [
                    {
                        "key": "env.max_steps",
                        "start": 400,
                        "end": 8,
                        "begin_step": 64 * 32 * 40,
                        "end_step": 64 * 32 * 41,
                    }
                ]
            },
        },
    )
    whole = begin(config, name="whole", home=tmp_path).run()
    (at,) = collapses(whole.path)
    for moment in (at - 2, at, at + 2):
        stop = Stop(moment)
        stop.trainer = begin(config, name=f"stopped-{moment}", home=tmp_path, callbacks=[stop])
        stopped = stop.trainer.run()
        assert (stopped.ended, stopped.iterations) == ("interrupted", moment)
        resume(stopped.path).run()
        assert collapses(stopped.path) == [at]
