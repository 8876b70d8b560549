"""Everything that routes share, made when the server starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.requests import Request

from hotloop.server.access import ByteCache, StoreAccess
from hotloop.server.guard import Sessions
from hotloop.server.hub import Hub
from hotloop.server.player import Player
from hotloop.server.poller import Poller
from hotloop.server.rows import RowMaker
from hotloop.server.verifier import Verifier
from hotloop.tracking.resources import Sampler

if TYPE_CHECKING:
    from hotloop.server.settings import Settings
    from hotloop.tracking.run_cache import CachedStore
    from hotloop.tracking.store import StoredRun

SERIES_BYTES = 20_000_000
FRAMES_BYTES = 20_000_000


@dataclass
class Services:
    """The parts of a running server."""

    settings: Settings
    store: CachedStore
    sessions: Sessions
    hub: Hub = field(default_factory=Hub)
    started: float = field(default_factory=time.time)
    series: ByteCache = field(default_factory=lambda: ByteCache(SERIES_BYTES))
    frames: ByteCache = field(default_factory=lambda: ByteCache(FRAMES_BYTES))
    requests: dict[int, int] = field(default_factory=dict)
    """Answers by status."""

    def __post_init__(self) -> None:
        self.access = StoreAccess(self.store)
        self.rows = RowMaker(self.store)
        self.poller = Poller(self.store, self.rows, self.hub)
        self.player = Player()
        self.sampler = Sampler()
        self.verifier = Verifier(self.hub, self.access)

    async def find(self, text: str) -> StoredRun:
        """The run that a text names."""
        return await self.access.run(self.store.find, text)

    def close(self) -> None:
        """End all threads."""
        self.hub.close()
        self.poller.close()
        self.access.close()


def services(request: Request) -> Services:
    """The services of the server that a request came to."""
    return cast(Services, request.app.state.services)
