"""The suite `faults`: envs that fail in every known way inside one training run, which must survive."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hotloop.bench.idle_env import IdleEnv
from hotloop.training.callbacks import Callback, TroubleReport

# Injected behaviour, and the kind of fault it must be reported as.
KINDS: Final = {"raise": "raise", "exit": "exit", "sigkill": "killed", "sigsegv": "killed", "hang": "timeout"}
STEP_TIMEOUT: Final = 0.5
_ENVS, _WORKERS, _HORIZON = 16, 8, 16
_CHANCE: Final = 0.03


class Faulty(IdleEnv):
    """Fails at random until a number of faults is reached; logs each to a file before it happens.

    Args:
        log: The file, with a line per fault that all envs of a run share.
        most: Number of faults.
    """

    def __init__(self, log: str, most: int) -> None:
        self._log = Path(log)
        self._most = most

    def step(self, action: Any) -> Any:
        """Fail or do almost nothing."""
        if self.np_random.random() < _CHANCE and self._log.stat().st_size < 8 * self._most:
            self._fail(list(KINDS)[self.np_random.integers(len(KINDS))])
        return super().step(action)

    def _fail(self, how: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{how:7}\n")
        match how:
            case "raise":
                raise ArithmeticError("an injected fault")
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(3600)
            case _:
                os.kill(os.getpid(), getattr(signal, how.upper()))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run with injected faults."""

    injected: dict[str, int]
    reported: dict[str, int]
    """Reported faults by kind."""
    lost_runs: int
    why_lost: str
    leaked: dict[str, int]
    """Processes, shared memory and files left over by the run."""
    restarts: int
    """Number of replaced worker processes."""
    steps: int
    seconds: float

    @property
    def unreported(self) -> int:
        """Faults missing from the reports, or reported without cause; by kind, so that they cannot cancel out."""
        expected: Counter[str] = Counter()
        for how, count in self.injected.items():
            expected[KINDS[how]] += count
        return sum(abs(expected[kind] - self.reported.get(kind, 0)) for kind in {*expected, *self.reported})

    @property
    def survived(self) -> bool:
        """Whether nothing was lost, leaked or unreported."""
        return not (self.lost_runs or self.unreported or any(self.leaked.values()))


class _FaultCounter(Callback):
    """Counts faults, and ends the run when all that were injected have been reported."""

    def __init__(self, log: Path, most: int, progress: Callable[[int], object]) -> None:
        self.reported: Counter[str] = Counter()
        self.steps = 0
        self._log, self._most, self._progress = log, most, progress

    def trouble(self, report: TroubleReport) -> None:
        """Count a report."""
        self.steps = report.steps
        if report.kind == "worker-restarted":
            self.reported[report.facts["kind"]] += 1
            self._progress(self.reported.total())
            if self.reported.total() >= max(self._most, self._log.stat().st_size // 8):
                os.kill(os.getpid(), signal.SIGINT)


def run(faults: int, progress: Callable[[int], object] = lambda done: None) -> Outcome:
    """Train until this many faults have been injected and reported."""
    import hotloop
    from hotloop.errors import TrainingError

    with tempfile.TemporaryDirectory(prefix="hotloop-faults-") as folder:
        log = Path(folder, "faults")
        log.touch()
        ear = _FaultCounter(log, faults, progress)
        config = {
            "env.log": str(log),
            "env.most": faults,
            "runner.num_envs": _ENVS,
            "runner.num_workers": _WORKERS,
            "runner.step_timeout": STEP_TIMEOUT,
            "runner.restart_limit": None,
            "ppo.horizon": _HORIZON,
            "ppo.minibatch_size": _ENVS * _HORIZON // 2,
            "train.evaluate_episodes": 0,
        }
        before = _held()
        start = time.perf_counter()
        why, steps = "", 0
        try:
            ended = hotloop.train(
                f"{__name__}:{Faulty.__name__}",
                steps=10**9,
                config=config,
                home=folder,
                progress=False,
                callbacks=[ear],
            )
            steps = ended.steps
        except TrainingError as error:
            why, steps = str(error), ear.steps
        seconds = time.perf_counter() - start
        gc.collect()
        leaked = {name: max(0, count - before[name]) for name, count in _held().items()}
        injected = Counter(log.read_text().split())
    return Outcome(
        injected={how: injected[how] for how in KINDS},
        reported=dict(ear.reported),
        lost_runs=int(bool(why)),
        why_lost=why,
        leaked=leaked,
        restarts=sum(count for kind, count in ear.reported.items() if kind != "raise"),
        steps=steps,
        seconds=seconds,
    )


def _held() -> dict[str, int]:
    """Count the system resources held by this process."""
    import psutil

    mapped = Path("/proc/self/maps").read_text().count("memfd:hotloop")
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "shared_memory": mapped + len(list(Path("/dev/shm").iterdir())),
        "file_descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }
