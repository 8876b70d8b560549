"""Train envs without packaged configs with Hotloop's general settings, several seeds each, and print a table.

    python examples/general_settings.py                      # all tasks, seeds 0 to 4: about two hours on two cores
    python examples/general_settings.py Hopper-v5 --seeds 1  # one of them
    python examples/general_settings.py Hopper-v5 --set ppo.gae_lambda=0.9 --home trial   # with a change

Needs `pip install "gymnasium[mujoco,box2d]" minigrid`. Finished runs are taken as they are: it can be interrupted and
called again. Several runs go on at once, each with one thread and one worker process, which does not change their
results.
"""

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import hotloop

# Steps, and the mean return at which a task counts as solved, if it has one.
TASKS: dict[str, tuple[int, float | None]] = {
    "Hopper-v5": (1_000_000, None),
    "HalfCheetah-v5": (1_000_000, None),
    "Walker2d-v5": (1_000_000, None),
    "LunarLander-v3": (1_500_000, 200.0),
    "BipedalWalker-v3": (1_000_000, None),
    "minigrid:MiniGrid-DoorKey-5x5-v0": (500_000, 0.9),
}


def train(task: str, seed: int, home: str, changes: list[str]) -> tuple[int, float]:
    """Return the steps, and the mean return of the last evaluation: 100 episodes with the most probable actions."""
    steps, until = TASKS[task]
    name = f"{task.rpartition(':')[2]}-{seed}"
    config = ["runner.num_threads=1", "runner.num_workers=1", *changes]
    if (Path(home) / "runs" / name).exists():
        run = hotloop.train(resume=name, home=home, progress=False)
    else:
        run = hotloop.train(
            f"gymnasium:{task}",
            steps=steps,
            until=until,
            seed=seed,
            config=config,
            name=name,
            home=home,
            progress=False,
        )
    assert run.evaluation is not None
    return run.steps, run.evaluation.mean


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help="envs (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--home", default="general-settings", help="folder for the runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        futures = {
            task: [pool.submit(train, task, seed, given.home, given.set) for seed in range(given.seeds)]
            for task in given.tasks
        }
        print("| env | steps | mean over seeds | std | each seed |\n|---|---|---|---|---|", flush=True)
        for task, results in futures.items():
            steps, means = zip(*(result.result() for result in results), strict=True)
            spread = statistics.stdev(means) if len(means) > 1 else 0.0
            each = ", ".join(f"{mean:.4g}" for mean in means)
            taken = f"{max(steps)}" if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)}"
            print(f"| {task} | {taken} | {statistics.fmean(means):.4g} | {spread:.3g} | {each} |", flush=True)


if __name__ == "__main__":
    main()
