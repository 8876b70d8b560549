"""Errors as RFC 9457 problem documents, with the sentences that the command line has."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from hotloop.errors import (
    AmbiguousRunError,
    CheckpointError,
    ConfigError,
    EnvError,
    NoSuchRunError,
    QueryError,
    RenderError,
    ReplayError,
    StoreAwayError,
    StoreError,
    StoreReadOnlyError,
    TrainingError,
    UnknownEnvError,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

MEDIA_TYPE: Final = "application/problem+json"
# The first that fits counts.
_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NoSuchRunError, 404),
    (AmbiguousRunError, 409),
    (QueryError, 400),
    (StoreReadOnlyError, 403),
    (StoreAwayError, 503),
    (StoreError, 503),
    (ReplayError, 422),
    (RenderError, 422),
    (CheckpointError, 409),
    (TrainingError, 403),
    (ConfigError, 422),
    (EnvError, 422),
    (UnknownEnvError, 422),
)
KNOWN: Final = tuple(kind for kind, _ in _STATUS)


class ProblemError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers or {}, more


def problem(scope: Scope, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """The document of an error."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": scope.get("path", ""),
        **more,
    }
    if status in (429, 503):
        headers = {"Retry-After": "2", **(headers or {})}
    content = orjson.dumps(body, default=str)
    return Response(content, status, headers=headers, media_type=MEDIA_TYPE)


def from_error(request: Request, error: Exception) -> Response:
    """The document of one of the package's own errors."""
    if isinstance(error, ProblemError):
        return problem(request.scope, error.status, error.detail, headers=error.headers, **error.more)
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    near = getattr(error, "near", None)
    detail, file = str(error), request.app.state.services.store.url.file
    if file is not None:
        # Paths of this machine are not for every reader.
        detail = detail.replace(str(file), file.name).replace(str(file.parent), file.parent.name)
    return problem(request.scope, status, detail, **({"near": near} if near else {}))
