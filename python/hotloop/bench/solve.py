"""The suite `solve`: seconds from the start of a process to its end with the task solved, imports included."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hotloop.bench.peers import Peer
from hotloop.bench.ppo import PpoCase

UNIT = "s"
# Solved threshold by env: mean return of the last 100 episodes.
GOALS = {"cartpole": 475.0, "pendulum": -200.0}
# Peers' modules that solve cartpole when they are run with a seed.
SOLVERS = {name: f"hotloop.bench.peers.{name}_ppo" for name in ("torch", "jax", "sb3")}


@dataclass(frozen=True)
class Solved:
    """Seconds per seed of one contender; None where it timed out."""

    env: str
    who: str
    seconds: tuple[float | None, ...]

    @property
    def times(self) -> list[float]:
        """Seconds of the solved seeds."""
        return [seconds for seconds in self.seconds if seconds is not None]

    @property
    def value(self) -> float | None:
        """Median over the solved seeds."""
        return statistics.median(self.times) if self.times else None

    def as_json(self, ours: float | None) -> dict[str, Any]:
        """The row for `--json`."""
        times, value = self.times, self.value
        return {
            "name": f"{self.env} {self.who}",
            "value": value,
            "unit": UNIT,
            "spread": (max(times) - min(times)) / value if value and len(times) > 1 else None,
            "ratio": {"hotloop": value / ours} if value and ours and self.who != "hotloop" else {},
            "solved": len(times),
            "seeds": len(self.seconds),
            "rounds": list(self.seconds),
        }


def race(
    env: str,
    peers: Sequence[Peer[PpoCase]],
    *,
    seeds: int,
    timeout: float,
    progress: Callable[[str, int], object] = lambda who, seed: None,
) -> list[Solved]:
    """Run each contender's process once per seed, in turns."""
    commands: dict[str, Callable[[int], list[str]]] = {"hotloop": lambda seed: _ours(env, seed)}
    if env == "cartpole":
        for peer in peers:
            if peer.name not in SOLVERS:
                continue
            commands[peer.name] = lambda seed, module=SOLVERS[peer.name]: ["-m", module, str(seed)]  # type: ignore[misc]
    seconds: dict[str, list[float | None]] = {who: [] for who in commands}
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as home:
        for seed in range(seeds):
            for who, command in commands.items():
                progress(who, seed)
                seconds[who].append(_timed([sys.executable, *command(seed)], home, timeout))
    return [Solved(env, who, tuple(times)) for who, times in seconds.items()]


def _ours(env: str, seed: int) -> list[str]:
    return ["-m", "hotloop", "train", env, "--until", str(GOALS[env]), "--seed", str(seed), "--json"]


def _timed(command: list[str], home: str, timeout: float) -> float | None:
    """Return the process's seconds; None if it failed, timed out or did not solve the task."""
    environment = {**os.environ, "HOTLOOP_HOME": home}
    start = perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    elapsed = perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return elapsed if _is_solved(done.stdout) else None


def _is_solved(printed: str) -> bool:
    """Our last line is the run's result; a peer's is its number of steps, or null if unsolved."""
    result = json.loads(printed.splitlines()[-1])
    return bool(result["solved"]) if isinstance(result, dict) else result is not None
