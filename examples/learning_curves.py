"""Learning curves of both learners, five seeds each, in one picture.

Run it with `python examples/learning_curves.py --home curves --png learners.png`: some minutes on two cores. Runs that
are there already are not repeated, so it can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import hotloop
from hotloop.tracking.curves import Buckets, Curve, average

STEPS = {"cartpole": 160_000, "acrobot": 200_000, "pendulum": 320_000, "tictactoe": 400_000, "recall": 400_000}
LEARNERS = ("native", "torch")


def curve(env: str, learner: str, seed: int, steps: int, home: Path) -> Curve:
    """The mean return of the last 100 episodes over the steps of one run, with the packaged settings of the env."""
    name = f"{env}-{learner}-{seed}-{steps}"
    journal = home / "runs" / name / "metrics.jsonl"
    if not (journal.exists() and '"event":"end"' in journal.read_text()):
        config = {"train.learner": learner, "train.until": None, "track.interval": 1, "runner.num_threads": 1}
        hotloop.train(env, seed=seed, steps=steps, config=config, name=name, home=home, progress=False)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    points = [(line["steps"], line["return_recent"]) for line in lines if line["event"] == "iteration"]
    found = np.array([point for point in points if point[1] is not None], np.float64)
    return Curve(found[:, 0], found[:, 1])


def apart(one: Buckets, two: Buckets) -> float:
    """How far the means are apart over the run, in parts of the range of returns."""
    size = max(one.mean.max(), two.mean.max()) - min(one.mean.min(), two.mean.min())
    return float(np.abs(one.mean - np.interp(one.x, two.x, two.mean)).mean() / size)


def overlap(one: Buckets, two: Buckets) -> float:
    """The part of the run over which the bands, one standard deviation to each side, share values."""
    low, high = (np.interp(one.x, two.x, side) for side in (two.low, two.high))
    return float(((one.low <= high) & (low <= one.high)).mean())


def main() -> None:
    """Train what is missing, draw all of it, and say how far the learners are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", default=list(STEPS), metavar="ENV")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    figure = Figure(figsize=(3 * len(given.envs), 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    for place, env in enumerate(given.envs):
        axes = figure.add_subplot(1, len(given.envs), place + 1, title=env, xlabel="steps")
        bands = []
        for learner in LEARNERS:
            steps = given.steps or STEPS[env]
            band = average([curve(env, learner, seed, steps, given.home) for seed in range(given.seeds)])
            axes.fill_between(band.x, band.low, band.high, alpha=0.25, linewidth=0)
            axes.plot(band.x, band.mean, label=learner)
            bands.append(band)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(3, 3))
        ends = " and ".join(f"{band.mean[-1]:.4g} ({name})" for name, band in zip(LEARNERS, bands, strict=True))
        print(
            f"{env}: bands overlap over {overlap(*bands):.0%} of the run, means {apart(*bands):.1%} of the range ",
            end="",
        )
        print(f"apart; at the end {ends}", flush=True)
    figure.axes[0].legend()
    figure.axes[0].set_ylabel("return")
    figure.savefig(given.png, dpi=80)


if __name__ == "__main__":
    main()
