"""The worker processes of one runner: groups are sent to them and received back; lost workers are replaced.

A group whose worker was lost comes back like any other, with its envs reset and its rows marked as cut.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.errors import EnvError
from hotloop.runners.affinity import worker_cores
from hotloop.runners.group_state import GroupState, GroupStates
from hotloop.runners.health import Limits, WorkerHealth
from hotloop.runners.layout import CALL, ENDED, FAULTED, HISTORY, RESET, STEP, Layout, partition
from hotloop.runners.reports import Fault
from hotloop.runners.seeds import episode_seed
from hotloop.runners.supervisor import Supervisor
from hotloop.runners.worker import Worker
from hotloop.runners.worker_faults import MAX_FAILED_STARTS, WorkerFaults
from hotloop.runners.worker_process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.envs.adapters.rows import Adapted
    from hotloop.envs.spec import EnvSpec

EnvSource = tuple[str, Any, dict[str, Any], dict[str, Any]]
_POLL_SECONDS: Final = 0.2
_CLOSE_SECONDS: Final = 1.0
# Time for a worker to take and to answer a call, apart from what its envs take.
_CALL_SECONDS: Final = 60.0


class WorkerPool:
    """Workers and the memory they share with the runner.

    Args:
        source: How to make an env: `("name", name, options, wrap)` or `("call", pickled callable, options, wrap)`.
        num_envs: Number of envs.
        num_workers: Number of processes; with 0 the envs live in this process, and their exceptions are raised here.
        groups_per_worker: Number of groups that a worker's envs are divided into.
        infos: Entries of info to return.
        metrics: Entries of an episode's last info to report with the episode.
        debug: Whether to report failures of envs that cannot be made with full tracebacks.
        autoreset: When finished envs are reset: `next_step`, `same_step` or `disabled`.
        limits: Of each worker.
        python: The interpreter of the workers, if it is not this one.
        paths: Where workers look for modules.
    """

    def __init__(
        self,
        source: EnvSource,
        num_envs: int,
        *,
        num_workers: int,
        groups_per_worker: int,
        infos: tuple[str, ...],
        metrics: tuple[str, ...],
        debug: bool,
        autoreset: str,
        limits: Limits,
        python: str | None,
        paths: Sequence[str],
    ) -> None:
        self._source = source
        self._limits = limits
        self._python = python
        self._paths = list(paths)
        self._autoreset = autoreset
        self._infos = infos
        self._metrics = metrics
        self._debug = debug
        self._closed = False
        self._processes: list[WorkerProcess] = []
        self._supervisor: Supervisor | None = None
        self._local: Worker | None = None
        self.configured: dict[int, dict[str, Any]] = {}
        """Options that every reset of an env gets, by env."""
        workers = max(1, min(num_workers, num_envs))
        self.faults = WorkerFaults(workers, limits)
        self._cores = worker_cores(workers, limits)
        self._groups_per_worker = groups_per_worker
        # The number of seats is known once an env was made; how envs are divided does not depend on it.
        self.plan = partition(num_envs, 1, workers, groups_per_worker)
        self._states = GroupStates(len(self.plan.groups))
        self.in_flight = self._states.in_flight
        """Groups that were sent and not received yet."""
        self._owner = [worker for worker, (first, last) in enumerate(self.plan.workers) for _ in range(first, last)]
        if num_workers == 0:
            self._open_locally()
        else:
            self._open_processes()

    def _lay_out(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.plan = partition(self.plan.envs, spec.seats, len(self.plan.workers), self._groups_per_worker)
        self.layout = Layout(self.plan, spec, self._infos, self._metrics)

    def _use_memory(self, memory: Any) -> None:
        self.views = self.layout.views(memory)
        self.events = self.views["events"]
        self.views["number"][:] = -1
        self.views["valid"][:] = True
        self.views["weight"][:] = 1.0
        self.views["metrics"][:] = float("nan")
        self.signals = _core.Signals(self.views["signals"], len(self.plan.workers), len(self.plan.groups))

    def _open_locally(self) -> None:
        from hotloop.runners.boot import env_factory

        sys.path += [path for path in self._paths if path not in sys.path]
        make = env_factory(self._source)
        envs = [make() for _ in range(self.plan.envs)]
        self._lay_out(envs[0].spec)
        memory = mmap.mmap(-1, self.layout.size)
        self._use_memory(memory)
        self._local = Worker(0, self.layout, memory, make, self._autoreset, envs, None)

    def local_envs(self) -> list[Adapted]:
        """Return the envs if they live in this process, in order; else none."""
        return [] if self._local is None else self._local.envs()

    def _open_processes(self) -> None:
        self._memory_fd = os.memfd_create("hotloop-rows")
        self._life_read, self._life_write = os.pipe()
        try:
            self._processes = [self._start(worker) for worker in range(len(self.plan.workers))]
            specs = [process.wait_for("made") for process in self._processes]
            for worker, other in enumerate(specs):
                if other != specs[0]:
                    raise EnvError(f"the envs of worker {worker} have other spaces than those of worker 0: {other}")
            self._lay_out(specs[0])
            os.ftruncate(self._memory_fd, self.layout.size)
            self._use_memory(mmap.mmap(self._memory_fd, self.layout.size))
            for process in self._processes:
                self._send_layout(process)
            for process in self._processes:
                process.wait_for("ready")
                process.state = "ready"
        except BaseException:
            self._dispose()
            raise
        self._supervisor = Supervisor(self._limits, self.signals.alarm, self.views["pulse"])
        self._supervisor.watch(tuple(self._processes))

    def _start(self, worker: int) -> WorkerProcess:
        order = {
            "worker": worker,
            "envs": len(self.plan.envs_of(worker)),
            "source": self._source,
            "paths": self._paths,
            "cores": self._cores[worker],
            "debug": self._debug,
        }
        return WorkerProcess(worker, self._memory_fd, self._life_read, order, self._python, self._limits)

    def _send_layout(self, process: WorkerProcess) -> None:
        # A worker that has a core of its own may poll there for its next command.
        spin = len(self.plan.workers) <= _core.usable_cores()
        layout = (self.plan, self.spec, self._infos, self._metrics)
        process.connection.send((layout, self._autoreset, spin, self.configured))
        process.state = "made"

    def send(self, group: int, command: int = STEP) -> None:
        """Send a group to its worker."""
        if not self._states.send(group):
            return  # Its worker is being replaced; the group comes back when its envs have been reset.
        self.signals.send(group, self._owner[group], command)
        if self._local is not None:
            try:
                self._local.serve(group, command)
            except BaseException:
                self.signals.take_back(group)
                self._states.receive([group])
                raise
            self.signals.done(group)

    def send_all(self, command: int = STEP) -> None:
        """Send every group to its worker; none is in flight."""
        if self._local is None and self._states.steady:
            self._states.send_all()
            self.signals.send_all(self._owner, command)
        else:
            for group in range(len(self._owner)):
                self.send(group, command)

    def receive(self, count: int) -> list[int]:
        """Wait for so many of the groups in flight; return those that are ready first."""
        states = self._states
        count = min(count, len(states.in_flight))
        if states.steady:
            ready = self._alive(self.signals.receive(states.in_flight, count, _POLL_SECONDS))
            if len(ready) >= count:
                return self._take(ready[:count])
        received: list[int] = []
        while True:
            recovered = states.deliver(count - len(received))
            for group in recovered:
                self._mark_cut(group)
            received += recovered
            if len(received) >= count:
                return received
            busy = self._await_workers(self._alive(states.with_workers()), count - len(received))
            received += self._take(busy[: count - len(received)])
            if len(received) >= count:
                return received
            self._replace_lost()

    def _alive(self, groups: list[int]) -> list[int]:
        """Return the groups whose workers were not killed: one whose step took too long may still finish it."""
        for process in self._processes:
            if process.kill_reason is not None:
                groups = [group for group in groups if self._owner[group] != process.index]
        return groups

    def _await_workers(self, groups: list[int], count: int) -> list[int]:
        """Wait for so many of these groups; return those that came back from a command, not from a recovery."""
        back = []
        for group in self._alive(self.signals.receive(groups, count, _POLL_SECONDS)):
            if self._states[group] is GroupState.RESETTING:
                self._states.finish_reset(group)
                self.faults.records[self._owner[group]].failed_starts = 0
            else:
                back.append(group)
        return back

    def _take(self, groups: list[int]) -> list[int]:
        self._states.receive(groups)
        events = self.events.tolist()
        for group in groups:
            if events[group] & FAULTED and self._local is None:
                self._read_messages(self._processes[self._owner[group]])
        return groups

    def _mark_cut(self, group: int) -> None:
        rows, views = self.plan.rows_of(group), self.views
        for name in ("terminated", "finished"):
            views[name][rows] = False
        views["truncated"][rows] = views["cut"][rows] = True
        views["reward"][rows] = 0.0
        views["final_obs"][rows] = 0
        views["events"][group] = ENDED | FAULTED

    def _replace_lost(self) -> None:
        """Replace workers that ended, and bring their replacements a step further."""
        self.faults.raise_if_broken()
        for process in list(self._processes):
            code = process.poll()
            self._read_messages(process)
            if code is not None and process.state != "lost":
                self._replace(process, code)

    def _read_messages(self, process: WorkerProcess) -> None:
        for message in process.messages():
            match message[0]:
                case "fault":
                    self._add_fault(process.index, message[1], "raise", message[2], message[3])
                case "failed":
                    process.failure = (message[1], message[2])
                case "made":
                    if message[1] != self.spec:
                        process.kill("raise", f"its envs have other spaces than before: {message[1]}")
                    else:
                        self._send_layout(process)
                case "ready":
                    process.state = "ready"
                    self._reset_envs(process.index)

    def _reset_envs(self, worker: int) -> None:
        """Let a replacement start its envs, with the seeds of their next episodes."""
        views = self.views
        for env in self.plan.envs_of(worker):
            views["seed"][env] = episode_seed(int(views["key"][env]), int(views["number"][env]) + 1)
            views["seeded"][env] = views["which"][env] = True
        for group in self.plan.groups_of(worker):
            self._states.start_reset(group)
            self.signals.send(group, worker, RESET)

    def _replace(self, process: WorkerProcess, code: int) -> None:
        worker, record = process.index, self.faults.records[process.index]
        groups = self.plan.groups_of(worker)
        record.failed_starts += self._states.unavailable(groups)
        process.state = "lost"
        first_reset = self.views["number"][self.plan.envs_of(worker).start] < 0 and record.restarts == 0
        kind, what, traceback = process.explain_exit(code)
        env = int(self.views["cursor"][worker])
        for group in groups:
            self.signals.take_back(group)
        self._states.lose(groups)
        self.views["pulse"][worker] = float("inf")
        process.dispose()
        record.restarts += 1
        if first_reset and kind == "raise":
            raise EnvError(f"the env fails at its first reset: {what}\n\n{traceback}".rstrip())
        self._add_fault(worker, env, kind, what, traceback)
        self.faults.check_starts(worker)
        self._processes[worker] = self._start(worker)
        assert self._supervisor is not None
        self._supervisor.watch(tuple(self._processes))

    def _add_fault(self, worker: int, env: int, kind: str, what: str, traceback: str) -> None:
        group = next(group for group in self.plan.groups_of(worker) if env < self.plan.groups[group][1])
        turn = int(self.views["turn"][group])
        seats = self.plan.seats
        played = self.views["action"][:, env * seats : (env + 1) * seats]
        actions = [played[t % HISTORY].tolist() for t in range(max(0, turn - HISTORY) + 1, turn + 1)]
        fault = Fault(
            env=env,
            episode=int(self.views["number"][env]),
            step=turn,
            what=what,
            kind=kind,
            worker=worker,
            seed=int(self.views["seed"][env]),
            actions=tuple(action[0] if seats == 1 else tuple(action) for action in actions),
            traceback=traceback,
        )
        self.faults.add(worker, fault)

    def call(self, worker: int, method: str, *arguments: Any) -> Any:
        """Call a method of a worker that has no group in flight; if the worker is lost, of its replacement."""
        if self._local is not None:
            return getattr(self._local, method)(*arguments)
        for _ in range(MAX_FAILED_STARTS):
            self._recover(self.plan.groups_of(worker))
            if (reply := self._try_call(worker, method, arguments)) is not None:
                return reply[0]
        self._replace_lost()
        return self.faults.fail_call(worker, method)

    def _try_call(self, worker: int, method: str, arguments: tuple[Any, ...]) -> tuple[Any] | None:
        """Return a worker's reply, or `None` if the worker was lost."""
        process, group = self._processes[worker], self.plan.workers[worker][0]
        with contextlib.suppress(OSError):
            process.connection.send((method, arguments))
            self.signals.send(group, worker, CALL)
        idle_since = time.monotonic()
        while True:
            ended = process.poll() is not None
            if np.isfinite(self.views["pulse"][worker]).any():
                idle_since = time.monotonic()
            elif not ended and time.monotonic() - idle_since > _CALL_SECONDS:
                process.kill("timeout", f"its worker did not answer {method} within {_CALL_SECONDS:g} s")
            for message in process.messages(0.0 if ended else _POLL_SECONDS):
                match message[0]:
                    case "reply":
                        while not self.signals.receive([group], 1, _POLL_SECONDS) and process.poll() is None:
                            pass
                        return (message[1],)
                    case "failed":
                        raise EnvError(f"worker {worker} could not {method}: {message[1]}\n\n{message[2]}".rstrip())
                    case "fault":
                        self._add_fault(worker, message[1], "state", message[2], message[3])
            if ended:
                return None

    def _recover(self, groups: Sequence[int]) -> None:
        """Wait until these groups are with ready workers, none of them in flight."""
        self._replace_lost()
        while self._states.unavailable(groups):
            resetting = [g for g in range(len(self._owner)) if self._states[g] is GroupState.RESETTING]
            self._await_workers(resetting, 1)
            self._replace_lost()

    def configure(self, configured: dict[int, dict[str, Any]]) -> None:
        """Replace the options that every reset of an env gets; workers that are replaced get them too."""
        self.configured = configured
        for worker in range(len(self.plan.workers)):
            self.call(worker, "configure", configured)

    def ensure_ready(self) -> None:
        """Wait until every worker is ready; groups that were reset meanwhile count as they are."""
        if self._local is None:
            self._recover(range(len(self._owner)))
            self._states.accept()

    def health(self) -> list[WorkerHealth]:
        """Return the health of every worker."""
        found = []
        now = time.monotonic()
        for worker, record in enumerate(self.faults.records):
            process = self._processes[worker] if self._processes else None
            state: Any = "alive"
            if process is not None:
                state = {"ready": "alive", "lost": "lost"}.get(process.state, "starting")
                if process.poll() is not None:
                    state = "lost"
            limit = self._limits.step
            if state == "alive" and limit is not None and now - self.views["pulse"][worker, 0] > limit / 2:
                state = "slow"
            found.append(
                WorkerHealth(
                    worker=worker,
                    pid=os.getpid() if process is None else process.pid,
                    state=state,
                    restarts=record.restarts,
                    faults=record.faults,
                    memory=0 if process is None else process.resident(),
                    last_fault=record.last,
                )
            )
        return found

    def close(self) -> None:
        """End every worker; kill those that do not end by themselves within a second."""
        if self._closed:
            return
        self._closed = True
        if self._local is not None:
            self._local.close()
        if self._supervisor is not None:
            self._supervisor.close()
            for process in self._processes:
                if process.state == "ready" and process.poll() is None and not self.in_flight:
                    with contextlib.suppress(OSError):
                        process.connection.send(("stop", ()))
                        self.signals.send(self.plan.workers[process.index][0], process.index, CALL)
                else:
                    process.process.kill()
            end = time.monotonic() + _CLOSE_SECONDS
            for process in self._processes:
                with contextlib.suppress(Exception):
                    process.process.wait(max(0.0, end - time.monotonic()))
        self._dispose()

    def _dispose(self) -> None:
        for process in self._processes:
            if process.state != "lost":
                process.dispose()
        self._processes = []
        if hasattr(self, "_memory_fd"):
            for file in (self._memory_fd, self._life_read, self._life_write):
                os.close(file)
            del self._memory_fd
