"""`hotloop eval` of a task that is judged under several sets of options."""

from pathlib import Path

import pytest

from hotloop.tracking.journal import read_all
from tests.cli.command import hotloop, hotloop_json


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A poor policy, and good enough to be judged."""
    path = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_HOME", str(path))
        small = ("runner.num_envs=32", "ppo.horizon=32", "ppo.minibatch_size=1024", "policy.hidden=[16]")
        hotloop_json("train", "cage2", "--name", "poor", "--steps", "20000", "train.evaluate_episodes=0", *small)
    return str(path / "runs" / "poor")


def test_prints_the_challenges_own_table(run: str) -> None:
    done = hotloop("eval", run, "--episodes", "20")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("CAGE Challenge 2: cage2 at step ")
    for row in ("B_line", "Meander", "Sleep"):
        assert sum(row in line for line in lines) == 1
    assert all(f"{length} steps" in done.stdout for length in (30, 50, 100))
    assert lines[-1].endswith("20 episodes in each of 9 cells")
    assert lines[-1].startswith("sum -")


def test_its_json_has_every_cell_and_their_sum(run: str) -> None:
    (end,) = hotloop_json("eval", run, "--episodes", "20")
    means = {cell["cell"]: cell["mean"] for cell in end["cells"]}
    assert len(means) == 9
    assert all(cell["low"] <= cell["mean"] <= cell["high"] and cell["episodes"] == 20 for cell in end["cells"])
    assert means["B_line, 100 steps"] < means["B_line, 30 steps"] < 0
    assert end["total"]["mean"] == pytest.approx(sum(means.values()))
    assert end["mean"] == pytest.approx(end["total"]["mean"] / 9)
    assert end["low"] <= end["mean"] <= end["high"]
    assert end["episodes"] == 180


def test_every_cell_has_random_keys_of_its_own(run: str) -> None:
    from hotloop.envs.suites import suite_of
    from hotloop.training.suite_evaluation import cell_seed

    suite = suite_of("cage2")
    assert suite is not None
    assert len({cell_seed(7, cell) for cell in suite.cells}) == len(suite.cells)
    hotloop_json("eval", run, "--episodes", "5")
    recorded = [event for event in read_all(Path(run) / "metrics.jsonl") if event["event"] == "eval"]
    assert len({event["how"]["key"] for event in recorded[-9:]}) == 9


def test_an_endless_episode_is_stopped_with_a_message(run: str) -> None:
    done = hotloop("eval", run, "env.lengths=[0]", "--episodes", "1", "--no-keep")
    assert done.returncode == 0, done.stderr
    assert "not over after 10000 steps were stopped there" in done.stderr


def test_can_demand_a_mean_over_the_cells(run: str) -> None:
    assert hotloop("eval", run, "--episodes", "5", "--at-least", "-2000").returncode == 0
    assert hotloop("eval", run, "--episodes", "5", "--at-least", "1").returncode == 1


def test_other_tasks_have_no_suite(tmp_path: Path) -> None:
    from hotloop.envs.suites import suite_of

    assert suite_of("cartpole") is None
