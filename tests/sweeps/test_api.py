"""`hotloop.sweep`: samplers of one's own, prior trials, and code that is executed only where it is trusted."""

import sys
from pathlib import Path

import pytest

import hotloop
from hotloop.errors import ConfigError, TrainingError
from hotloop.sweeps.api import open_sweep
from hotloop.sweeps.journal import find_sweep
from hotloop.sweeps.sweep import Sweep
from tests.sweeps.small import QUICK, RATE, SMALL, finish, lines, new_sweep

OWN = '''
class Sampler:
    """The middle first, then around the best so far."""

    def __init__(self, space, seed):
        self.space = space

    def ask(self, prefix, pending, rng):
        ended = [each for each in prefix if each.values]
        if not ended:
            return self.space.settings(lambda each: each.distribution.value(0.5))
        best = max(ended, key=lambda each: each.values)
        return {key: value * (0.8 + 0.4 * rng.random()) for key, value in best.settings.items()}
'''


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sampler_of_ones_own_is_asked_with_what_the_trial_may_see(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "own_sampler.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = {"trials": 6, "lag": 2, "sampler": "own_sampler:Sampler"}
    one = finish(new_sweep(home, "one", **options), slots=1)
    two = finish(new_sweep(home, "two", **options), slots=2)
    assert lines(one) == lines(two)
    rates = [trial.settings["ppo.learning_rate"] for trial in one.trials]
    assert rates[0] == rates[1] == pytest.approx(10**-2.5, rel=1e-4)
    assert len(set(rates)) > 3


def test_code_that_a_sweep_from_elsewhere_names_is_not_executed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "own_sampler.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sweep = new_sweep(home, "mine", trials=2, sampler="own_sampler:Sampler")
    sweep.path.rename(home / "sweeps" / "theirs")
    with pytest.raises(TrainingError, match=r"names code to be loaded .own_sampler:Sampler., and was not made here"):
        Sweep(find_sweep("theirs"))
    assert Sweep(find_sweep("theirs"), trust=True).definition.trials == 2


def test_trials_of_another_sweep_are_known_from_the_start(home: Path) -> None:
    finish(new_sweep(home, "before", trials=12, sampler="random"))
    notes: list[str] = []
    informed = open_sweep(
        "cartpole",
        space=RATE,
        fixed=SMALL,
        options={**QUICK, "trials": 2, "sampler": "tpe"},
        name="after",
        prior="before",
        note=notes.append,
    )
    assert "12 of 12 trials of before lie in this space and are known from the start" in notes
    blind = new_sweep(home, "blind", trials=2, sampler="tpe")
    assert finish(informed).trials[0].settings != finish(blind).trials[0].settings
    # They are part of the sweep: it does not need the other one any more.
    assert len(informed.folder.prior()) == 12
    with pytest.raises(ConfigError, match="makes no use of another sweep's trials"):
        open_sweep("cartpole", space=RATE, fixed=SMALL, options={"sampler": "random"}, prior="before")


def test_the_winner_of_a_sweep_trains_a_run(home: Path) -> None:
    found = hotloop.sweep(
        "cartpole",
        RATE,
        trials=3,
        sampler="sobol",
        steps=2048,
        config={"train.evaluate_episodes": 4},
        options=QUICK,
        progress=False,
    )
    best = found.best
    assert best is not None
    run = hotloop.train("cartpole", config=found.overrides(), progress=False)
    assert run.config.ppo.learning_rate == best.settings["ppo.learning_rate"]
    assert run.steps == 2048
    again = hotloop.sweep(resume=found.name, progress=False)
    assert lines(again) == lines(found)


def test_a_damaged_definition_is_refused(home: Path) -> None:
    sweep = new_sweep(home, trials=2, sampler="sobol")
    file = sweep.path / "sweep.json"
    file.write_text(file.read_text().replace('"trials": 2', '"trials": 3'))
    with pytest.raises(TrainingError, match="does not match its checksum"):
        find_sweep("s")
