"""The lease of a store: one orchestrator holds it, and a new one takes over when that one is dead or silent.

Silence is measured by a counter and this process's own clock, so that clocks that differ or jump do no harm.
"""

from __future__ import annotations

import json
import platform
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from hotloop.errors import JobError, LeaseLostError
from hotloop.orchestrator.processes import Identity, boot_id
from hotloop.orchestrator.queue import Queue, add_event

# Seconds between signs of life, and without one after which a holder is taken to be dead.
BEAT: Final = 2.0
SILENCE: Final = 10.0


def acquire(queue: Queue, *, wait: Callable[[float], None] = time.sleep) -> None:
    """Make this process the store's orchestrator; refuse if another one is alive."""
    beat, watched = None, time.monotonic()
    while True:
        host, process, born, boot, count = _holder(queue)
        if not process:
            break
        on_this_boot = host == platform.node() and boot == boot_id()
        if on_this_boot and not Identity(process, born, boot).is_alive:
            break
        if beat is None:
            beat = count
        elif count != beat:
            raise JobError(
                f"an orchestrator runs this store already: process {process} on {host}. End that one first "
                f"(kill {process}); its jobs go on, and the next one takes care of them"
            )
        if time.monotonic() - watched > SILENCE:
            break
        wait(BEAT / 8)
    own = Identity.own()
    holder = secrets.token_hex(8)
    with queue.writing() as database:
        done = database.execute(
            "UPDATE orchestrator SET holder = ?, host = ?, process = ?, born = ?, boot = ?, beat = beat + 1, seen = ? "
            "WHERE process = ? AND born = ? AND beat = ?",
            (holder, platform.node(), own.pid, own.born, own.boot, time.time(), process, born, count),
        )
        if done.rowcount != 1:
            raise JobError("another orchestrator has just taken over this store")
        add_event(database, 0, "", "", "orchestrator started", {"process": own.pid, "host": platform.node()})
    queue.holder = holder


def beat(queue: Queue, facts: Mapping[str, Any]) -> bool:
    """Show a sign of life, and figures for views; return whether the queue is paused."""
    with queue.reading() as database:
        done = database.execute(
            "UPDATE orchestrator SET beat = beat + 1, seen = ?, facts = ? WHERE holder = ?",
            (time.time(), json.dumps(facts), queue.holder),
        )
        if done.rowcount != 1:
            raise LeaseLostError("another orchestrator has taken over this store")
        (paused,) = database.execute("SELECT paused FROM orchestrator").fetchone()
    return bool(paused)


def release(queue: Queue) -> None:
    """Give the lease back; running jobs go on."""
    with queue.writing() as database:
        database.execute("UPDATE orchestrator SET holder = '', process = 0, born = 0 WHERE holder = ?", (queue.holder,))
        add_event(database, 0, "", "", "orchestrator ended")
    queue.holder = None


def _holder(queue: Queue) -> tuple[str, int, int, str, int]:
    with queue.reading() as database:
        row = database.execute("SELECT host, process, born, boot, beat FROM orchestrator").fetchone()
    if row is None:
        raise JobError(f"the table of orchestrators in {queue.url.shown} is empty: the store is damaged")
    host, process, born, boot, count = row
    return host, process, born, boot, count
