"""States of paused sessions in memory, up to a limit; one that is not kept is trained again, with the same bits."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 2 << 30


class States:
    """States by task."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}
        self._size = 0

    def put(self, task: str, state: bytes) -> None:
        """Keep a state if there is room."""
        if self._size + len(state) <= _LIMIT:
            self._states[task] = state
            self._size += len(state)

    def get(self, task: str) -> bytes | None:
        """Return a state, if it was kept."""
        return self._states.get(task)

    def take(self, task: str) -> bytes | None:
        """Return a state, and keep it no longer."""
        state = self._states.pop(task, None)
        self._size -= len(state or b"")
        return state

    def clear(self, *, but: set[str]) -> None:
        """Forget all states except these."""
        for task in [task for task in self._states if task not in but]:
            self.take(task)
