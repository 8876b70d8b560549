"""Faults of orchestrators and jobs, for real: python -m tests.orchestrator.faults --jobs 1000 --kills 200.

An orchestrator works through a queue of short trainings while its processes are killed and stopped at random moments.
In the end every job must have completed once, with the weights of an undisturbed run, and no process may be left.
"""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hotloop.orchestrator.api import submit_requests
from hotloop.orchestrator.folder import JobFolder
from hotloop.orchestrator.job import Job
from hotloop.orchestrator.processes import Identity, sessions
from hotloop.orchestrator.queue import Queue
from hotloop.orchestrator.requests import train_request
from hotloop.tracking.job_queries import job_counts

# Longest time without any progress of the queue.
_STUCK = 300.0
# Most different trainings; others repeat their seeds under keys of their own.
_SEEDS = 8


@dataclass
class Tally:
    """What was done, and what came out."""

    jobs: int
    faults: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    completed: int = 0
    attempts: int = 0
    wrong_weights: int = 0
    ended_twice: int = 0
    orphans: int = 0
    stuck: int = 0

    @property
    def held(self) -> bool:
        """Whether nothing was lost."""
        return self.completed == self.jobs and not (
            self.wrong_weights or self.ended_twice or self.orphans or self.stuck
        )

    def lines(self) -> list[str]:
        """The tally as lines of text."""
        faults = ", ".join(f"{what} {count}" for what, count in sorted(self.faults.items()))
        return [
            f"injected      {sum(self.faults.values())}: {faults}",
            f"jobs          {self.jobs}, completed {self.completed}, attempts {self.attempts}",
            f"orchestrators {self.restarts + 1}",
            f"wrong weights {self.wrong_weights}",
            f"ended twice   {self.ended_twice}",
            f"left running  {self.stuck} rows, {self.orphans} processes",
        ]


class Attack:
    """A queue of short trainings, and the faults that are injected while it is worked through."""

    def __init__(self, home: Path, *, jobs: int, kills: int, seed: int, steps: int = 300_000, limit: int = 4) -> None:
        self._home, self._kills, self._limit = home, kills, limit
        self._random = random.Random(seed)
        self._environment = {**os.environ, "HOTLOOP_HOME": str(home)}
        os.environ["HOTLOOP_HOME"] = str(home)
        self.tally = Tally(jobs)
        self._seen: set[Identity] = set()
        self._expected = self._train_undisturbed(steps)
        self._submit(jobs, steps)
        self._faults: dict[str, Callable[[subprocess.Popen[bytes]], bool]] = {
            "kill orchestrator": self._kill_orchestrator,
            "kill job": self._kill_job,
            "kill job's session": self._kill_session,
            "kill launcher": self._kill_launcher,
            "kill all": self._kill_all,
            "stop orchestrator": self._stop_orchestrator,
            "lock store": self._lock_store,
        }

    def run(self) -> Tally:
        """Inject all faults, let the rest be worked off, and count."""
        process = self._start()
        changed, before = time.monotonic(), -1
        injected = 0
        name: str | None = None
        while True:
            with Queue(None, self._home, timeout=60.0) as queue:
                counts, event = job_counts(queue), queue.last_event()
            if counts.get("completed", 0) + counts.get("failed", 0) + counts.get("cancelled", 0) == self.tally.jobs:
                break
            if event != before:
                changed, before = time.monotonic(), event
            if time.monotonic() - changed > _STUCK:
                break
            if process.poll() is not None:
                process = self._start()
                self.tally.restarts += 1
            if injected < self._kills:
                time.sleep(self._random.uniform(0.0, 0.4))
                # A job to kill may take a moment to come up: the same fault is tried again until it hits.
                name = name or self._random.choice(list(self._faults))
                if self._faults[name](process):
                    self.tally.faults[name] += 1
                    injected, name = injected + 1, None
            else:
                time.sleep(0.2)
        process.terminate()
        process.wait()
        self._count()
        return self.tally

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "hotloop", "jobs", "work", "--limit", str(self._limit)]
        log = (self._home / "orchestrator.log").open("ab")
        with log:
            return subprocess.Popen(command, stderr=log, env=self._environment, start_new_session=True)

    def _train_undisturbed(self, steps: int) -> dict[int, str]:
        from hotloop.training import train
        from tests.orchestrator.test_orchestrator import weights

        found = {}
        for seed in range(_SEEDS):
            with tempfile.TemporaryDirectory() as folder:
                settings = {"train.evaluate_episodes": 0}
                run = train(
                    "cartpole",
                    steps=steps,
                    seed=seed,
                    until="none",
                    config=settings,
                    progress=False,
                    home=folder,
                    store="none",
                )
                found[seed] = weights(run.path)
        return found

    def _submit(self, jobs: int, steps: int) -> None:
        from hotloop.config import load_config

        requests = []
        for number in range(jobs):
            overrides = {
                "train.steps": steps,
                "train.seed": number % _SEEDS,
                "train.until": None,
                "train.evaluate_episodes": 0,
            }
            config = load_config("cartpole", overrides=overrides)
            group = f"group-{number % 3}"
            requests.append(
                train_request(config, home=self._home, key=str(number), group=group, retries=50, priority=number % 4)
            )
        with Queue(None, self._home) as queue:
            submit_requests(queue, requests)

    def _running(self) -> list[Job]:
        with Queue(None, self._home, timeout=60.0) as queue:
            return queue.jobs(states=("running",))

    def _some_process(self) -> Identity | None:
        found = [JobFolder(job.path).read_process() for job in self._running() if job.folder is not None]
        alive = [identity for identity in found if identity is not None and identity.is_alive]
        self._seen |= set(alive)
        return self._random.choice(alive) if alive else None

    def _kill_orchestrator(self, process: subprocess.Popen[bytes]) -> bool:
        process.kill()
        process.wait()
        return True

    def _kill_job(self, process: subprocess.Popen[bytes]) -> bool:
        identity = self._some_process()
        if identity is not None:
            identity.signal(signal.SIGKILL)
        return identity is not None

    def _kill_session(self, process: subprocess.Popen[bytes]) -> bool:
        identity = self._some_process()
        if identity is not None:
            identity.kill_session()
        return identity is not None

    def _kill_launcher(self, process: subprocess.Popen[bytes]) -> bool:
        try:
            pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            return False
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        return bool(pids)

    def _kill_all(self, process: subprocess.Popen[bytes]) -> bool:
        found = [JobFolder(job.path).read_process() for job in self._running() if job.folder is not None]
        alive = [identity for identity in found if identity is not None and identity.is_alive]
        for identity in alive:
            identity.kill_session()
        return bool(alive) and self._kill_orchestrator(process)

    def _stop_orchestrator(self, process: subprocess.Popen[bytes]) -> bool:
        process.send_signal(signal.SIGSTOP)
        time.sleep(self._random.uniform(0.0, 0.5))
        process.send_signal(signal.SIGCONT)
        return True

    def _lock_store(self, process: subprocess.Popen[bytes]) -> bool:
        connection = sqlite3.connect(self._home / "hotloop.db", timeout=60.0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(self._random.uniform(0.0, 1.0))
        connection.execute("ROLLBACK")
        connection.close()
        return True

    def _count(self) -> None:
        tally = self.tally
        with Queue(None, self._home) as queue:
            jobs = queue.jobs()
            ends = Counter(
                row["job"] for row in queue.query_named("SELECT job FROM job_events WHERE after = 'completed'")
            )
            for job in jobs:
                seed = queue.job(job.number).spec["config"]["train"]["seed"]
                tally.attempts += job.attempts
                tally.completed += job.state == "completed"
                tally.stuck += job.state == "running"
                tally.ended_twice += ends[job.number] > 1
                if job.state == "completed" and (job.result or {}).get("weights") != self._expected[seed]:
                    tally.wrong_weights += 1
                if job.folder is not None and (identity := JobFolder(job.path).read_process()) is not None:
                    self._seen.add(identity)
        members = sessions()
        tally.orphans = sum(len(members.get(each.pid, [])) for each in self._seen if each.is_alive)


def main() -> int:
    """Attack, print the tally, and return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.orchestrator.faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="hotloop-jobs-"))
    start = time.monotonic()
    tally = Attack(home, jobs=given.jobs, kills=given.kills, seed=given.seed).run()
    print("\n".join([*tally.lines(), f"seconds       {time.monotonic() - start:.0f}"]))
    if tally.held:
        shutil.rmtree(home, ignore_errors=True)
        return 0
    print(f"the home is kept: {home}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
