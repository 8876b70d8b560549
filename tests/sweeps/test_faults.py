"""Faults done for real: a trial that kills its worker, a full disk, other instruction sets."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop import _core
from hotloop.sweeps.api import open_sweep
from hotloop.sweeps.journal import NAME, find_sweep
from hotloop.sweeps.sweep import Sweep
from tests.sweeps.small import QUICK, finish, lines, new_sweep


def test_a_trial_that_kills_its_worker_every_time_fails_and_the_others_end(tmp_path: Path) -> None:
    sweep = open_sweep(
        "gymnasium:tests.sweeps.deadly_env:Deadly-v0",
        space={"env.deadly": "choice(false, true)", "tabular.learning_rate": "choice(0.1, 0.5)"},
        fixed={"train.algorithm": "q-learning", "train.steps": 2000, "tabular.iteration": 500},
        options={**QUICK, "sampler": "grid"},
        home=tmp_path,
    )
    finish(sweep)
    states = {(trial.settings["env.deadly"], trial.settings["tabular.learning_rate"]): trial for trial in sweep.trials}
    assert [states[False, rate].state for rate in (0.1, 0.5)] == ["completed"] * 2
    for rate in (0.1, 0.5):
        assert states[True, rate].state == "failed"
        assert states[True, rate].why == "its worker was killed by SIGKILL, twice at the same place"


def test_a_full_disk_stops_a_sweep_that_goes_on_when_there_is_room(tmp_path: Path) -> None:
    whole = finish(new_sweep(tmp_path, "whole", trials=8, sampler="sobol"))
    sweep = new_sweep(tmp_path, "full", trials=8, sampler="sobol")

    def limit() -> None:
        # Files can grow to a few lines of the journal.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    command = [sys.executable, "-m", "hotloop", "sweep", "--resume", str(sweep.path), "--store", "none"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2
    assert f"cannot write to {sweep.path / NAME}: File too large. Once that is settled go on with" in done.stderr
    assert 0 < len(find_sweep(sweep.path).results()) < 8
    assert lines(finish(Sweep(find_sweep(sweep.path)))) == lines(whole)


@pytest.mark.skipif(_core.isa() == "scalar", reason="this CPU has no vector instructions")
def test_instruction_sets_do_not_change_a_sweep(tmp_path: Path) -> None:
    found = []
    for isa in ("scalar", _core.isa()):
        sweep = new_sweep(tmp_path, isa, trials=4, sampler="sobol")
        command = [sys.executable, "-m", "hotloop", "sweep", "--resume", str(sweep.path), "--json"]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "HOTLOOP_ISA": isa})
        found.append(lines(sweep))
    assert found[0] == found[1]
