"""With its own randomness the env behaves as the recorded simulator does, as far as chance can tell.

`pytest -s` prints the z-scores: the difference of two means in units of its standard error.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hotloop

DATA = Path(__file__).parents[2] / "data" / "cage2"
EPISODES, STEPS = 4000, 100
REDS = {"bline": "b-line", "meander": "meander", "sleep": "sleep"}
CELLS = sorted(path.stem for path in DATA.glob("*_*.npz") if path.stem not in ("bline_focus", "meander_same"))
RESTORE, ORDER = 132, np.array([7, 1, 2, 3, 0, 4, 5, 6, 9, 10, 11, 12])


def react(obs: NDArray[Any], _: np.random.Generator) -> NDArray[Any]:
    compromised = np.any(obs.reshape(-1, 13, 4)[:, ORDER, 2:], axis=2)
    return np.where(compromised.any(axis=1), RESTORE + ORDER[compromised.argmax(axis=1)], 0)


BLUES: dict[str, Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]] = {
    "sleep": lambda obs, _: np.zeros(len(obs), np.int64),
    "random": lambda obs, rng: rng.integers(145, size=len(obs)),
    "react_restore": react,
}


def play(cell: str) -> dict[str, NDArray[Any]]:
    """Rewards, and how often each bit, access level and red action was seen at each step."""
    red, _, blue = cell.removesuffix("_green").partition("_")
    envs = hotloop.make_vec(
        "cage2",
        num_envs=EPISODES,
        options={"red": REDS[red], "green": cell.endswith("_green"), "lengths": [0]},
        infos=["access", "red_action", "ot"],
    )
    rng = np.random.default_rng(7)
    rewards = np.zeros((EPISODES, STEPS))
    bits, access, kinds = np.zeros((STEPS, 52)), np.zeros((STEPS, 13, 3)), np.zeros((STEPS, 7))
    with envs:
        obs, _ = envs.reset(seed=11)
        for step in range(STEPS):
            obs, rewards[:, step], _, _, info = envs.step(BLUES[blue](obs, rng))
            bits[step] = obs.mean(axis=0)
            access[step] = (info["access"][:, :, None] == np.arange(3)).mean(axis=0)
            kinds[step] = (info["red_action"][:, :1] == np.arange(7)).mean(axis=0)
    return {"reward": rewards, "obs_freq": bits, "access_freq": access, "red_type_freq": kinds}


def frequency_z(played: NDArray[Any], recorded: NDArray[Any], n: int) -> NDArray[Any]:
    """Of each frequency; where both samples agree that it is 0 or 1 there is nothing to tell."""
    pooled = (played * EPISODES + recorded * n) / (EPISODES + n)
    # Add-one smoothing keeps single rare events from looking like wonders.
    pooled = (pooled * (EPISODES + n) + 1) / (EPISODES + n + 2)
    se = np.sqrt(pooled * (1 - pooled) * (1 / EPISODES + 1 / n))
    return np.where(played == recorded, 0.0, (played - recorded) / se)


@pytest.mark.parametrize("cell", CELLS)
def test_returns_and_frequencies_match_the_recorded_ones(cell: str) -> None:
    with np.load(DATA / f"{cell}.npz") as arrays:
        recorded = dict(arrays)
    played = play(cell)
    n = int(recorded["n"])

    scores = []
    for column, steps in enumerate((30, 50, 100)):
        ours, theirs = played["reward"][:, :steps].sum(axis=1), recorded["returns"][:, column]
        se = np.sqrt(ours.var() / EPISODES + theirs.var() / n)
        scores.append((ours.mean() - theirs.mean()) / se if se else float(ours.mean() != theirs.mean()))
    reports = [f"{z:+.2f}" for z in scores]
    assert np.abs(scores).max() < 4, reports
    for name in ("obs_freq", "access_freq", "red_type_freq"):
        z = frequency_z(played[name], recorded[name], n)
        reports.append(f"{name} max {np.abs(z).max():.2f} mean square {(z**2).mean():.2f}")
        # Thousands of correlated frequencies: the worst of them, and all of them together.
        assert np.abs(z).max() < 6, (cell, reports)
        assert (z**2).mean() < 2, (cell, reports)
    print(f"{cell}: z of returns {', '.join(reports)}")


def test_a_wrong_agent_would_be_noticed() -> None:
    with np.load(DATA / "bline_sleep.npz") as arrays:
        recorded = arrays["obs_freq"]
    z = frequency_z(play("meander_sleep")["obs_freq"], recorded, 400)
    assert np.abs(z).max() > 20
