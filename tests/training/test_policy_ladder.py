"""Policies along a run: few, kept in time, and without any effect on what is learned."""

from pathlib import Path

import pytest

import hotloop
from hotloop.training import policy_ladder
from hotloop.training.callbacks import Callback, IterationReport
from hotloop.training.checkpoint import checkpoint_paths, open_checkpoint
from hotloop.training.policy_ladder import LADDER, LIVE, PolicyLadder, is_kept, note_watcher
from hotloop.training.runs import Run
from hotloop.training.time_machine import kept_policy, policy_at

CONFIG = {"train.until": None, "train.evaluate_episodes": 0, "track.interval": 4, "runner.num_envs": 8}


def train(home: Path, steps: int, **options: object) -> Run:
    config = {**CONFIG, "ppo.horizon": 16, "ppo.minibatch_size": 64}
    return hotloop.train("cartpole", steps=steps, config=config, home=home, progress=False, seed=3, **options)  # type: ignore[arg-type]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of any length are worth a ladder."""
    monkeypatch.setattr(policy_ladder, "_WORTH_IT", 0.0)


def test_the_number_of_policies_is_bounded_however_long_a_run_gets() -> None:
    for reached in (10, 1000, 10**5, 10**6):
        kept = [iteration for iteration in range(1, min(reached, 20_000) + 1) if is_kept(iteration, reached)]
        assert len(kept) <= 32 + 21
    ladder = PolicyLadder(Path("unused"))
    done, visited = 0, []
    while done < 5000:
        done += ladder.iterations_to_go(done)
        visited.append(done)
    assert all(is_kept(iteration, iteration) for iteration in visited)
    assert {2**n for n in range(13)} <= set(visited)


@pytest.mark.usefixtures("eager")
def test_policies_of_the_ladder_are_those_of_a_run_that_ends_there(tmp_path: Path) -> None:
    run = train(tmp_path / "long", 128 * 70)
    ladder = checkpoint_paths(run.path / LADDER)
    assert [int(path.name) // 128 for path in ladder] == [1, 2, 4, 8, 16, 32, 48, 64]
    short = train(tmp_path / "short", 128 * 16)
    ended = open_checkpoint(short.path / "checkpoints" / str(128 * 16), trust=False)
    assert open_checkpoint(ladder[4], trust=False, with_state=False).policy_bytes() == ended.policy_bytes()


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_has_the_ladder_of_an_undisturbed_one(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 128 * 40)
    train(tmp_path / "parts", 128 * 20, name="run")
    again = hotloop.train(resume=tmp_path / "parts" / "runs" / "run", steps=128 * 40, progress=False)
    found = [
        {path.name: (path / "policy.safetensors").read_bytes() for path in checkpoint_paths(run.path / LADDER)}
        for run in (whole, again)
    ]
    assert found[0] == found[1]


def test_any_step_is_rebuilt_to_the_bit(tmp_path: Path) -> None:
    run = train(tmp_path / "long", 128 * 40)
    assert not checkpoint_paths(run.path / LADDER)
    ended = train(tmp_path / "short", 128 * 24)
    expected = kept_policy(ended.path, "last", trust=False).checkpoint.policy_bytes()
    with policy_at(run.path, 128 * 25 + 5, trust=False) as found:
        assert (found.kind, found.checkpoint.steps) == ("exact", 128 * 24)
        assert found.checkpoint.policy_bytes() == expected


@pytest.mark.usefixtures("eager")
def test_what_would_take_too_long_is_the_nearest_kept_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, 128 * 40)
    monkeypatch.setattr("hotloop.training.time_machine.QUICK", -1.0)
    with policy_at(run.path, 128 * 30, trust=False) as found:
        assert (found.kind, found.checkpoint.steps) == ("checkpoint", 128 * 16)
        assert found.note is not None
        assert "takes about" in found.note
    with policy_at(run.path, 128 * 28, trust=False, exact=True) as found:
        assert (found.kind, found.checkpoint.steps) == ("exact", 128 * 28)


def test_the_newest_policy_is_left_while_somebody_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LIVE_EVERY", "_LOOK_EVERY"):
        monkeypatch.setattr(policy_ladder, name, 0.0)
    left: list[int] = []

    class Watching(Callback):
        def iteration(self, report: IterationReport) -> None:
            run = tmp_path / "watched" / "runs" / "run"
            if report.iterations >= 8:
                note_watcher(run)
            left.extend(int(path.name) for path in checkpoint_paths(run / LIVE))

    watched = train(tmp_path / "watched", 128 * 40, name="run", callbacks=[Watching()])
    assert left
    assert min(left) >= 128 * 8
    assert not (watched.path / LIVE).exists()
    alone = train(tmp_path / "alone", 128 * 40)
    policies = [kept_policy(run.path, "last", trust=False).checkpoint.policy_bytes() for run in (watched, alone)]
    assert policies[0] == policies[1]
