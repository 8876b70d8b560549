"""A run keeps the best episodes of its evaluations: few, the same whatever happened, and each of them exact."""

from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop.episodes.best_replays import Top, forget_after, keep, kept
from hotloop.training import Run


def facts(path: Path) -> list[tuple[str, float]]:
    """Names and returns of the replays of a run."""
    return [(replay_path.name, replay.total) for replay_path, replay in kept(path / "replays")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with four evaluations."""
    config = {"train.evaluate_every": 8, "train.evaluate_episodes": 20, "train.until": None}
    return hotloop.train("cartpole", steps=2048 * 32, seed=1, home=tmp_path_factory.mktemp("home"), config=config)


def test_the_best_three_episodes_are_kept_and_exact(run: Run) -> None:
    found = kept(run.path / "replays")
    assert len(found) == 3
    for _, replay in found:
        replay.check()
    assert run.best is not None
    assert found[0][1].total >= run.best.mean
    totals = [replay.total for _, replay in found]
    assert totals == sorted(totals, reverse=True)


def test_a_run_that_is_repeated_keeps_the_same(run: Run, tmp_path: Path) -> None:
    again = hotloop.train("cartpole", seed=1, home=tmp_path, config=run.config.model_dump(), name="again")
    assert facts(again.path) == facts(run.path)


def test_resuming_keeps_what_the_whole_run_would_have(run: Run, tmp_path: Path) -> None:
    config = {"train.evaluate_every": 8, "train.evaluate_episodes": 20, "train.until": None}
    first = hotloop.train("cartpole", steps=2048 * 16, seed=1, home=tmp_path, config=config)
    whole = hotloop.train(steps=2048 * 32, home=tmp_path, resume=first.path)
    assert facts(whole.path) == facts(run.path)


def episodes(totals: list[float], first_env: int = 0) -> Top:
    """A made-up evaluation of frozen-lake, in which chance played."""
    top = Top("frozen-lake", {"reward_frozen": 1.0, "slippery": False}, seed=0)
    # Left at the shore: every step earns 1, so that lengths make the totals.
    taken = [np.zeros(len(totals), np.int16) for _ in range(int(max(totals)))]
    top.add(first_env, 1, taken, np.array(totals))
    return top


def test_better_ones_push_out_the_worst_and_equals_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "replays"
    keep(folder, episodes([5.0] * 5), steps=100)
    assert [path.name for path, _ in kept(folder)] == ["100-0.replay", "100-1.replay", "100-2.replay"]
    keep(folder, episodes([5.0] * 2, first_env=7), steps=50)
    assert [path.name for path, _ in kept(folder)] == ["100-0.replay", "100-1.replay", "100-2.replay"]
    keep(folder, episodes([6.0], first_env=9), steps=200)
    assert [path.name for path, _ in kept(folder)] == ["200-9.replay", "100-0.replay", "100-1.replay"]
    forget_after(folder, 150)
    assert [path.name for path, _ in kept(folder)] == ["100-0.replay", "100-1.replay"]


def test_a_damaged_replay_gives_way(tmp_path: Path) -> None:
    folder = tmp_path / "replays"
    keep(folder, episodes([5.0]), steps=100)
    (folder / "90-1.replay").write_bytes(b"half")
    assert [path.name for path, _ in kept(folder)] == ["100-0.replay"]
