"""A sweep is a function of its definition: not of slots, kills, crashes or a damaged journal."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotloop.errors import TrainingError
from hotloop.sweeps.journal import NAME, find_sweep
from hotloop.sweeps.sweep import Sweep
from tests.sweeps.small import RATE, SMALL, finish, lines, new_sweep

KINDS: dict[str, dict[str, Any]] = {
    "halving": {"trials": 10, "sampler": "sobol", "prune": {"by": "halving", "first": 2048}},
    "hyperband": {"trials": 8, "sampler": "random", "prune": {"by": "hyperband", "first": 2048, "factor": 2}},
    "median": {"trials": 8, "sampler": "random", "lag": 2, "prune": {"by": "median", "first": 2048}},
    "halving-sync": {"trials": 9, "sampler": "random", "prune": {"by": "halving-sync", "first": 2048}},
    "seeds": {"trials": 6, "sampler": "sobol", "lag": 2, "seeds": 3, "objective": ["return", "cost"]},
    "tpe": {"trials": 14, "sampler": "tpe", "lag": 4},
    "pbt": {"sampler": "pbt", "pbt": {"population": 4, "interval": 2048}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_slots_do_not_change_a_sweep(kind: str, tmp_path: Path) -> None:
    options = {"lag": 8, **KINDS[kind]}
    alone = finish(new_sweep(tmp_path, "alone", **options), slots=1)
    together = finish(new_sweep(tmp_path, "together", **options), slots=5)
    assert lines(alone) == lines(together)
    assert alone.best == together.best or alone.best is not None
    assert alone.is_complete


def test_every_trial_has_its_weights_hash_and_the_winner_fresh_seeds(tmp_path: Path) -> None:
    sweep = finish(new_sweep(tmp_path, trials=6, sampler="sobol", seed=3))
    assert all(len(trial.sha256 or "") == 64 for trial in sweep.trials)
    best = sweep.best
    assert best is not None
    assert best.confirmation is not None
    assert best.confirmation.episodes == 2
    used = {seed for trial in sweep.trials for seed in trial.seeds}
    fresh = {line["seeds"][0] for task, line in sweep.results.items() if task.startswith("confirm/")}
    assert fresh
    assert not used & fresh


def test_kills_at_any_moment_do_not_change_a_sweep(tmp_path: Path) -> None:
    options = {"trials": 12, "sampler": "sobol", "prune": {"by": "halving", "first": 2048}}
    whole = finish(new_sweep(tmp_path, "whole", **options))
    killed = new_sweep(tmp_path, "killed", **options)
    command = [sys.executable, "-m", "hotloop", "sweep", "--resume", str(killed.path), "--json"]
    moments = random.Random(0)
    kills = 0
    while not Sweep(find_sweep("killed", tmp_path)).is_complete:
        process = subprocess.Popen(
            [*command, "--slots", str(moments.choice((1, 2, 5)))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        # After some of its trials, so that every session gets on.
        for _ in range(moments.randint(2, 5)):
            if not process.stdout.readline():
                break
        else:
            kills += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert kills >= 3
    assert lines(killed) == lines(whole)


def test_a_journal_cut_at_any_byte_ends_as_the_same_sweep(tmp_path: Path) -> None:
    sweep = finish(new_sweep(tmp_path, trials=5, sampler="sobol"))
    journal, expected = sweep.path / NAME, lines(sweep)
    whole = journal.read_bytes()
    places = [0, 1, len(whole) - 1, *random.Random(1).sample(range(len(whole)), 3)]
    for place in places:
        journal.write_bytes(whole[:place])
        again = finish(Sweep(find_sweep(sweep.path)))
        assert lines(again) == expected


def test_a_line_that_is_damaged_is_repeated(tmp_path: Path) -> None:
    sweep = finish(new_sweep(tmp_path, trials=3, sampler="sobol"))
    journal, expected = sweep.path / NAME, lines(sweep)
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first[: len(first) // 2] + b"\x18\n" + b"not json\n{}\n" + b"".join(rest))
    assert lines(finish(Sweep(find_sweep(sweep.path)))) == expected


def test_a_worker_that_dies_costs_one_trial_which_is_repeated(tmp_path: Path) -> None:
    from hotloop.sweeps.display import Silent
    from hotloop.sweeps.sweep import run_sweep

    class Killing(Silent):
        """Kills all workers once, after the first result."""

        notes: list[str] = []  # noqa: RUF012  # of the one instance

        def finished(self, result: Any) -> None:
            super().finished(result)
            if self.fresh == 1:
                for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)

        def note(self, text: str) -> None:
            self.notes.append(text)

    whole = finish(new_sweep(tmp_path, "whole", trials=6, sampler="sobol"))
    disturbed = new_sweep(tmp_path, "disturbed", trials=6, sampler="sobol")
    listener = Killing()
    assert run_sweep(disturbed, slots=2, listener=listener)
    assert any("was killed by SIGKILL; it is repeated" in note for note in listener.notes)
    assert lines(disturbed) == lines(whole)


def test_refused_settings_are_results_without_a_value(tmp_path: Path) -> None:
    space = {"ppo.minibatch_size": "pow2(1024, 4096)"}
    sweep = finish(new_sweep(tmp_path, space=space, trials=6, sampler="grid"))
    states = {trial.settings["ppo.minibatch_size"]: trial.state for trial in sweep.trials}
    assert states == {1024: "completed", 2048: "completed", 4096: "refused"}


def test_pruned_trials_end_early_and_say_why(tmp_path: Path) -> None:
    space = {"ppo.learning_rate": "log(1e-6, 1e-2)"}
    fixed = {**SMALL, "train.steps": 16384}
    sweep = finish(
        new_sweep(
            tmp_path, space=space, fixed=fixed, trials=16, sampler="sobol", lag=4, prune={"by": "median", "first": 8192}
        )
    )
    pruned = [trial for trial in sweep.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        assert trial.steps == 8192
        assert trial.value is None
        assert "at 8192 steps, below" in (trial.why or "")


def test_the_objective_steps_counts_until_the_goal(tmp_path: Path) -> None:
    fixed = {"train.steps": 100_000, "train.until": 150, "train.evaluate_episodes": 8}
    sweep = finish(new_sweep(tmp_path, fixed=fixed, trials=3, sampler="sobol", objective="steps"))
    for trial in sweep.trials:
        assert trial.value is not None
        solved = trial.steps < 100_000
        assert -trial.value == (trial.steps if solved else 2 * trial.steps)
    assert any(trial.steps < 100_000 for trial in sweep.trials)


def test_a_front_has_no_dominated_trial(tmp_path: Path) -> None:
    space = {**RATE, "train.steps": "logint(2048, 16384)"}
    fixed = {"train.evaluate_episodes": 8}
    sweep = finish(
        new_sweep(tmp_path, space=space, fixed=fixed, trials=8, sampler="sobol", objective=["return", "cost"])
    )
    front = sweep.front
    assert front
    for one in front:
        assert not any(
            (other.value or 0) >= (one.value or 0) and other.cost < one.cost
            for other in sweep.trials
            if other is not one
        )


def test_a_sweep_in_use_is_refused(tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, trials=2, sampler="sobol")
    sweep.folder.open()
    with pytest.raises(TrainingError, match="is in use"):
        finish(Sweep(find_sweep(sweep.path)))
    sweep.folder.close()


def test_a_sweep_whose_trials_all_fail_stops_with_the_reason(tmp_path: Path) -> None:
    # Gradients of rewards this large are not finite.
    fixed = {**SMALL, "ppo.reward_scale": 1e38, "ppo.max_gradient_norm": 1e30}
    sweep = new_sweep(tmp_path, fixed=fixed, trials=40, sampler="sobol")
    with pytest.raises(TrainingError, match="trials failed; the first reason: "):
        finish(sweep)
    assert json.loads((sweep.path / NAME).read_text().splitlines()[0])["state"] == "failed"
