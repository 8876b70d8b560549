"""The application: routes, errors as problem documents, and the guard around everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hotloop import _core
from hotloop.server import routes_jobs, routes_runs, routes_series, routes_sweeps, routes_system, routes_watch
from hotloop.server.guard import Guard
from hotloop.server.models import base
from hotloop.server.problems import KNOWN, MEDIA_TYPE, ProblemError, from_error, problem
from hotloop.server.static import serve_static

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hotloop.server.services import Services

_log = logging.getLogger("hotloop.server")
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in (
        (400, "The query cannot be understood."),
        (401, "The token is missing or wrong."),
        (403, "Refused."),
        (404, "There is no such thing; `near` has similar names."),
        (408, "The body came too slowly."),
        (409, "Ambiguous, running, or elsewhere."),
        (413, "Too large."),
        (414, "The URL is too long."),
        (415, "Not JSON."),
        (422, "A parameter is invalid; `errors` says which."),
        (429, "Too many; wait."),
        (431, "The headers are too long."),
        (503, "The store is away."),
    )
}


def build_app(services: Services | None = None) -> FastAPI:
    """The application; without services, only to describe it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        assert services is not None
        services.hub.attach(asyncio.get_running_loop())
        services.poller.start()
        try:
            yield
        finally:
            await services.verifier.close()
            await asyncio.get_running_loop().run_in_executor(None, services.close)

    app = FastAPI(
        title="Hotloop",
        version=_core.__version__,
        description="Runs, series, live events and episodes of one store.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_ERRORS,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    for part in (routes_runs, routes_series, routes_watch, routes_jobs, routes_sweeps, routes_system):
        app.include_router(part.router, prefix="/api/rl")
    app.include_router(routes_system.root)
    app.add_api_route("/{path:path}", serve_static, methods=["GET"], include_in_schema=False)
    kinds: tuple[type[Exception], ...] = (ProblemError, *KNOWN)
    for error in kinds:
        app.add_exception_handler(error, _explain)
    app.add_exception_handler(RequestValidationError, _explain_invalid)
    app.add_exception_handler(HTTPException, _explain_http)
    app.add_exception_handler(Exception, _explain_defect)
    _describe(app)
    if services is not None:
        app.add_middleware(_Counting, services=services)
        app.add_middleware(Guard, settings=services.settings, sessions=services.sessions)
    return app


def _describe(app: FastAPI) -> None:
    """Add the problem document to the schema, in place of FastAPI's own error models."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = original()
            schemas = schema["components"]["schemas"]
            schemas["Problem"] = base.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for path in schema["paths"].values():
                for operation in path.values():
                    invalid = operation["responses"].get("422", {})
                    invalid["content"] = _ERRORS[422]["content"]
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _explain(request: Request, error: Exception) -> Response:
    return from_error(request, error)


def _explain_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"where": ".".join(map(str, entry["loc"])), "what": entry["msg"]}
        for entry in error.errors()[:20]
    ]  # fmt: skip
    first = errors[0] if errors else {"where": "", "what": "invalid"}
    return problem(request.scope, 422, f"{first['where']}: {first['what']}", errors=errors)


def _explain_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return problem(request.scope, error.status_code, str(error.detail), headers=headers)


def _explain_defect(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(request.scope, 500, "the server has a defect: its log says more")


class _Counting:
    """Counts answers by status."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._counts = services.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[message["status"]] = self._counts.get(message["status"], 0) + 1
            await send(message)

        await self._app(scope, receive, counted)
