"""The suites `train`, `ladder` and `solve` measure what they say, and peers play the same game."""

from contextlib import ExitStack

import numpy as np
import pytest

import hotloop
from hotloop.bench import ladder
from hotloop.bench.measure import Rate
from hotloop.bench.peers import Peer, every_trainer, torch_learner
from hotloop.bench.ppo import SOLVE, PpoCase
from hotloop.bench.solve import Solved, _is_solved, race
from hotloop.bench.train import CASES, TrainRow, run, run_update, session_for

SMALL = PpoCase("cartpole", num_envs=8, horizon=16, epochs=2, minibatches=2)
RECURRENT = PpoCase("cartpole", 8, 16, 2, 2, hidden=(16,), memory="lstm", memory_size=8)
INSTALLED = [peer for peer in every_trainer() if peer.installed]


def test_a_case_says_how_large_its_batches_are() -> None:
    assert SMALL.steps == 128
    assert SMALL.minibatch_size == 64
    assert str(SMALL) == "cartpole 8x16 2x2"


def test_the_usual_cases_are_distinct() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)


def test_ours_trains_as_the_case_says() -> None:
    session = session_for(next(case for case in CASES if case.separate))
    config = session.config
    session.close()
    assert config.env.name == "pendulum"
    assert config.ppo.minibatch_size == 1024
    assert not config.policy.shared
    assert config.policy.activation == "tanh"


def test_a_row_counts_every_multiply_add() -> None:
    row = run(SMALL, [], seconds=1e-3, rounds=2)
    weights = 4 * 64 + 64 * 64 + 64 * 3
    collecting, learning = 2 * weights, 2 * (3 * weights - 4 * 64)
    assert row.flops == pytest.approx(collecting + 2 * learning)
    assert row.share == pytest.approx(row.rate.value * row.flops / row.peak)
    result = row.as_json()
    assert result["name"] == "cartpole 8x16 2x2"
    assert result["unit"] == "steps/s"
    assert result["share_of_peak"] > 0
    assert result["ratio"] == {}


def test_ratios_are_of_the_medians() -> None:
    row = run(SMALL, [], seconds=1e-3, rounds=1)
    assert row.ratio("torch") is None
    rich = TrainRow("a", Rate((4.0,)), run(SMALL, INSTALLED[:1], seconds=1e-3, rounds=1).peers, 1.0, 1.0)
    (name,) = rich.peers
    assert rich.ratio(name) == 4.0 / rich.peers[name].rate.value


def test_the_update_of_any_shape_is_measured() -> None:
    row = run_update((5, (16, 8), 3), seconds=1e-3, rounds=2)
    assert row.name == "update 5-16-8-3"
    assert len(row.rate.rounds) == 2
    assert row.flops > 2 * 2 * (5 * 16 + 16 * 8 + 8 * 4)


def test_memory_is_part_of_a_case() -> None:
    assert str(RECURRENT) == "cartpole 8x16 2x2 lstm 8"
    session = session_for(RECURRENT)
    session.close()
    assert (session.config.policy.memory, session.config.policy.memory_size) == ("lstm", 8)
    row = run(RECURRENT, [], seconds=1e-3, rounds=1)
    weights = 4 * 16 + (16 + 8) * 4 * 8 + 8 * 3
    assert row.flops == pytest.approx(2 * weights + 2 * 2 * (3 * weights - 4 * 16))


# The program with memory takes JAX's compiler much longer.
@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, marks=pytest.mark.full if peer.name == "jax-recurrent" else ())
        for peer in INSTALLED
        if peer is not torch_learner.PEER
    ],
    ids=lambda peer: peer.name,
)
def test_a_peer_trains_on_cartpole_and_declines_what_it_does_not_have(peer: Peer[PpoCase]) -> None:
    with ExitStack() as stack:
        found = {case.memory: peer.enter(case, stack) for case in (SMALL, RECURRENT)}
        ((entry,),) = (entries for entries in found.values() if entries)
        assert entry.contender.seconds(1) > 0
        assert entry.contender.work_per_pass == SMALL.steps
        assert peer.enter(PpoCase("recall", 8, 16, 1, 1), stack) == []


@pytest.mark.parametrize("case", [SMALL, RECURRENT], ids=str)
def test_our_torch_learner_is_measured_with_and_without_memory(case: PpoCase) -> None:
    pytest.importorskip("torch")
    with ExitStack() as stack:
        (entry,) = torch_learner.PEER.enter(case, stack)
        assert entry.contender.seconds(1) > 0


def test_the_cartpole_in_jax_moves_as_ours() -> None:
    pytest.importorskip("jax")
    from hotloop.bench.peers.jax_ppo import step_envs

    envs = hotloop.make_vec("cartpole", num_envs=64, autoreset_mode="disabled")
    before, _ = envs.reset(seed=3)
    actions = np.arange(64) % 2
    for _ in range(5):
        after, _, terminated, _, _ = envs.step(actions)
        moved, failed = step_envs(before, actions)
        assert np.allclose(moved, after, rtol=1e-5, atol=1e-6)
        assert np.array_equal(failed, terminated)
        before = after
    envs.close()


def test_the_ladder_compares_presets_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "ITERATIONS", 2)
    rungs = ladder.climb("cartpole", seconds=1e-3, rounds=1)
    assert [rung.preset for rung in rungs] == ["baseline", "fast", "ultra-fast"]
    assert rungs[0].ratio == 1
    for rung in rungs:
        assert rung.ratio == rung.rate.value / rungs[0].rate.value
        assert rung.as_json()["ratio"] == {"baseline": rung.ratio}
    assert rungs[0].work == "8 x 128, 4 x 4"


def test_seconds_to_solved_are_of_real_processes() -> None:
    (ours,) = race("cartpole", [], seeds=1, timeout=120)
    assert ours.who == "hotloop"
    assert ours.value is not None
    assert ours.value > 0
    assert ours.as_json(ours.value)["solved"] == 1


def test_a_process_that_takes_too_long_has_not_solved_it() -> None:
    (ours,) = race("cartpole", [], seeds=1, timeout=1e-3)
    assert ours.value is None
    assert ours.as_json(None)["solved"] == 0


@pytest.mark.parametrize(
    ("printed", "solved"),
    [
        ('{"event": "start"}\n{"event": "end", "solved": true}\n', True),
        ('{"event": "end", "solved": false}\n', False),
        ("131072\n", True),
        ("null\n", False),
    ],
)
def test_only_who_says_so_has_solved_it(printed: str, solved: bool) -> None:
    assert _is_solved(printed) == solved


def test_sb3_that_ran_out_of_steps_has_not_solved_it() -> None:
    pytest.importorskip("stable_baselines3")
    from hotloop.bench.peers import sb3_ppo

    assert sb3_ppo.solve(seed=0, limit=256) is None


def test_seeds_that_were_not_solved_are_counted_and_left_out_of_the_median() -> None:
    theirs = Solved("cartpole", "them", (3.0, None, 1.0, 2.0)).as_json(0.5)
    assert (theirs["value"], theirs["solved"], theirs["seeds"]) == (2.0, 3, 4)
    assert theirs["ratio"] == {"hotloop": 4.0}


def test_everyone_solves_cartpole_with_the_same_small_batches() -> None:
    assert (SOLVE.num_envs, SOLVE.horizon, SOLVE.minibatch_size) == (32, 32, 256)
