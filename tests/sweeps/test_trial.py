"""Trials of every kind of env and learner, in worker processes that keep Python envs between them."""

from pathlib import Path

from hotloop.sweeps.api import open_sweep
from hotloop.sweeps.definition import define
from hotloop.sweeps.tasks import Rung, Segment, Task
from hotloop.sweeps.trial import run_task
from hotloop.sweeps.warm import Warm
from tests.sweeps.small import QUICK, RATE, finish, lines

PYTHON = {
    "train.steps": 512,
    "runner.num_envs": 2,
    "runner.num_workers": 1,
    "ppo.horizon": 64,
    "ppo.minibatch_size": 64,
    "train.evaluate_episodes": 2,
}


def test_python_envs_keep_their_processes_and_their_bits() -> None:
    definition = define("gymnasium:CartPole-v1", entries={**RATE, **PYTHON}, options={"sampler": "random"})
    task = Task("trial/0", (Segment({"ppo.learning_rate": 0.003}, 5),))
    warm = Warm()
    try:
        first, _ = run_task(task, definition, warm, lambda steps: None)
        kept = {purpose: runner for purpose, (_, runner) in warm._kept.items()}
        assert set(kept) == {False, True}
        # A trial that is pruned leaves the processes as usable as one that ends.
        pruned, _ = run_task(
            Task("trial/1", task.segments, (Rung(128, float("inf")),)), definition, warm, lambda steps: None
        )
        assert pruned["state"] == "pruned"
        again, _ = run_task(task, definition, warm, lambda steps: None)
        assert {purpose: runner for purpose, (_, runner) in warm._kept.items()} == kept
    finally:
        warm.shut_down()
    assert first["state"] == "completed", first["why"]
    assert again["sha256"] == first["sha256"]
    assert again["evaluations"] == first["evaluations"]


def test_tables_are_searched_too(tmp_path: Path) -> None:
    def sweep(name: str, slots: int) -> dict[str, object]:
        found = open_sweep(
            "taxi",
            space={"tabular.learning_rate": "log(0.01, 1)"},
            fixed={"train.algorithm": "q-learning", "train.steps": 40_000},
            options={**QUICK, "trials": 4, "sampler": "sobol", "prune": {"by": "halving", "first": 20_000}},
            name=name,
            home=tmp_path,
        )
        return lines(finish(found, slots))

    assert sweep("one", 1) == sweep("two", 2)


def test_an_env_that_raises_fails_its_trial_with_the_reason(tmp_path: Path) -> None:
    definition = define("gymnasium:CartPole-v1", entries={**RATE, **PYTHON}, options={"sampler": "random"})
    task = Task("trial/0", (Segment({"ppo.learning_rate": 0.003, "env.nonsense": 1}, 5),))
    warm = Warm()
    try:
        result, _ = run_task(task, definition, warm, lambda steps: None)
        # It did not take the other trials' processes with it.
        sound, _ = run_task(Task("trial/1", (Segment({}, 5),)), definition, warm, lambda steps: None)
    finally:
        warm.shut_down()
    assert result["state"] in ("failed", "refused")
    assert "nonsense" in result["why"]
    assert sound["state"] == "completed"
