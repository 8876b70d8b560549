"""Signals of the machine."""

import os
import threading

from hotloop.orchestrator import machine


def test_running_threads_are_counted() -> None:
    before = machine.cpu_time([os.getpid()])
    thread = threading.Thread(target=lambda: sum(range(3_000_000)))
    thread.start()
    thread.join()
    sum(range(3_000_000))
    after = machine.cpu_time([os.getpid()])
    assert after.running > before.running
    assert after.waiting >= before.waiting
    assert machine.cpu_time([2**22 + 1]) == (0, 0)


def test_memory_is_within_the_machine() -> None:
    memory = machine.memory()
    assert 0 < memory.available <= memory.total
    assert memory.spare >= 2**30
    assert 0 < machine.resident([os.getpid()]) < memory.total


def test_memory_is_short_when_little_is_left_or_processes_wait_for_it() -> None:
    total = 100 * 2**30
    spare = machine.Memory(total, 0).spare
    assert spare == total // 20
    assert machine.is_memory_short(machine.Memory(total, spare // 2 - 1), 0.0)
    assert not machine.is_memory_short(machine.Memory(total, spare), 0.0)
    assert machine.is_memory_short(machine.Memory(total, spare), 50.0)
    assert not machine.is_memory_short(machine.Memory(total, 3 * spare), 50.0)
