"""The suite `sweep` runs the same trials through every tool."""

from typing import Any

import pytest

from hotloop.bench import sweep
from hotloop.bench.peers.sweep_tools import run_optuna
from hotloop.sweeps.definition import Definition


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_FIXED", {"train.steps": 2048, "train.evaluate_episodes": 2})


def test_rates_of_ours_and_peers_are_measured_in_turns() -> None:
    given: list[list[dict[str, Any]]] = []

    def peer(definition: Definition, settings: Any) -> float:
        given.append(list(settings))
        return 2.0 * len(settings)

    ours, theirs = sweep.compare([("peer", 3, peer)], trials=4, rounds=2, progress=lambda *facts: None)
    assert (ours.name, theirs.name, theirs.rate.value) == ("Hotloop", "peer", 0.5)
    assert theirs.ratio == pytest.approx(ours.rate.value / 0.5)
    assert len(ours.rate.rounds) == 2
    # Every round has other trials.
    assert given[0] != given[1]
    assert ours.as_json()["unit"] == "trials/s"


def test_optuna_runs_every_trial() -> None:
    definition = sweep.definition()
    assert run_optuna(definition, sweep.settings_of(definition, 3)) > 0
