"""Answers as JSON, with an ETag by which a client learns cheaply that nothing has changed."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

MAX_BYTES: Final = 50_000_000


def json_bytes(value: Any) -> bytes:
    """A value as JSON; numbers that are not finite are null."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    """Integers of more than 64 bits, as some options have, become floats."""
    if isinstance(value, int):
        number = float(value) if abs(value) < 10**300 else math.inf
        return number if math.isfinite(number) else None
    return str(value)


def json_response(request: Request, value: Any, status: int = 200) -> Response:
    """A JSON answer, or 304 if the client has the same already."""
    body = json_bytes(value)
    if len(body) > MAX_BYTES:
        from hotloop.server.problems import ProblemError

        raise ProblemError(413, f"the answer would have {len(body)} bytes: ask for less of it")
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [entry.strip() for entry in request.headers.get("if-none-match", "").split(",")]
    if tag in known and status == 200:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers=headers, media_type="application/json")
