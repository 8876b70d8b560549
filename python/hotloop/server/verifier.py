"""Verification of runs as child processes: progress as events, the result as an event of the run."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hotloop import _core
from hotloop.errors import StoreError
from hotloop.server.problems import ProblemError
from hotloop.tracking import journal

if TYPE_CHECKING:
    from hotloop.server.access import StoreAccess
    from hotloop.server.hub import Hub
    from hotloop.tracking.store import StoredRun

_NICE: Final = 10


class Verifier:
    """Runs `hotloop verify`, one run at a time."""

    def __init__(self, hub: Hub, access: StoreAccess) -> None:
        self._hub = hub
        self._access = access
        self._lock = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, run: StoredRun, home: str) -> None:
        """Begin to verify a run; a run that is being verified is refused."""
        if run.id in self._tasks:
            raise ProblemError(409, f"the run {run.name!r} is being verified")
        task = asyncio.create_task(self._verify(run, home))
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))

    async def close(self) -> None:
        """End what is going on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _publish(self, run: StoredRun, fraction: float, what: str, identical: bool | None = None) -> None:
        done = identical is not None or fraction < 0
        value = {"run": run.id, "fraction": max(0.0, fraction), "what": what, "done": done, "identical": identical}
        self._hub.publish(f"run:{run.id}", "verify", value)

    async def _verify(self, run: StoredRun, home: str) -> None:
        async with self._lock:
            self._publish(run, 0.0, "starting")
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hotloop", "verify", str(run.path), "--json"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "HOTLOOP_HOME": home},
                start_new_session=True,
            )
            try:
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
                await self._follow(run, child)
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()

    def _record(self, run: StoredRun, note: dict[str, Any]) -> None:
        journal.append_one(run.path / journal.NAME, note)
        with suppress(StoreError):
            # A store that cannot be written now takes it from the journal later.
            self._access.store.catch_up()

    async def _follow(self, run: StoredRun, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        assert child.stderr is not None
        messages = asyncio.create_task(child.stderr.read())
        end: dict[str, Any] | None = None
        async for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "progress":
                self._publish(run, event["fraction"], event["what"])
            elif event["event"] == "end":
                end = event
        await child.wait()
        if end is None:
            text = (await messages).decode(errors="replace").strip().splitlines()
            self._publish(run, -1.0, text[-1].removeprefix("hotloop: ") if text else "the verification failed")
            return
        await messages
        identical = bool(end["same"])
        host, version = platform.node(), _core.__version__
        what = (
            f"identical: weights byte for byte, {end['records']} records, on {host} with version {version}"
            if identical
            else f"different at step {end['steps']}: {'; '.join(end['differences'][:3])}"
        )
        facts = {"identical": identical, "records": end["records"], "host": host, "version": version}
        note = {"event": "verification", "steps": end["steps"], "what": what, "facts": facts}
        await self._access.run(self._record, run, note)
        self._publish(run, 1.0, what, identical)
