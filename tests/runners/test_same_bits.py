"""Threads, groups, shards and vector width never show in results."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hotloop
from hotloop import _core
from tests.checksums import KEPT
from tests.trajectories import VARIANTS, Digest, Variant, choose_for, label

ENVS = 23
STEPS = 10_000


def recorded(variant: Variant) -> tuple[list[NDArray[Any]], str]:
    """Actions of a long play on one thread, and the checksum of what was seen."""
    name, options = variant
    digest, actions = Digest(), []
    with hotloop.make_vec(name, ENVS, options=options, num_threads=1, num_groups=1) as envs:
        obs, info = envs.reset(seed=99)
        for step in range(STEPS):
            actions.append(choose_for(envs, step, info))
            obs, reward, terminated, truncated, info = envs.step(actions[-1])
            digest.add(obs, reward, terminated, truncated)
    return actions, digest.text()


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_threads_and_groups_do_not_show(variant: Variant) -> None:
    name, options = variant
    actions, expected = recorded(variant)
    for threads, groups in [(1, 5), (2, 3), (7, 7), (2, None)]:
        digest = Digest()
        with hotloop.make_vec(name, ENVS, options=options, num_threads=threads, num_groups=groups) as envs:
            envs.reset(seed=99)
            for action in actions:
                digest.add(*envs.step(action)[:4])
        assert digest.text() == expected, (threads, groups)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_shard_plays_what_the_whole_plays(variant: Variant, mode: str) -> None:
    name, options = variant
    whole = hotloop.make_vec(name, 12, options=options, autoreset_mode=mode, num_threads=2, num_groups=5)
    shard = hotloop.make_vec(name, 4, options=options, autoreset_mode=mode, first_env=4)
    rows = slice(4 * whole.seats, 8 * whole.seats)
    obs, info = whole.reset(seed=8)
    assert np.array_equal(obs[rows], shard.reset(seed=8)[0])
    for step in range(300):
        actions = choose_for(whole, step, info)
        obs, reward, terminated, truncated, info = whole.step(actions)
        part = shard.step(actions[rows])
        for ours, theirs in zip((obs, reward, terminated, truncated), part[:4], strict=True):
            assert np.array_equal(ours[rows], theirs)


def checksums(isa: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.checksums"],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "HOTLOOP_ISA": isa},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_every_vector_width_gives_the_kept_checksums(isa: str) -> None:
    done = checksums(isa)
    if done.returncode != 0 and "this CPU" in done.stderr:
        pytest.skip(f"this CPU has no {isa}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(KEPT.read_text())


def test_a_vector_width_that_does_not_exist_is_named() -> None:
    done = checksums("nonsense")
    assert done.returncode != 0
    assert 'HOTLOOP_ISA is "nonsense": expected scalar, avx2 or avx512' in done.stderr


def test_the_chosen_width_is_reported() -> None:
    assert _core.isa() in ("scalar", "avx2", "avx512")
