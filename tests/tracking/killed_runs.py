"""Kills a small run before its file operations in turn, resumes it, and compares the store it leaves.

Run as a program: `python killed_runs.py FOLDER EVERY` kills before every EVERY-th operation. It
prints a JSON object with the number of operations and the differences. The parent only forks, so that imports are paid
for once.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hotloop
from hotloop.tracking.journal import Journal
from hotloop.tracking.store import Store

CONFIG: dict[str, Any] = {
    "runner.num_envs": 8,
    "runner.num_threads": 1,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "track.interval": 2,
    "train.until": None,
    "train.evaluate_every": 4,
    "train.evaluate_episodes": 2,
    "train.checkpoint_every": 3,
    "train.keep_last": 2,
}
# Neither a multiple of the record interval nor of the others, so that all of them come once more at the end.
STEPS = 8 * 16 * 11
OPERATIONS = ("write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "remove", "open")
# Dates, and facts of the machine or the process.
DIFFERING = {
    "number",
    "run",
    "time",
    "seen",
    "created",
    "seconds",
    "process",
    "path",
    "taken",
    "position",
    "id",
    "facts",
}


def die_before(operation: int) -> None:
    """From now on, count this process's file operations and be killed before one of them."""
    left = operation

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return run

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    # Each event is written at once, so that any number of them can be on the disk when the kill comes.
    queue = Journal.append_line

    def append_line(self: Journal, make: Callable[[float], bytes]) -> None:
        queue(self, make)
        self.flush()

    Journal.append_line = append_line  # type: ignore[method-assign]


def in_child(work: Callable[[], None]) -> int:
    """Run something in a process of its own; the signal that ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a child failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def train(home: Path) -> None:
    hotloop.train("cartpole", steps=STEPS, config=CONFIG, home=home, name="run")


def resume(home: Path) -> None:
    hotloop.train(resume="run", home=home)


def rows_of(home: Path) -> dict[str, Any]:
    """All rows of the run, without what may differ and without the resumptions themselves."""
    with Store(home=home) as store:
        if store.notes:
            raise RuntimeError(str(store.notes))
        one = store.find("run")
        points = sorted((key, step, value) for key, step, _, value in store.points(one) if not is_time(key))
        tables = {
            "evaluations": store.evaluations(one),
            "checkpoints": store.checkpoints(one),
            "events": [row for row in store.events(one) if row["kind"] != "resumed"],
            "episodes": store.episodes(one),
        }
        run = {key: value for key, value in vars(one).items() if key not in DIFFERING and not key.endswith("_text")}
    kept = DIFFERING - {"path", "facts"}
    rows = {name: [{k: v for k, v in row.items() if k not in kept} for row in found] for name, found in tables.items()}
    return {"runs": [run], "metrics": points, **rows}


def is_time(key: str) -> bool:
    return key.startswith(("time.", "seconds")) or key == "steps_per_second"


def compare(folder: Path, every: int) -> dict[str, Any]:
    # Processes are killed here, not the machine: nothing needs to reach the disk.
    os.fsync = lambda fd: None
    whole = folder / "whole"
    # In this process, so that the children find everything imported.
    train(whole)
    expected = in_store(whole)
    differences: list[str] = []
    kills = 0
    while True:
        home = folder / "killed"

        def killed(home: Path = home, operation: int = kills) -> None:
            die_before(operation)
            train(home)

        if in_child(killed) == 0:
            break
        if (home / "runs" / "run" / "config.yaml").exists():
            if kills // every % 2:
                # A store that has taken every event there is.
                in_store(home)
            in_child(lambda home=home: resume(home))  # type: ignore[misc]
            found = in_store(home)
            differences += [f"kill {kills}: {name}" for name in expected if found[name] != expected[name]]
        shutil.rmtree(home, ignore_errors=True)
        kills += every
    in_child(lambda: resume(whole))
    found = in_store(whole)
    differences += [f"resumed after its end: {name}" for name in expected if found[name] != expected[name]]
    return {"kills": kills, "differences": differences}


def in_store(home: Path) -> dict[str, Any]:
    """The rows, read in a child: the parent must stay without threads and open databases."""
    read, write = os.pipe()

    def tell() -> None:
        with os.fdopen(write, "w") as stream:
            try:
                json.dump(rows_of(home), stream)
            except RuntimeError as error:
                json.dump({"error": str(error)}, stream)

    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            tell()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        rows: dict[str, Any] = json.load(stream)
    os.waitpid(pid, 0)
    return rows


if __name__ == "__main__":
    print(json.dumps(compare(Path(sys.argv[1]), int(sys.argv[2]))))
