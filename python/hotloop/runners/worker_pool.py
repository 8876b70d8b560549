"""The worker processes of one runner as a whole: sends groups, gets them back, and replaces workers that were lost.

A group whose worker was lost comes back like any other, with its envs reset and its rows marked as cut.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop import _core
from hotloop.errors import EnvError, WorkersFailedError
from hotloop.runners.health import Limits, Listener, WorkerHealth
from hotloop.runners.layout import HISTORY, Layout, cut
from hotloop.runners.reports import Fault
from hotloop.runners.worker import ENDED, FAULTED, RESET, STEP, TALK, Worker, keyed_seed
from hotloop.runners.worker_process import Child, Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.envs.adapters.rows import Adapted
    from hotloop.envs.spec import EnvSpec


_HOUR: Final = 3600.0
# So many starts in a row that fail are no accident.
_MOST_FAILED_STARTS: Final = 3
_KEPT: Final = 1000


@dataclass
class _Record:
    """What is remembered of one worker over all its processes."""

    restarts: int = 0
    times: list[float] = field(default_factory=list)
    faults: int = 0
    last: Fault | None = None
    failed_starts: int = 0


class WorkerPool:
    """Workers and the memory they share with the runner.

    Args:
        source: What makes an env: `("name", name, options)` or `("call", pickled callable, options)`.
        num_envs: How many envs.
        num_workers: How many processes; 0 for none: envs live in this one, and their exceptions come through.
        groups_per_worker: Into how many groups a worker's envs are cut.
        infos: Wanted entries of info.
        autoreset: When finished envs start again.
        limits: Of each worker.
        python: The interpreter of the workers.
        paths: Where workers look for modules.
    """

    def __init__(
        self,
        source: tuple[str, Any, dict[str, Any]],
        num_envs: int,
        *,
        num_workers: int,
        groups_per_worker: int,
        infos: tuple[str, ...],
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
        self.faults: list[Fault] = []
        self.fault_count = 0
        self.listeners: list[Listener] = []
        self._outstanding: set[int] = set()
        self._resetting: set[int] = set()
        self._recovered: set[int] = set()
        self.flying: list[int] = []
        self._closed = False
        self.broken = False
        """Whether a worker is past its limit of faults; nothing moves any more then."""
        self._children: list[Child] = []
        self._supervisor: Supervisor | None = None
        self._local: list[Worker] = []
        self.configured: dict[int, dict[str, Any]] = {}
        """Options that every reset of an env gets, by env."""
        count = max(1, min(num_workers, num_envs))
        self._records = [_Record() for _ in range(count)]
        self._cores = _shares(count, limits)
        self._plan = cut(num_envs, 1, count, groups_per_worker)
        self._groups_per_worker = groups_per_worker
        if num_workers == 0:
            self._open_here(num_envs)
        else:
            self._open(num_envs)

    def _lay_out(self, num_envs: int, spec: EnvSpec) -> None:
        self.spec = spec
        self._plan = cut(num_envs, spec.seats, len(self._plan.workers), self._groups_per_worker)
        self.layout = Layout(self._plan, spec, self._infos)

    def _adopt(self, memory: Any) -> None:
        self.views = self.layout.views(memory)
        self.brought = self.views["brought"]
        self.views["number"][:] = -1
        self.views["valid"][:] = True
        self.views["weight"][:] = 1.0
        plan = self._plan
        self.signals = _core.Signals(self.views["signals"], len(plan.workers), len(plan.groups))
        self.plan = plan
        self._owner = [worker for worker, (first, last) in enumerate(plan.workers) for _ in range(first, last)]

    def _open_here(self, num_envs: int) -> None:
        from hotloop.runners.boot import maker

        sys.path += [path for path in self._paths if path not in sys.path]
        make = maker(self._source)
        envs = [make() for _ in range(num_envs)]
        self._lay_out(num_envs, envs[0].spec)
        memory = mmap.mmap(-1, self.layout.size)
        self._adopt(memory)
        self._local = [Worker(0, self.layout, memory, make, self._autoreset, envs, None)]

    def envs_here(self) -> list[Adapted]:
        """The envs in this process, in order: all of them, or none."""
        return [env for worker in self._local for env in worker.envs()]

    def _open(self, num_envs: int) -> None:
        self._memory_fd = os.memfd_create("hotloop-rows")
        self._life_read, self._life_write = os.pipe()
        try:
            self._children = [self._start(worker) for worker in range(len(self._plan.workers))]
            specs = [self._wait_for(child, "made") for child in self._children]
            for worker, other in enumerate(specs):
                if other != specs[0]:
                    raise EnvError(f"the envs of worker {worker} have other spaces than those of worker 0: {other}")
            self._lay_out(num_envs, specs[0])
            os.ftruncate(self._memory_fd, self.layout.size)
            self._adopt(mmap.mmap(self._memory_fd, self.layout.size))
            for child in self._children:
                self._introduce(child)
            for child in self._children:
                self._wait_for(child, "ready")
        except BaseException:
            self._dispose()
            raise
        self._supervisor = Supervisor(self._limits, self.signals.alarm)
        self._supervisor.pulse = self.views["pulse"]
        self._supervisor.watch(tuple(self._children))

    def _start(self, worker: int) -> Child:
        order = {
            "worker": worker,
            "envs": len(self._plan.envs_of(worker)),
            "source": self._source,
            "paths": self._paths,
            "cores": self._cores[worker],
        }
        return Child(worker, self._memory_fd, self._life_read, order, self._python, self._limits)

    def _introduce(self, child: Child) -> None:
        # Where every worker has a core, it may wait there for its next step.
        awake = len(self._plan.workers) <= _core.usable_cores()
        child.connection.send((self._plan, self.spec, self._infos, self._autoreset, awake, self.configured))
        child.state = "made"

    def _wait_for(self, child: Child, word: str) -> Any:
        """Waits for a word of a worker at the very start; there, any failure is the user's to see."""
        end = time.monotonic() + (self._limits.start or _HOUR)
        # A process that an env started may hold the connection open after its worker's end.
        while not child.connection.poll(0.2) and child.poll() is None:
            if time.monotonic() > end:
                child.end("timeout", "")
                raise EnvError(
                    f"worker {child.index} took more than {self._limits.start:g} s to make its envs\n{child.stack()}"
                )
        try:
            told = child.connection.recv() if child.connection.poll() else None
        except (EOFError, OSError):
            told = None
        if told is None:
            code = child.process.wait()
            raise EnvError(
                f"worker {child.index} {_how_it_ended(code)} while it made its envs\n{child.stack()}".rstrip()
            )
        if told[0] == "failed":
            raise EnvError(f"the env cannot be made: {told[1]}\n\n{told[2]}".rstrip())
        assert told[0] == word
        if word == "ready":
            child.state = "ready"
        return told[1] if len(told) > 1 else None

    def send(self, group: int, command: int = STEP) -> None:
        """Sends a group on its way."""
        self.flying.append(group)
        if self._local:
            self.signals.send(group, 0, command)
            try:
                self._local[0].serve(group, command)
            except BaseException:
                self.signals.take_back(group)
                self.flying.remove(group)
                raise
            self.signals.done(group)
            self._outstanding.add(group)
        elif self._is_well(group):
            self.signals.send(group, self._owner[group], command)
            self._outstanding.add(group)
        # Else its worker is being replaced, and the group comes back when its envs have been reset.

    def send_all(self, command: int = STEP) -> None:
        """Sends every group on its way, none of which is in flight."""
        if self._local or self._resetting or self._recovered or any(c.state != "ready" for c in self._children):
            for group in range(len(self._owner)):
                self.send(group, command)
            return
        self.flying = list(range(len(self._owner)))
        self._outstanding.update(self.flying)
        self.signals.send_all(self._owner, command)

    def _is_well(self, group: int) -> bool:
        child = self._children[self._owner[group]]
        return child.state == "ready" and group not in self._resetting and group not in self._recovered

    def receive(self, count: int) -> list[int]:
        """Waits for so many of the groups in flight; the first to be ready first."""
        count = min(count, len(self.flying))
        # As it nearly always is: every group in flight is with its worker, and no other.
        if len(self._outstanding) == len(self.flying) and not self._resetting and not self._recovered:
            ready = self.signals.receive(self.flying, count, 0.2)
            if len(ready) >= count:
                return self._take(ready[:count])
        arrived: list[int] = []
        while True:
            for group in list(self._recovered):
                if group in self.flying and len(arrived) < count:
                    self._recovered.discard(group)
                    self._mark_cut(group)
                    arrived.append(group)
                    self.flying.remove(group)
            if len(arrived) >= count:
                return arrived
            waiting = [group for group in self._outstanding if group in self.flying or group in self._resetting]
            for group in self.signals.receive(waiting, count - len(arrived), 0.2):
                if len(arrived) >= count and group not in self._resetting:
                    break
                self._outstanding.discard(group)
                if group in self._resetting:
                    self._resetting.discard(group)
                    self._recovered.add(group)
                    self._records[self._owner[group]].failed_starts = 0
                else:
                    arrived += self._take([group])
            if len(arrived) >= count:
                return arrived
            self._tend()

    def _take(self, groups: list[int]) -> list[int]:
        """These came back from their workers."""
        self._outstanding.difference_update(groups)
        if len(groups) == len(self.flying):
            self.flying.clear()
        else:
            for group in groups:
                self.flying.remove(group)
        brought = self.brought.tolist()
        for group in groups:
            if brought[group] & FAULTED and self._children:
                self._listen(self._children[self._owner[group]])
        return groups

    def _mark_cut(self, group: int) -> None:
        rows, views = self.plan.rows_of(group), self.views
        for name in ("terminated", "finished"):
            views[name][rows] = False
        views["truncated"][rows] = views["cut"][rows] = True
        views["reward"][rows] = 0.0
        views["final_obs"][rows] = 0
        views["brought"][group] = ENDED | FAULTED

    def _tend(self) -> None:
        """Replaces who was lost, and helps who is starting."""
        for child in list(self._children):
            code = child.poll()
            self._listen(child)
            if code is not None and child.state != "lost":
                self._replace(child, code)

    def _listen(self, child: Child) -> None:
        for told in child.messages():
            match told[0]:
                case "trouble":
                    self._note(child.index, told[1], "raise", told[2], told[3])
                case "failed":
                    child.failure = (told[1], told[2])
                case "made":
                    if told[1] != self.spec:
                        child.end("raise", f"its envs have other spaces than before: {told[1]}")
                    else:
                        self._introduce(child)
                case "ready":
                    child.state = "ready"
                    self._reset_envs(child.index)

    def _reset_envs(self, worker: int) -> None:
        """Starts the envs of a new worker, with the seeds that their next episodes have."""
        views = self.views
        for env in self.plan.envs_of(worker):
            views["seed"][env] = keyed_seed(int(views["key"][env]), int(views["number"][env]) + 1)
            views["seeded"][env] = views["which"][env] = True
        for group in range(*self.plan.workers[worker]):
            self._recovered.discard(group)
            self._resetting.add(group)
            self._outstanding.add(group)
            self.signals.send(group, worker, RESET)

    def _replace(self, child: Child, code: int) -> None:
        worker, record = child.index, self._records[child.index]
        groups = range(*self.plan.workers[worker])
        record.failed_starts += child.state != "ready" or any(group in self._resetting for group in groups)
        child.state = "lost"
        starting = self.views["number"][self.plan.envs_of(worker).start] < 0 and record.restarts == 0
        kind, what, traceback = _explained(child, code)
        env = int(self.views["cursor"][worker])
        for group in groups:
            self.signals.take_back(group)
            self._outstanding.discard(group)
            self._resetting.discard(group)
            self._recovered.discard(group)
        self.views["pulse"][worker] = float("inf")
        child.dispose()
        record.restarts += 1
        if starting and kind == "raise":
            raise EnvError(f"the env fails at its first reset: {what}\n\n{traceback}".rstrip())
        self._note(worker, env, kind, what, traceback)
        if record.failed_starts >= _MOST_FAILED_STARTS:
            self.broken = True
            raise WorkersFailedError(
                f"worker {worker} failed {record.failed_starts} times to start: {self._told(worker)}"
            )
        self._children[worker] = self._start(worker)
        assert self._supervisor is not None
        self._supervisor.watch(tuple(self._children))

    def _note(self, worker: int, env: int, kind: str, what: str, traceback: str) -> None:
        group = next(g for g in range(*self.plan.workers[worker]) if env < self.plan.groups[g][1])
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
        record = self._records[worker]
        record.faults += 1
        record.last = fault
        now = time.monotonic()
        if kind != "state":
            record.times = [*(t for t in record.times if now - t < _HOUR), now]
        self.fault_count += 1
        self.faults = [*self.faults[-_KEPT:], fault]
        for listener in self.listeners:
            listener(fault)
        if self._limits.restarts is not None and len(record.times) > self._limits.restarts:
            self.broken = True
            raise WorkersFailedError(
                f"worker {worker} faulted {len(record.times)} times within an hour, more than runner.restart_limit "
                f"{self._limits.restarts}: {self._told(worker)}"
            )

    def _told(self, worker: int) -> str:
        last = self._records[worker].last
        return "" if last is None else f"the last time {last.report()}"

    def talk(self, worker: int, method: str, *arguments: Any) -> Any:
        """Calls a method of a worker that has no group in flight; if the worker is lost, its replacement's."""
        if self._local:
            return getattr(self._local[0], method)(*arguments)
        for _ in range(_MOST_FAILED_STARTS):
            self._tend()
            while self._children[worker].state != "ready" or any(
                group in self._resetting for group in range(*self.plan.workers[worker])
            ):
                self._settle()
            if (answer := self._ask(worker, method, arguments)) is not None:
                return answer[0]
        self._tend()
        self.broken = True
        raise WorkersFailedError(
            f"worker {worker} was lost {_MOST_FAILED_STARTS} times during {method}: {self._told(worker)}"
        )

    def _ask(self, worker: int, method: str, arguments: tuple[Any, ...]) -> tuple[Any] | None:
        """A worker's answer, or nothing if it was lost."""
        child, group = self._children[worker], self.plan.workers[worker][0]
        with contextlib.suppress(OSError):
            child.connection.send((method, arguments))
            self.signals.send(group, worker, TALK)
        while True:
            ended = child.poll() is not None
            for told in child.messages(0.0 if ended else 0.2):
                match told[0]:
                    case "answer":
                        while not self.signals.receive([group], 1, 0.2) and child.poll() is None:
                            pass
                        return (told[1],)
                    case "failed":
                        raise EnvError(f"worker {worker} could not {method}: {told[1]}\n\n{told[2]}".rstrip())
                    case "trouble":
                        self._note(worker, told[1], "state", told[2], told[3])
            if ended:
                return None

    def _settle(self) -> None:
        """Lets a worker that is being replaced come to itself."""
        for group in self.signals.receive(list(self._resetting), 1, 0.2):
            self._outstanding.discard(group)
            self._resetting.discard(group)
            self._recovered.add(group)
        self._tend()

    def configure(self, configured: dict[int, dict[str, Any]]) -> None:
        """Replace the options that every reset of an env gets; workers that are replaced get them too."""
        self.configured = configured
        for worker in range(len(self.plan.workers)):
            self.talk(worker, "configure", configured)

    def well(self) -> None:
        """Waits until every worker is there; groups that were reset meanwhile count as they are."""
        self._tend()
        while not self._local and (self._resetting or any(child.state != "ready" for child in self._children)):
            self._settle()
        self._recovered.clear()

    def health(self) -> list[WorkerHealth]:
        """How every worker is."""
        found = []
        now = time.monotonic()
        for worker, record in enumerate(self._records):
            child = self._children[worker] if self._children else None
            state: Any = "alive"
            if child is not None:
                state = {"ready": "alive", "lost": "lost"}.get(child.state, "starting")
                if child.poll() is not None:
                    state = "lost"
            limit = self._limits.step
            if state == "alive" and limit is not None and now - self.views["pulse"][worker, 0] > limit / 2:
                state = "slow"
            found.append(
                WorkerHealth(
                    worker=worker,
                    pid=os.getpid() if child is None else child.pid,
                    state=state,
                    restarts=record.restarts,
                    faults=record.faults,
                    memory=0 if child is None else child.resident(),
                    last_fault=record.last,
                )
            )
        return found

    def close(self) -> None:
        """Ends every worker; those that do not end by themselves within a second are ended."""
        if self._closed:
            return
        self._closed = True
        for worker in self._local:
            worker.close()
        if self._supervisor is not None:
            self._supervisor.close()
            for child in self._children:
                if child.state == "ready" and child.poll() is None and not self.flying:
                    with contextlib.suppress(OSError):
                        child.connection.send(("stop", ()))
                        self.signals.send(self.plan.workers[child.index][0], child.index, TALK)
                else:
                    child.process.kill()
            end = time.monotonic() + 1.0
            for child in self._children:
                with contextlib.suppress(Exception):
                    child.process.wait(max(0.0, end - time.monotonic()))
        self._dispose()

    def _dispose(self) -> None:
        for child in self._children:
            if child.state != "lost":
                child.dispose()
        self._children = []
        if hasattr(self, "_memory_fd"):
            for file in (self._memory_fd, self._life_read, self._life_write):
                os.close(file)
            del self._memory_fd


def _how_it_ended(code: int) -> str:
    import signal

    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _explained(child: Child, code: int) -> tuple[str, str, str]:
    """Kind, words and traceback of a worker's end."""
    stack = child.stack()
    if child.reason is not None:
        return (*child.reason, stack)
    if child.failure is not None:
        return ("raise", *child.failure)
    kind = "exit" if code >= 0 else "killed"
    hint = ", as the system does when memory runs out" if code == -9 else ""
    return kind, f"its worker {_how_it_ended(code)}{hint}", stack


def _shares(workers: int, limits: Limits) -> list[list[int]]:
    """The cores of each worker, in turn; empty where nothing is asked for."""
    if limits.cores is None and limits.numa_node is None:
        return [[] for _ in range(workers)]
    usable = sorted(os.sched_getaffinity(0))
    if limits.numa_node is not None:
        usable = [core for core in usable if core in _node_cores(limits.numa_node)]
    each = min(limits.cores or len(usable), len(usable))
    return [sorted({usable[(worker * each + i) % len(usable)] for i in range(each)}) for worker in range(workers)]


def _node_cores(node: int) -> set[int]:
    path = Path(f"/sys/devices/system/node/node{node}/cpulist")
    try:
        listed = path.read_text().strip()
    except OSError:
        raise ValueError(f"numa_node is {node}: this machine has no such node") from None
    cores: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores
