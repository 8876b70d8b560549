"""Running the server: the socket, uvicorn with its limits, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hotloop.errors import ConfigError
from hotloop.server.access import QUERY_SECONDS
from hotloop.server.app import build_app
from hotloop.server.guard import MAX_HEADERS, MAX_URL, Sessions
from hotloop.server.services import Services
from hotloop.server.settings import Settings
from hotloop.tracking.priority import give_way
from hotloop.tracking.run_cache import CachedStore

# Ports that are tried after one that is taken.
_MORE_PORTS: Final = 20
# Seconds for the headers of a request to arrive.
HEADERS_WITHIN: Final = 10.0
MOST_CONNECTIONS: Final = 256
# Milliseconds after which a peer that takes nothing counts as gone.
_DEAD_PEER: Final = 60_000


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 in which headers must arrive within some seconds, so that slow clients cannot hold connections."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; while they are no whole request, keep waiting."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEADERS_WITHIN, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def bind(host: str, port: int) -> tuple[socket.socket, int]:
    """A listening socket on this port, or on the next free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in [port] if port == 0 else range(port, min(port + _MORE_PORTS, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError, AttributeError):
            # Connections inherit it: a peer that vanished does not hold a stream for a quarter of an hour.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_PEER)
        try:
            listener.bind((host, candidate))
            listener.listen(512)
        except OSError as error:
            listener.close()
            last = error
            continue
        return listener, int(listener.getsockname()[1])
    reason = last.strerror if last is not None else "no port is free"
    raise ConfigError(f"cannot listen on {host}, port {port}: {reason}; choose another with --port")


def serve(settings: Settings, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve until a signal; `ready` gets the code of the link to print once the server answers."""
    # Threads that are started from here on inherit it.
    give_way()
    store = CachedStore(settings.store, home=settings.home, read_only=settings.read_only, query_limit=QUERY_SECONDS)
    sessions = Sessions(settings.token)
    services = Services(settings, store, sessions)
    config = uvicorn.Config(
        build_app(services),
        http=BoundedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=MAX_HEADERS + MAX_URL,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    _Server(config, services, lambda: ready(sessions.make_code())).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Announces when it answers, and ends streams when it is asked to end."""

    def __init__(self, config: uvicorn.Config, services: Services, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._services = services
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order on a signal, without raising it again: being ended is no failure."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End open streams, which would never end by themselves."""
        self._services.hub.close()
        super().handle_exit(sig, frame)
