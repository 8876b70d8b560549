"""MPI ranks that learn together: each has its own table and threads, and they exchange changed rows.

Every rank works in rounds of about equal time, so a slow node makes fewer steps instead of delaying the others. After
a round it sends its changed rows, compressed, to all others and merges the messages that have arrived. It waits only if
it is more than `tabular.staleness` rounds ahead of the slowest, which bounds the staleness of the tables. Values of
several ranks are averaged, weighted by their visits of that state and action.

Rank 0 is the trainer's: it counts, evaluates, saves checkpoints, and stops the others.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
import traceback
import zlib
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from hotloop import _core
from hotloop.errors import ConfigError, DisagreementError, RankDiedError
from hotloop.tabular.engines import NativeEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpi4py import MPI

    from hotloop.config import Config
    from hotloop.config.tabular.spaces import Spaces

R = TypeVar("R")
_ROWS: Final = 1
_STOP: Final = 2
_DEATH: Final = 3
# Seconds of a round; long compared with the cost of an exchange.
ROUND: Final = 0.05
# Seconds without a message after which a rank that others wait for is considered dead.
TIMEOUT: Final = 60.0


def world() -> MPI.Intracomm:
    """Return all ranks; raise a `ConfigError` if MPI is not installed."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ConfigError(
            "tabular.runtime is mpi, but mpi4py or its MPI library is missing "
            f"({error}): pip install 'hotloop[mpi]' installs both, or set tabular.runtime=shared"
        ) from None
    return MPI.COMM_WORLD


def pack(steps: int, round_: int, changes: tuple[Any, Any, Any], counted: dict[str, Any]) -> bytes:
    """Return a message with changed rows and counts; states are delta-encoded, and bytes shuffled to compress well."""
    states, values, visits = changes
    gaps = np.diff(states, prepend=np.uint64(0))
    parts = [
        np.ascontiguousarray(part).view(np.uint8).reshape(-1, part.itemsize).T.tobytes()
        for part in (gaps, values, visits)
    ]
    head = json.dumps({"steps": steps, "round": round_, "rows": len(states), "counted": counted}).encode()
    body = b"".join(parts)
    return len(head).to_bytes(4, "little") + head + zlib.compress(body, 1)


def _planes(numbers: Any) -> bytes:
    """Return all first bytes, then all second bytes, and so on: bytes of equal significance are similar."""
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def unpack(message: bytes, numbers: int, actions: int) -> tuple[dict[str, Any], tuple[Any, Any, Any]]:
    """Return the content of a message: its head, and states, values and visits."""
    size = int.from_bytes(message[:4], "little")
    head = json.loads(message[4 : 4 + size])
    body, rows, at = zlib.decompress(message[4 + size :]), head["rows"], 0
    found = []
    for dtype, count in ((np.uint64, rows), (np.float32, rows * numbers), (np.uint32, rows * actions)):
        width = np.dtype(dtype).itemsize
        raw = np.frombuffer(body, np.uint8, count * width, at).reshape(width, count)
        found.append(np.ascontiguousarray(raw.T).view(dtype).reshape(-1))
        at += count * width
    return head, (np.cumsum(found[0], dtype=np.uint64), found[1], found[2])


class Rank:
    """One rank's part in the exchange."""

    def __init__(self, config: Config, spaces: Spaces, settings: dict[str, Any]) -> None:
        self.world = world()
        self.number, self.count = self.world.Get_rank(), self.world.Get_size()
        first = self.number * settings["threads"]
        # A round is many small iterations, so that its length in steps can follow the measured speed.
        self._piece = max(1024, min(config.tabular.iteration, 65536))
        self.engine = NativeEngine(config, spaces, {**settings, "first_worker": first, "iteration": self._piece})
        self._actions = spaces.actions
        self._numbers = spaces.actions * (2 if config.train.algorithm == "double-q-learning" else 1)
        self._staleness = config.tabular.staleness
        self._rounds = [0] * self.count
        self._out: list[Any] = []
        self._hosts = self.world.allgather(socket.gethostname())
        self._pieces = 1
        self._heard = time.perf_counter()
        self._coming: tuple[int, int, bytearray, MPI.Request] | None = None
        self.sent = 0
        """Bytes sent so far."""

    def share_table(self, table: _core.QTable | None) -> None:
        """Send rank 0's table to all ranks."""
        arrays = self.world.bcast(None if table is None else (table.states, table.actions, table.arrays()))
        if self.number:
            states, actions, values = arrays
            self.engine.set_table(_core.QTable(states, actions, 0.0, values))

    def round(self) -> int:
        """Train for about the time of a round; return the steps made."""
        begun = time.perf_counter()
        made = self.engine.learner.advance(self._pieces, 10 * ROUND) * self._piece
        spent = time.perf_counter() - begun
        self._pieces = max(1, round(made / self._piece * ROUND / max(spent, 1e-6)))
        self._rounds[self.number] += 1
        return made

    def send(self, steps: int, counted: dict[str, Any]) -> None:
        """Send changed rows to all others, without waiting."""
        message = pack(steps, self._rounds[self.number], self.engine.learner.changes(), counted)
        self._out = [(data, request) for data, request in self._out if not request.Test()]
        for other in range(self.count):
            if other != self.number:
                self._out.append((message, self.world.Isend([message, len(message)], other, _ROWS)))
                self.sent += len(message)

    def behind(self) -> list[int]:
        """Return the ranks that this one must wait for."""
        return [r for r, done in enumerate(self._rounds) if self._rounds[self.number] - done > self._staleness]

    def receive(self) -> list[dict[str, Any]]:
        """Merge all messages that have arrived and return their heads; wait briefly if this rank is too far ahead."""
        heads: list[dict[str, Any]] = []
        begun = time.perf_counter()
        while True:
            while (found := self._next()) is not None:
                heads.append(found)
                self._heard = time.perf_counter()
            behind = self.behind()
            if not behind or heads or time.perf_counter() - begun > ROUND:
                return heads
            if time.perf_counter() - self._heard > TIMEOUT:
                slow = behind[0]
                raise RankDiedError(f"rank {slow} on {self._hosts[slow]} sent nothing for {TIMEOUT:.0f} s")
            time.sleep(0.0005)

    def _next(self) -> dict[str, Any] | None:
        from mpi4py import MPI

        if self._coming is None:
            status = MPI.Status()
            if not self.world.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                return None
            source, tag = status.Get_source(), status.Get_tag()
            message = bytearray(status.Get_count(MPI.BYTE))
            self._coming = (source, tag, message, self.world.Irecv([message, len(message)], source, tag))
        source, tag, message, request = self._coming
        # A rank that died never sends the rest of a large message: waiting for it would keep this one from ending.
        if not request.Test():
            return None
        self._coming = None
        if tag == _DEATH:
            raise RankDiedError(f"rank {source} on {self._hosts[source]} died:\n{bytes(message).decode()}")
        if tag == _STOP:
            return {"stop": True}
        head, changes = unpack(bytes(message), self._numbers, self._actions)
        self._rounds[source] = head["round"]
        self.engine.learner.absorb(*changes)
        return {**head, "rank": source}

    def stop_others(self) -> None:
        """Send all others the end of the job."""
        for other in range(1, self.count):
            self._out.append((b"", self.world.Isend([b"", 0], other, _STOP)))

    def report_death(self, error: BaseException) -> None:
        """Send rank 0 the reason why this rank ends."""
        lines = "".join(traceback.format_exception(error)).encode()
        self.world.Send([lines, len(lines)], 0, _DEATH)

    def settle(self) -> None:
        """Exchange the last messages: return once all of them have been sent and merged."""
        while self._out:
            self.receive_all()
            self._out = [(data, request) for data, request in self._out if not request.Test()]
        # A rank that is done still receives until all others have sent everything.
        arrived = self.world.Ibarrier()
        while not arrived.Test():
            self.receive_all()
        self.receive_all()

    def receive_all(self) -> None:
        """Merge all messages that have arrived, without waiting."""
        while self._next() is not None:
            pass


class MpiEngine(NativeEngine):
    """Rank 0's engine: trains like every rank, and counts for all."""

    def __init__(self, config: Config, spaces: Spaces, settings: dict[str, Any]) -> None:
        agreed(config)
        self._rank = Rank(config, spaces, settings)
        self.learner = self._rank.engine.learner
        count, threads = self._rank.count, settings["threads"]
        self.about = f"native, {count} MPI ranks x {threads} threads, at most {config.tabular.staleness} rounds apart"
        alone = "this is the only rank: start several with 'mpirun -n 4 hotloop train ...'"
        self.notes = (alone,) if count == 1 else ()
        self.steps_per_iteration = config.tabular.iteration
        self.plays = None
        self._made, self._reported = 0, 0
        self._counted: list[dict[str, Any]] = []
        self._begun = False
        self._ended = False

    @property
    def made(self) -> int:
        """Steps of all ranks, as far as they have been received."""
        return self._made

    def advance(self, iterations: int, seconds: float) -> tuple[int, int]:
        """Run rounds until all ranks together have made the iterations, or the time is up."""
        if not self._begun:
            self._rank.share_table(self.learner.table())
            self._begun = True
        start, before = time.perf_counter(), self._reported
        # Records cover whole iterations: steps beyond them are reported next time.
        while self._reported < before + iterations and time.perf_counter() - start < max(seconds, ROUND):
            try:
                self._round()
            except RankDiedError:
                self._ended = True
                raise
            self._reported = min(before + iterations, self._made // self.steps_per_iteration)
        made = self._reported - before
        return made, made * self.steps_per_iteration

    def _round(self) -> None:
        if not self._rank.behind():
            self._made += self._rank.round()
            self._rank.send(0, {})
        for head in self._rank.receive():
            self._made += head["steps"]
            self._counted.append(head["counted"])

    def tally(self) -> Any:
        """Return the statistics of all ranks since the last call."""
        statistics = self.learner.take_statistics()
        for other in self._counted:
            for key in ("count", "length", "total", "square", "error", "updates"):
                statistics[key] += other[key]
            statistics["extra"] = [a + b for a, b in zip(statistics["extra"], other["extra"], strict=True)]
            statistics["min"], statistics["max"] = (
                min(statistics["min"], other["min"]),
                max(statistics["max"], other["max"]),
            )
        self._counted = []
        return statistics

    def set_table(self, table: _core.QTable) -> None:
        """Replace the table; the other ranks get it when training begins."""
        self.learner.set_table(table)

    def close(self) -> None:
        """Stop the other ranks."""
        if not self._ended:
            self._ended = True
            if not self._begun:
                self._rank.share_table(self.learner.table())
            self._rank.stop_others()
            self._rank.settle()


def agreed(config: Config | None) -> Config:
    """Return the config of all ranks (rank 0's, if this one has none); raise an error if they differ."""
    from hotloop.config.loader import build

    dumped = None if config is None else config.model_dump(mode="json")
    known = world().allgather(dumped)
    for rank, other in enumerate(known):
        if other is not None and other != known[0]:
            where = [
                f"{part}.{key} is {value!r} there and {known[0][part].get(key)!r} here"
                for part, values in other.items()
                for key, value in values.items()
                if known[0][part].get(key) != value
            ]
            raise DisagreementError(f"rank {rank} has another config than rank 0: {'; '.join(where[:3])}")
    return config or build(known[0])


def together(config: Config | None, lead: Callable[[], R]) -> R:
    """Run `lead` on rank 0 and serve it on the others; return its result on all. A rank that fails ends the job."""
    ranks = world()
    try:
        if ranks.Get_rank():
            serve(agreed(config))
        run: R = ranks.bcast(None if ranks.Get_rank() else lead())
    except DisagreementError:
        if ranks.Get_rank():
            raise SystemExit(2) from None
        raise
    except BaseException as error:
        if ranks.Get_size() > 1:
            _abort(ranks, error)
        raise
    return run


def _abort(ranks: MPI.Intracomm, error: BaseException) -> None:
    """End all ranks. Rank 0 reports why; the others have sent it their reason."""
    if ranks.Get_rank():
        time.sleep(TIMEOUT)
    lines = str(error) if isinstance(error, RankDiedError) else "".join(traceback.format_exception(error))
    where = "" if isinstance(error, RankDiedError) else f"rank {ranks.Get_rank()} on {socket.gethostname()} failed:\n"
    print(f"hotloop: {where}{lines}", file=sys.stderr, flush=True)
    ranks.Abort(1)


def serve(config: Config) -> None:
    """Run rounds on a rank other than 0 until rank 0 ends the run."""
    from hotloop.config.tabular.settings import settings
    from hotloop.config.tabular.spaces import spaces

    # Rank 0 handles signals for all.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    rank = Rank(config, spaces(config), settings(config))
    try:
        rank.share_table(None)
        while True:
            if not rank.behind():
                made = rank.round()
                statistics = rank.engine.tally()
                counted = {key: value for key, value in statistics.items() if key not in ("returns", "lengths")}
                rank.send(made, _finite(counted))
            if any(head.get("stop") for head in rank.receive()):
                break
        rank.settle()
    except BaseException as error:
        rank.report_death(error)
        raise


def _finite(counted: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinity; without episodes there is no smallest return.
    if counted["count"]:
        return counted
    return {**counted, "min": 1e30, "max": -1e30}
