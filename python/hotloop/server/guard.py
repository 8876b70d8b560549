"""The gate before every route: who may connect, with which requests, of which size.

DNS rebinding is stopped by the Host header, cross-site requests by Origin, content type and fetch metadata, other
users of the machine by the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections import deque
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode

from starlette.responses import RedirectResponse, Response

from hotloop.server.problems import problem
from hotloop.server.settings import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hotloop.server.settings import Settings

MAX_BODY: Final = 256 * 1024
MAX_URL: Final = 16 * 1024
MAX_HEADERS: Final = 64 * 1024
BODY_SECONDS: Final = 10.0
CODE_SECONDS: Final = 60.0
# Wrong tokens of one address within a minute, after which more are not looked at.
MOST_WRONG: Final = 10
_MINUTE: Final = 60.0
SESSION_PATH: Final = "/api/rl/session"
_OPEN_PATHS: Final = ("/healthz", SESSION_PATH)
_SAFE: Final = ("GET", "HEAD", "OPTIONS", "TRACE")
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Sessions:
    """Who has the token: by the header, by a cookie, or by a code that works once."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._codes: dict[str, float] = {}
        self._wrong: dict[str, deque[float]] = {}

    def make_code(self) -> str:
        """A code for a link: it works once, for a minute."""
        code = secrets.token_urlsafe(18)
        self._codes[code] = time.monotonic() + CODE_SECONDS
        return code

    def use_code(self, code: str) -> bool:
        """Whether a code is one that was made, is not too old and was not used."""
        now = time.monotonic()
        self._codes = {known: until for known, until in self._codes.items() if until > now}
        found = [known for known in self._codes if hmac.compare_digest(known.encode(), code.encode())]
        for known in found:
            del self._codes[known]
        return bool(found)

    def has_token(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(self._token.encode(), given.encode("utf-8", "surrogateescape"))

    def has_cookie(self, given: str) -> bool:
        """Whether this is the cookie of a session."""
        name, _, signature = given.partition(".")
        return hmac.compare_digest(self._sign(name).encode(), signature.encode("utf-8", "surrogateescape"))

    def _sign(self, name: str) -> str:
        # Other servers on this machine see the cookie: it must not be the token. It outlives a restart.
        return hmac.new(self._token.encode(), f"session {name}".encode(), hashlib.sha256).hexdigest()

    def set_cookie(self, response: Response, port: int) -> None:
        """Make the client's next requests part of a new session."""
        name = secrets.token_hex(8)
        value = f"{name}.{self._sign(name)}"
        response.set_cookie(cookie_name(port), value, max_age=30 * 86400, path="/", httponly=True, samesite="strict")

    def is_blocked(self, client: str) -> bool:
        """Whether an address has sent too many wrong tokens."""
        wrong = self._wrong.get(client)
        if wrong is None:
            return False
        while wrong and wrong[0] < time.monotonic() - _MINUTE:
            wrong.popleft()
        if not wrong:
            del self._wrong[client]
        return len(wrong) >= MOST_WRONG

    def note_wrong(self, client: str) -> None:
        """Count a wrong token of an address."""
        if client not in self._wrong and len(self._wrong) >= 1000:
            self._wrong.pop(next(iter(self._wrong)))
        self._wrong.setdefault(client, deque(maxlen=MOST_WRONG)).append(time.monotonic())


def cookie_name(port: int) -> str:
    """The cookie's name; servers on other ports of the same host have their own."""
    return f"hotloop-{port}"


class Guard:
    """ASGI middleware that refuses requests before any route sees them, and adds the headers of every answer."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no route is a WebSocket: the connection is closed

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(entry for entry in more if entry[0] not in known)]
            await send(message)

        refusal = self._refuse(scope)
        if refusal is None and scope["method"] not in _SAFE:
            body = await _read_body(scope, receive)
            if isinstance(body, Response):
                refusal = body
            else:
                receive = _replay(body, receive)
        await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        """The answer to a request that must not reach a route."""
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL:
            return problem(scope, 414, f"the URL is longer than {MAX_URL} bytes: POST /series takes a body")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
            return problem(scope, 431, f"the headers are longer than {MAX_HEADERS} bytes")
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        return (
            self._refuse_host(scope, headers)
            or self._refuse_write(scope, headers)
            or self._exchange_code(scope)
            or self._refuse_stranger(scope, headers)
        )

    def _refuse_host(self, scope: Scope, headers: dict[str, list[str]]) -> Response | None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_allowed(hosts[0], scope):
            return problem(
                scope, 403, "the Host header names no host of this server: connect by address, or pass --allow-host"
            )
        for origin in headers.get("origin", []):
            schemes = ("http", "https") if _name(hosts[0]) in self._settings.allow_hosts else ("http",)
            if origin not in [f"{scheme}://{hosts[0]}" for scheme in schemes]:
                return problem(scope, 403, "requests of other sites' pages are refused (Origin)")
        return None

    def _is_allowed(self, host: str, scope: Scope) -> bool:
        name = _name(host)
        if name is None:
            return False
        if is_loopback(name) or name in self._settings.allow_hosts:
            return True
        bound = (scope.get("server") or ("",))[0]
        try:
            return ipaddress.ip_address(name) == ipaddress.ip_address(bound)
        except ValueError:
            return False

    def _refuse_write(self, scope: Scope, headers: dict[str, list[str]]) -> Response | None:
        if scope["method"] in _SAFE:
            return None
        if self._settings.read_only and scope["path"] not in _READING_POSTS:
            return problem(scope, 403, "this server is read-only")
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            return problem(scope, 403, "requests of other sites' pages are refused (Sec-Fetch-Site)")
        kinds = [kind.partition(";")[0].strip().lower() for kind in headers.get("content-type", [])]
        if kinds != ["application/json"]:
            return problem(scope, 415, "expected Content-Type: application/json")
        if headers.get("content-encoding"):
            return problem(scope, 415, "compressed bodies are refused (Content-Encoding)")
        return None

    def _exchange_code(self, scope: Scope) -> Response | None:
        """Sign in by the printed link, and lead to the same address without the code."""
        if scope["method"] != "GET" or scope["path"].startswith("/api/") or b"code=" not in scope["query_string"]:
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        code = query.pop("code", [""])[0]
        if not self._sessions.use_code(code):
            return None
        rest = f"?{urlencode(query, doseq=True)}" if query else ""
        # The path is the router's own: it cannot lead to another host.
        response = RedirectResponse(f"/{scope['path'].lstrip('/')}{rest}", 303, {"Cache-Control": "no-store"})
        self._sessions.set_cookie(response, _port(scope))
        return response

    def _refuse_stranger(self, scope: Scope, headers: dict[str, list[str]]) -> Response | None:
        client = (scope.get("client") or ("",))[0]
        authorised, session = False, ""
        given = [text.partition(" ") for text in headers.get("authorization", [])]
        if given:
            if self._sessions.is_blocked(client):
                return problem(scope, 429, "too many wrong tokens: wait a minute", headers={"Retry-After": "60"})
            authorised = all(kind.lower() == "bearer" and self._sessions.has_token(token) for kind, _, token in given)
            if not authorised:
                self._sessions.note_wrong(client)
                return _unauthorised(scope, "the token is wrong")
        elif cookie := _read_cookie(headers, cookie_name(_port(scope))):
            authorised = self._sessions.has_cookie(cookie)
            session = cookie if authorised else ""
        scope.setdefault("state", {}).update(authorised=authorised, session=session)
        if authorised or scope["path"] in _OPEN_PATHS:
            return None
        if not self._settings.is_local:
            return _unauthorised(scope, "this server needs its token")
        if scope["method"] not in _SAFE and scope["path"] not in _READING_POSTS:
            return _unauthorised(scope, "changes need the server's token")
        return None


# Routes that take their parameters as a body, and change nothing.
_READING_POSTS: Final = ("/api/rl/series", SESSION_PATH)


def _unauthorised(scope: Scope, why: str) -> Response:
    detail = f"{why}: open the link that 'hotloop serve' printed, or send Authorization: Bearer TOKEN"
    return problem(scope, 401, detail, headers={"WWW-Authenticate": "Bearer"})


def _name(host: str) -> str | None:
    """The name or address in a Host header, without its port; `None` if it is malformed."""
    found = _HOST.fullmatch(host)
    return None if found is None else found[1].strip("[]").lower()


def _port(scope: Scope) -> int:
    return int((scope.get("server") or ("", 0))[1] or 0)


def _read_cookie(headers: dict[str, list[str]], name: str) -> str | None:
    for text in headers.get("cookie", []):
        try:
            found = SimpleCookie(text).get(name)
        except CookieError:
            continue
        if found is not None:
            return found.value
    return None


async def _read_body(scope: Scope, receive: Receive) -> bytes | Response:
    """The whole body, or the refusal of one that is too long or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return b""
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MAX_BODY:
                    too_long = f"the body is longer than {MAX_BODY} bytes"
                    return problem(scope, 413, too_long, headers={"Connection": "close"})
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        too_slow = f"the body did not arrive within {BODY_SECONDS:.0f} s"
        return problem(scope, 408, too_slow, headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read before; what follows it comes from the client."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
