"""The states of a worker pool's groups, and the transitions between them.

    IDLE ──send──▶ BUSY ──receive──▶ IDLE
    any ──lose──▶ LOST ──start_reset──▶ RESETTING ──finish_reset──▶ RECOVERED ──deliver, accept──▶ IDLE

A group is in flight from `send` until the caller receives it, whatever happens to its worker in between.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class GroupState(Enum):
    """The situation of a group."""

    IDLE = auto()
    """With the runner; its worker is ready."""
    BUSY = auto()
    """With its worker, which executes a command."""
    LOST = auto()
    """Its worker was lost, and the replacement is not ready yet."""
    RESETTING = auto()
    """The replacement resets the group's envs."""
    RECOVERED = auto()
    """The envs were reset, and the caller has yet to learn that their episodes were cut."""


class GroupStates:
    """One state per group. A transition from a state that does not allow it is a bug, and asserted.

    Steps of healthy workers pass through `send`, `send_all` and `receive` only, which are kept cheap.
    """

    def __init__(self, count: int) -> None:
        self._states = [GroupState.IDLE] * count
        self._disturbed: set[int] = set()
        self.in_flight: list[int] = []
        """Groups that were sent and not received yet, in the order of sending; always the same list."""

    def __getitem__(self, group: int) -> GroupState:
        return self._states[group]

    @property
    def steady(self) -> bool:
        """Whether every group is idle or busy."""
        return not self._disturbed

    def send(self, group: int) -> bool:
        """Put a group in flight; return whether its worker can take it now (else it comes back once recovered)."""
        self.in_flight.append(group)
        if self._states[group] is not GroupState.IDLE:
            return False
        self._states[group] = GroupState.BUSY
        return True

    def send_all(self) -> None:
        """Put every group in flight; all are idle."""
        assert self.steady
        assert not self.in_flight
        self.in_flight.extend(range(len(self._states)))
        self._states = [GroupState.BUSY] * len(self._states)

    def receive(self, groups: list[int]) -> None:
        """Note that busy groups came back from their workers."""
        for group in groups:
            self._states[group] = GroupState.IDLE
        if len(groups) == len(self.in_flight):
            self.in_flight.clear()
        else:
            for group in groups:
                self.in_flight.remove(group)

    def lose(self, groups: Iterable[int]) -> None:
        """Note that the worker of these groups was lost."""
        for group in groups:
            self._states[group] = GroupState.LOST
            self._disturbed.add(group)

    def start_reset(self, group: int) -> None:
        """Note that the replacement of a lost worker resets a group."""
        self._move(group, GroupState.LOST, GroupState.RESETTING)

    def finish_reset(self, group: int) -> None:
        """Note that the replacement of a lost worker has reset a group."""
        self._move(group, GroupState.RESETTING, GroupState.RECOVERED)

    def deliver(self, limit: int) -> list[int]:
        """Return recovered groups that are in flight, at most `limit` of them; they are idle then."""
        found = [group for group in self.in_flight if self._states[group] is GroupState.RECOVERED][:limit]
        for group in found:
            self.in_flight.remove(group)
        self._accept(found)
        return found

    def accept(self) -> None:
        """Take recovered groups as they are, with nothing in flight: the caller restarts their episodes anyway."""
        assert not self.in_flight
        self._accept([group for group in self._disturbed if self._states[group] is GroupState.RECOVERED])

    def with_workers(self) -> list[int]:
        """Return the groups that a worker has: busy or being reset."""
        having = (GroupState.BUSY, GroupState.RESETTING)
        return [group for group, state in enumerate(self._states) if state in having]

    def unavailable(self, groups: Iterable[int]) -> bool:
        """Return whether one of these groups waits for its worker's replacement."""
        waiting = (GroupState.LOST, GroupState.RESETTING)
        return any(self._states[group] in waiting for group in groups)

    def _accept(self, groups: Iterable[int]) -> None:
        for group in groups:
            self._move(group, GroupState.RECOVERED, GroupState.IDLE)
            self._disturbed.discard(group)

    def _move(self, group: int, source: GroupState, target: GroupState) -> None:
        assert self._states[group] is source, f"group {group} is {self._states[group]}, not {source}"
        self._states[group] = target
