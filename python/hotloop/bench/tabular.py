"""The suite `tabular`: steps per second of algorithms, tables and runtimes, and how they scale."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from hotloop.bench.measure import Contender, Rate, measure
from hotloop.config import load_config
from hotloop.training.tabular_session import TabularSession

UNIT = "steps/s"
ALGORITHMS: Final = ("q-learning", "sarsa", "expected-sarsa", "double-q-learning")
TABLES: Final = (("dense", "f32"), ("dense", "f16"), ("sparse", "f32"), ("sparse", "f16"))
# The reference figures' settings, so that rates can be compared.
_SETTINGS: Final = {
    "tabular.learning_rate": 0.1,
    "tabular.learning_rate_schedule": "constant",
    "tabular.learning_rate_floor": 0.0,
    "tabular.exploration": 0.3,
    "train.until": None,
    "train.steps": 10**12,
}


@dataclass(frozen=True)
class Case:
    """One benchmark case."""

    env: str
    algorithm: str = "q-learning"
    table: str = "dense"
    storage: str = "f32"
    runtime: str = "one"
    workers: int = 1
    """Threads, or MPI ranks of one thread."""

    def __str__(self) -> str:
        return f"{self.env} {self.algorithm} {self.table} {self.storage} {self.runtime} {self.workers}"

    def config(self) -> Any:
        """Return the case as a config."""
        own = {
            "train.algorithm": self.algorithm,
            "tabular.table": self.table,
            "tabular.storage": self.storage,
            "tabular.runtime": self.runtime,
            "runner.num_threads": 1 if self.runtime == "mpi" else self.workers,
        }
        return load_config(self.env, overrides={**_SETTINGS, "tabular.iteration": 2**20, **own})


@dataclass(frozen=True)
class Row:
    """A case with its rate."""

    case: Case
    rate: Rate
    memory: int
    """Bytes of all tables."""
    speedup: float | None = None
    """Speed-up over one thread, or one rank, of the same table."""

    @property
    def efficiency(self) -> float | None:
        """The speed-up per thread or rank."""
        return None if self.speedup is None else self.speedup / self.case.workers

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": str(self.case),
            **vars(self.case),
            "value": self.rate.value,
            "unit": UNIT,
            "spread": self.rate.spread,
            "ratio": {},
            "speedup": self.speedup,
            "efficiency": self.efficiency,
            "memory": self.memory,
            "rounds": list(self.rate.rounds),
        }


def plan(env: str, most: int, *, quick: bool, ranks: Sequence[int]) -> list[Case]:
    """All algorithms on one thread, all tables, then runtimes with growing numbers of threads and ranks."""
    cases = [Case(env, algorithm) for algorithm in (ALGORITHMS[:1] if quick else ALGORITHMS)]
    cases += [Case(env, table=table, storage=storage) for table, storage in TABLES[1:]]
    counts = sorted({1, most} if quick else {*range(1, most + 1)})
    for runtime in ("shared", "private"):
        cases += [Case(env, runtime=runtime, workers=count) for count in counts if count > 1]
    cases += [Case(env, runtime="mpi", workers=count) for count in ranks]
    return cases


def run(
    cases: Sequence[Case],
    *,
    seconds: float,
    rounds: int,
    beside: Sequence[Contender] = (),
    progress: Callable[[str], object] = lambda case: None,
) -> tuple[list[Row], dict[str, float]]:
    """Measure native cases and peers in turns, then MPI cases, each in its own processes.

    Return the cases' rows, and the rates of those beside them by name.
    """
    native = [case for case in cases if case.runtime != "mpi"]
    sessions = [TabularSession(case.config()) for case in native]
    contenders = [_contender(case, session) for case, session in zip(native, sessions, strict=True)]
    rates = measure([*contenders, *beside], seconds=seconds, rounds=rounds, progress=lambda who: progress(who.name))
    rows = [
        Row(case, rate, session.engine.memory)
        for case, rate, session in zip(native, rates[: len(native)], sessions, strict=True)
    ]
    others = {one.name: rate.value for one, rate in zip(beside, rates[len(native) :], strict=True)}
    for case in cases:
        if case.runtime == "mpi":
            progress(str(case))
            rows.append(_with_ranks(case, seconds, rounds))
    return [_compared(row, rows) for row in rows], others


def _contender(case: Case, session: TabularSession) -> Contender:
    return Contender(str(case), lambda _: session.engine.advance(1, 0.0), [None], session.steps_per_iteration)


def _compared(row: Row, rows: Sequence[Row]) -> Row:
    case = row.case
    if case.runtime == "one":
        return row
    alone = Case(case.env, case.algorithm, case.table, case.storage, "mpi" if case.runtime == "mpi" else "one")
    base = next((other.rate.value for other in rows if other.case == alone), None)
    return Row(case, row.rate, row.memory, None if base is None else row.rate.value / base)


def mpirun() -> str | None:
    """Return the MPI launcher if it and mpi4py are installed."""
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    return found if find_spec("mpi4py") else None


def launch(ranks: int, command: Sequence[str]) -> list[str]:
    """Return the launch command for this many ranks, even beyond the number of cores."""
    launcher = mpirun()
    assert launcher is not None
    return [launcher, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]


def launch_environment() -> dict[str, str]:
    """Return the environment in which Open MPI accepts root."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **root}


def _with_ranks(case: Case, seconds: float, rounds: int) -> Row:
    argument = json.dumps({**vars(case), "seconds": seconds, "rounds": rounds})
    command = launch(case.workers, [sys.executable, "-m", "hotloop.bench.tabular", argument])
    done = subprocess.run(command, env=launch_environment(), capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"mpirun failed: {done.stderr.strip()[-2000:]}")
    found = json.loads(lines[-1])
    return Row(case, Rate(tuple(found["rates"])), found["memory"])


def _as_rank(task: dict[str, Any]) -> None:
    """Run one rank: rank 0 measures the total, the others work."""
    from hotloop.config.tabular.settings import settings
    from hotloop.config.tabular.spaces import spaces
    from hotloop.tabular.mpi import MpiEngine, agreed, serve, world

    seconds, rounds = task.pop("seconds"), task.pop("rounds")
    config = Case(**task).config()
    ranks = world()
    if ranks.Get_rank():
        serve(agreed(config))
        return
    engine = MpiEngine(config, spaces(config), settings(config))
    engine.advance(10**9, seconds)
    rates = []
    for _ in range(rounds):
        start, before = time.perf_counter(), engine.made
        engine.advance(10**9, seconds)
        rates.append((engine.made - before) / (time.perf_counter() - start))
    memory = engine.memory * ranks.Get_size()
    engine.close()
    print(json.dumps({"rates": rates, "memory": memory}), flush=True)


def peers(seconds: float, skipped: Callable[[str], object]) -> dict[str, float]:
    """Return peers' steps per second on tictactoe by name; reports skipped ones to `skipped`."""
    from hotloop.bench.peers import dist_classicrl

    found = {"python-loop": python_loop(seconds)}
    if reason := dist_classicrl.missing():
        skipped(f"{dist_classicrl.NAME} is left out: {reason}.")
        return found
    # Its slowest and its fastest, of those measured.
    for num_envs in (1, 128):
        found[f"{dist_classicrl.NAME}-{num_envs}"] = dist_classicrl.steps_per_second(num_envs, seconds)
    return found


def python_loop(seconds: float) -> float:
    """Return the steps per second of a plain Python loop: Gymnasium's interface and a NumPy table."""
    import gymnasium

    import hotloop  # noqa: F401

    env = gymnasium.make("hotloop/TicTacToe-v0")
    table = np.zeros((19_683, 9))
    random = np.random.default_rng(0)
    state, info = env.reset(seed=0)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        legal = np.flatnonzero(info["action_mask"])
        values = table[state, legal]
        best = legal[values == values.max()]
        action = random.choice(legal if random.random() < 0.3 else best)
        after, reward, terminated, truncated, info = env.step(int(action))
        worth = 0.0 if terminated else table[after, np.flatnonzero(info["action_mask"])].max()
        table[state, action] += 0.1 * (float(reward) + 0.99 * worth - table[state, action])
        state = after
        if terminated or truncated:
            state, info = env.reset()
        steps += 1
    env.close()
    return steps / (time.perf_counter() - start)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot the speed-up over threads and ranks."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    most = max(row.case.workers for row in rows)
    axes.plot([1, most], [1, most], color="lightgrey", label="ideal")
    for runtime in ("shared", "private", "mpi"):
        points = {row.case.workers: row.speedup for row in rows if row.case.runtime == runtime and row.speedup}
        if points:
            counts = sorted({1: 1.0} | points)
            axes.plot(counts, [({1: 1.0} | points)[count] for count in counts], marker="o", label=runtime)
    axes.set(xlabel="threads, or ranks of one thread", ylabel="times the speed of one", title=rows[0].case.env)
    axes.set_xticks(range(1, most + 1))
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    _as_rank(json.loads(sys.argv[1]))
