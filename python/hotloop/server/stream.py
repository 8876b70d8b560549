"""The response that sends server-sent events until its client leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hotloop.server.hub import Hub, Stream

# Seconds between signs of life, by which both sides find out that the other is gone.
PING_EVERY: Final = 15.0
# Seconds for a client to take what was sent.
SEND_WITHIN: Final = 30.0


class EventStream(Response):
    """Server-sent events of one stream."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, stream: Stream) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._hub = hub
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events as they come."""
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        sending = asyncio.create_task(self._send(headers, send))
        try:
            await asyncio.wait((leaving, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(self._stream)
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)

    async def _send(self, headers: list[tuple[bytes, bytes]], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        stream = self._stream
        while not stream.closed:
            data = b"".join(stream.queue) or b": ping\n\n"
            stream.queue.clear()
            stream.wake.clear()
            async with asyncio.timeout(SEND_WITHIN):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if not stream.queue and not stream.closed:
                try:
                    async with asyncio.timeout(PING_EVERY):
                        await stream.wake.wait()
                except TimeoutError:
                    continue
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
