"""Distribution of live events: one ring of recent ones for all clients, and a bounded queue for each."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_bytes

RING_EVENTS: Final = 2000
RING_BYTES: Final = 2_000_000
QUEUE_EVENTS: Final = 256
MOST_STREAMS: Final = 64
MOST_STREAMS_PER_CLIENT: Final = 8


@dataclass(frozen=True, slots=True)
class Event:
    """An event, encoded once for all clients."""

    number: int
    topic: str
    data: bytes


@dataclass(eq=False)
class Stream:
    """A client's stream."""

    client: str
    topics: frozenset[str]
    metrics: frozenset[str]
    """Metrics that it wants points of; empty for all."""
    queue: deque[bytes] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    def push(self, data: bytes) -> None:
        """Queue an event; a client that does not keep up loses its queue, and must read everything again."""
        if len(self.queue) >= QUEUE_EVENTS:
            self.queue.clear()
            data = encode(None, "reset", {"why": "the client is too slow"})
        self.queue.append(data)
        self.wake.set()


def encode(event_id: str | None, kind: str, value: Any) -> bytes:
    """An event in the format of server-sent events."""
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return head + b"event: " + kind.encode() + b"\ndata: " + json_bytes(value) + b"\n\n"


class Hub:
    """All streams. Events are published from the poller's thread; everything else happens on the event loop."""

    def __init__(self) -> None:
        self.boot = secrets.token_hex(4)
        self.active = threading.Event()
        """Whether anyone listens."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ring: deque[Event] = deque()
        self._bytes = 0
        self._last = 0
        self._streams: set[Stream] = set()
        self._topics: frozenset[str] = frozenset()
        self._metrics: dict[str, frozenset[str]] = {}

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop on which streams live."""
        self._loop = loop

    @property
    def count(self) -> int:
        """Open streams."""
        return len(self._streams)

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._last

    def topics(self) -> frozenset[str]:
        """Topics that anyone listens to; from any thread."""
        return self._topics

    def metrics(self, topic: str) -> frozenset[str]:
        """Metrics of a run's topic that are wanted; empty for all."""
        return self._metrics.get(topic, frozenset())

    def publish(self, topic: str, kind: str, value: Any) -> None:
        """Send an event to everyone who listens to its topic; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._publish, topic, kind, value)

    def _publish(self, topic: str, kind: str, value: Any) -> None:
        self._last += 1
        event = Event(self._last, topic, encode(f"{self.boot}-{self._last}", kind, value))
        self._ring.append(event)
        self._bytes += len(event.data)
        while len(self._ring) > RING_EVENTS or self._bytes > RING_BYTES:
            self._bytes -= len(self._ring.popleft().data)
        for stream in self._streams:
            if topic in stream.topics:
                stream.push(event.data)

    def join(
        self, client: str, topics: Iterable[str], metrics: Iterable[str], last_id: str | None, hello: dict[str, Any]
    ) -> Stream:
        """Open a stream. With the id of the last event that a client has, it gets those after it, or `reset`."""
        if len(self._streams) >= MOST_STREAMS:
            raise ProblemError(429, f"{MOST_STREAMS} streams are open already: close some tabs")
        if sum(stream.client == client for stream in self._streams) >= MOST_STREAMS_PER_CLIENT and client:
            raise ProblemError(429, f"{MOST_STREAMS_PER_CLIENT} streams of this session are open already")
        stream = Stream(client, frozenset(topics), frozenset(metrics))
        start = f"{self.boot}-{self._last}"
        if last_id is None:
            stream.push(encode(start, "hello", hello))
        elif (missed := self._missed(last_id)) is None:
            stream.push(encode(start, "hello", hello))
            stream.push(encode(start, "reset", {"why": "the server no longer has the events since then"}))
        else:
            stream.push(encode(None, "hello", hello))
            waiting = [event.data for event in missed if event.topic in stream.topics]
            if len(waiting) > QUEUE_EVENTS - 2:
                stream.push(encode(start, "reset", {"why": "too many events were missed"}))
            else:
                stream.queue.extend(waiting)
        self._streams.add(stream)
        self._update()
        return stream

    def _missed(self, last_id: str) -> list[Event] | None:
        """Events after an id; `None` if some of them are not known any more."""
        boot, _, text = last_id.partition("-")
        if boot != self.boot or not text.isdecimal() or len(text) > 18:
            return None
        number = int(text)
        first = self._ring[0].number if self._ring else self._last + 1
        if not first - 1 <= number <= self._last:
            return None
        return [event for event in self._ring if event.number > number]

    def leave(self, stream: Stream) -> None:
        """Close a stream."""
        self._streams.discard(stream)
        self._update()

    def close(self) -> None:
        """End all streams."""
        for stream in self._streams:
            stream.closed = True
            stream.wake.set()

    def _update(self) -> None:
        self._topics = frozenset(topic for stream in self._streams for topic in stream.topics)
        wanted: dict[str, list[frozenset[str]]] = {}
        for stream in self._streams:
            for topic in stream.topics:
                wanted.setdefault(topic, []).append(stream.metrics)
        self._metrics = {
            topic: frozenset().union(*sets) if all(sets) else frozenset() for topic, sets in wanted.items()
        }
        if self._streams:
            self.active.set()
        else:
            self.active.clear()
