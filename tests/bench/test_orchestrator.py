"""The suite that measures the queue and the adaptive limit."""

from pathlib import Path

from hotloop.bench.orchestrator import Figure, Mix, _mix_requests, measure_mix
from tests.cli.command import complaint


def test_figures_know_whether_their_goal_is_met() -> None:
    assert Figure("speed", 201, "1/s", 200, at_least=True).is_met
    assert not Figure("speed", 199, "1/s", 200, at_least=True).is_met
    assert Figure("latency", 9, "ms", 10).is_met
    assert not Figure("latency", 11, "ms", 10).is_met


def test_the_adaptive_limit_is_compared_with_the_best_and_the_worst_fixed_one() -> None:
    mix = Mix("A", {"1": 8.0, "2": 4.0, "adaptive": 5.0}, killed=0, cores=0.0)
    assert (mix.against_best, mix.against_worst) == (1.25, 0.625)


def test_mixes_differ_in_envs_and_memory(tmp_path: Path) -> None:
    envs = {
        name: {request.spec["config"]["env"]["name"].rpartition(":")[2] for request in _mix_requests(name, tmp_path, 4)}
        for name in "ABCDE"
    }
    assert envs == {
        "A": {"cartpole"},
        "B": {"SleepingEnv"},
        "C": {"SleepingEnv"},
        "D": {"cartpole"},
        "E": {"cartpole", "SleepingEnv"},
    }
    (request,) = _mix_requests("C", tmp_path, 1)
    assert request.spec["config"]["env"]["megabytes"] == 1250


def test_a_mix_is_worked_off_under_each_limit() -> None:
    found = measure_mix("B", lambda what: None, fixed=(2,), jobs=2)
    assert (list(found.makespans), found.killed) == (["2", "adaptive"], 0)


def test_an_unknown_mix_is_refused() -> None:
    assert "there is no mix X" in complaint("bench", "orchestrator", "--mixes", "AX")
