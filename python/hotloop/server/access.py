"""Access to the store off the event loop: a few threads, each with a connection of its own, and bounded caches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from hotloop.errors import StoreError
from hotloop.tracking.run_cache import CachedStore

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 4
QUERY_SECONDS: Final = 5.0
# Seconds between looks for journals that no process brings to the store.
_CATCH_UP_EVERY: Final = 5.0


class StoreAccess:
    """Runs functions on the store in worker threads."""

    def __init__(self, store: CachedStore) -> None:
        self.store = store
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="hotloop-store")
        self._caught_up = time.monotonic()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a worker thread."""
        loop = asyncio.get_running_loop()
        if time.monotonic() - self._caught_up > _CATCH_UP_EVERY and not self.store.read_only:
            self._caught_up = time.monotonic()
            # Not waited for: who asks next sees what it found.
            self._executor.submit(self._catch_up)
        return await loop.run_in_executor(self._executor, lambda: function(*args, **kwargs))

    def _catch_up(self) -> None:
        try:
            self.store.notes.clear()
            self.store.catch_up()
        except (StoreError, OSError):
            return  # requests report a store that cannot be used

    def close(self) -> None:
        """End the threads and close the connections."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self.store.close()


class ByteCache:
    """Least recently used answers, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], tuple[Any, int]]) -> Any:
        """The value of a key; `make` returns it and its size in bytes if it is not known."""
        with self._lock:
            if (found := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
                return found[0]
        value, size = make()
        with self._lock:
            if key not in self._entries and size <= self._most:
                self._entries[key] = value, size
                self._size += size
                while self._size > self._most:
                    _, (_, dropped) = self._entries.popitem(last=False)
                    self._size -= dropped
        return value
