"""The gate before every route: each test fails if its guard is removed."""

import hmac
import json
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hotloop.errors import ConfigError
from hotloop.server.guard import MAX_BODY, MOST_WRONG, Sessions
from hotloop.server.settings import find_token
from tests.server.live_server import TOKEN, Reply, Server, serving

ROUTES = ("/", "/healthz", "/assets/x.js", "/api/rl/runs", "/api/rl/events", "/metrics", "/x/../api/rl/status")


def raw(server: Server, text: bytes, *, more: bytes = b"", timeout: float = 60.0) -> bytes:
    """Return the server's response to these bytes."""
    with socket.create_connection((server.host, server.port), timeout=timeout) as connection:
        connection.sendall(text)
        if more:
            connection.sendall(more)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            # It was closed before everything was read: what was sent until then counts.
            assert received
        return received


def status(received: bytes) -> int:
    return int(received.split(b" ", 2)[1])


def with_host(server: Server, path: str, *headers: str) -> int:
    lines = [f"GET {path} HTTP/1.1", *headers, "Connection: close", "", ""]
    return status(raw(server, "\r\n".join(lines).encode()))


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "user@localhost", "localhost.", "10.0.0.1", "[::1", "0.0.0.0"]
)
def test_names_that_others_can_point_here_are_refused(served: Server, path: str, host: str) -> None:
    assert with_host(served, path, f"Host: {host}") == 403


def test_no_host_and_two_hosts_are_refused(served: Server) -> None:
    assert status(raw(served, b"GET /api/rl/runs HTTP/1.0\r\n\r\n")) == 403
    assert with_host(served, "/api/rl/runs") == 400
    assert with_host(served, "/api/rl/runs", "Host: localhost", "Host: evil.example") == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:8765", "LOCALHOST:1234", "127.1.2.3"])
def test_a_tunnel_to_this_machine_is_allowed(served: Server, host: str) -> None:
    assert with_host(served, "/api/rl/runs", f"Host: {host}") == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost:5"])
def test_pages_of_other_origins_are_refused(served: Server, origin: str) -> None:
    assert with_host(served, "/api/rl/runs", "Host: localhost:5", f"Origin: {origin}") == 403


def test_the_own_page_is_allowed(served: Server) -> None:
    assert with_host(served, "/api/rl/runs", "Host: localhost:5", "Origin: http://localhost:5") == 200


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Authorization": ""}, 401),
    ],
)
def test_requests_that_other_pages_can_make_change_nothing(
    served: Server, headers: dict[str, str], refusal: int
) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    reply = served.request("PATCH", "/api/rl/runs/other", {"note": "changed"}, {**good, **headers})
    assert reply.status == refusal
    assert served.get("/api/rl/runs/other")["note"] == ""


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/api/rl/runs/other"),
        ("DELETE", "/api/rl/runs/other"),
        ("POST", "/api/rl/runs/other/play"),
        ("POST", "/api/rl/runs/other/stop"),
        ("POST", "/api/rl/runs/other/verify"),
        ("POST", "/api/rl/alerts/1/seen"),
    ],
)
def test_every_change_needs_the_token(served: Server, method: str, path: str) -> None:
    assert served.request(method, path, {}).status == 401
    assert served.get("/api/rl/runs/other")["name"] == "other"


def test_a_read_only_server_refuses_changes_even_with_the_token(trained: Path) -> None:
    with serving(trained, "--read-only") as server:
        assert server.write("PATCH", "/api/rl/runs/other", {"note": "x"}).status == 403
        assert server.get("/api/rl/runs/other")["note"] == ""
        assert server.request("POST", "/api/rl/series", {"run": ["other"], "metric": ["kl"]}).status == 200


def test_other_addresses_need_a_token_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOTLOOP_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="needs a token"):
        find_token(tmp_path, is_local=False)
    command = [sys.executable, "-m", "hotloop", "serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, env={"HOTLOOP_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "needs a token" in done.stderr


def test_the_token_of_a_home_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOTLOOP_TOKEN", raising=False)
    token = find_token(tmp_path, is_local=True)
    assert len(token) >= 40
    assert find_token(tmp_path, is_local=False) == token
    assert stat.S_IMODE((tmp_path / "server-token").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["server-token"]
    monkeypatch.setenv("HOTLOOP_TOKEN", "short")
    with pytest.raises(ConfigError, match="too short"):
        find_token(tmp_path, is_local=True)


@pytest.fixture(scope="module")
def public(trained: Path) -> Iterator[Server]:
    """A server that other machines could reach."""
    with serving(trained, "--host", "0.0.0.0", "--allow-host", "runs.example.org") as server:
        yield server


@pytest.mark.parametrize("path", [*ROUTES, "/openapi.json", "/api/rl/status", "/nothing"])
def test_a_public_server_shows_nothing_without_the_token(public: Server, path: str) -> None:
    assert public.request("GET", path).status == (200 if path == "/healthz" else 401)


def test_a_public_server_shows_everything_with_the_token(public: Server) -> None:
    assert public.get("/api/rl/runs", Authorization=f"Bearer {TOKEN}")["total"] == 3


def test_the_name_of_a_reverse_proxy_is_allowed_with_either_scheme(public: Server) -> None:
    for scheme in ("http", "https"):
        headers = ("Host: runs.example.org", f"Origin: {scheme}://runs.example.org", f"Authorization: Bearer {TOKEN}")
        assert with_host(public, "/api/rl/runs", *headers) == 200
    assert with_host(public, "/api/rl/runs", "Host: other.example.org", f"Authorization: Bearer {TOKEN}") == 403


def cookie_of(reply: Reply) -> str:
    text = reply.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in text.split(";")}
    (morsel,) = SimpleCookie(text).values()
    assert TOKEN not in text
    return f"{morsel.key}={morsel.value}"


def test_the_printed_link_signs_a_browser_in_once(trained: Path) -> None:
    with serving(trained, "--host", "0.0.0.0") as server:
        query = urlsplit(server.link).query
        first = server.request("GET", f"/runs?{query}&sort=-best")
        assert (first.status, first.headers["location"]) == (303, "/runs?sort=-best")
        headers = {"Cookie": cookie_of(first)}
        assert server.request("GET", "/api/rl/status", headers=headers).json["can_write"] is True
        assert server.request("GET", f"/?{query}").status == 401
        code = query.removeprefix("code=")
        assert server.request("POST", "/api/rl/session", {"code": code}).status == 401
        forged = headers["Cookie"][:-4] + "0000"
        assert server.request("GET", "/api/rl/status", headers={"Cookie": forged}).status == 401


def test_the_link_never_leads_to_another_host(trained: Path) -> None:
    with serving(trained) as server:
        query = urlsplit(server.link).query
        reply = server.request("GET", f"//evil.example/?{query}")
        assert reply.headers["location"].startswith("/")
        assert not reply.headers["location"].startswith("//")


def test_a_code_dies_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("hotloop.server.guard.time.monotonic", lambda: now)
    sessions = Sessions(TOKEN)
    early, late = sessions.make_code(), sessions.make_code()
    now += 59.0
    assert sessions.use_code(early)
    now += 2.0
    assert not sessions.use_code(late)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr("hotloop.server.guard.hmac.compare_digest", compare)
    sessions = Sessions(TOKEN)
    code = sessions.make_code()
    assert sessions.has_token(TOKEN)
    assert not sessions.has_token("wrong")
    assert sessions.use_code(code)
    assert not sessions.has_cookie("a.b")
    assert len(compared) == 4


def test_wrong_tokens_are_not_looked_at_for_ever(trained: Path) -> None:
    with serving(trained) as server:
        wrong = {"Authorization": "Bearer wrong"}
        found = [server.request("GET", "/api/rl/runs", headers=wrong).status for _ in range(MOST_WRONG + 1)]
        assert found == [401] * MOST_WRONG + [429]
        last = server.request("POST", "/api/rl/session", {"token": TOKEN})
        assert (last.status, last.headers["retry-after"]) == (429, "60")
        assert server.get("/api/rl/runs")["total"] == 3
        assert "wrong" not in server.stop()


def test_nothing_is_logged_that_signs_in(trained: Path) -> None:
    with serving(trained) as server:
        code = urlsplit(server.link).query.removeprefix("code=")
        server.request("GET", f"/?code={code}")
        server.request("GET", "/api/rl/runs", headers={"Authorization": f"Bearer {TOKEN}"})
        messages = server.stop()
        assert TOKEN not in messages
        assert code not in messages


@pytest.mark.parametrize("path", ["/", "/api/rl/runs", "/api/rl/nothing", "/metrics"])
def test_every_answer_forbids_what_pages_do_not_need(served: Server, path: str) -> None:
    headers = served.request("GET", path).headers
    assert headers["content-security-policy"].startswith("default-src 'self'; style-src 'self'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


WRITING = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"


def test_large_bodies_are_refused_before_they_are_read(served: Server) -> None:
    head = f"PATCH /api/rl/runs/other HTTP/1.1\r\n{WRITING}Content-Length: {1 << 30}\r\n\r\n".encode()
    with socket.create_connection((served.host, served.port), timeout=60) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent < 100 * MAX_BODY:
                connection.sendall(b" " * 65536)
                sent += 65536
        except OSError:
            pass  # the server has closed the connection
        assert sent < 100 * MAX_BODY
    reply = served.request("PATCH", "/api/rl/runs/other", b" " * (MAX_BODY + 1), {"Authorization": f"Bearer {TOKEN}"})
    assert reply.status == 413


def test_bodies_without_end_are_refused(served: Server) -> None:
    head = f"PATCH /api/rl/runs/other HTTP/1.1\r\n{WRITING}Transfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert status(raw(served, head, more=chunk * 5)) == 413


def test_deeply_nested_bodies_are_refused(served: Server) -> None:
    body = b'{"tags": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    assert served.request("PATCH", "/api/rl/runs/other", body, {"Authorization": f"Bearer {TOKEN}"}).status in (
        400,
        422,
    )


IMPATIENT = """
from hotloop.__main__ import main
from hotloop.server import guard, http_server

guard.BODY_SECONDS = http_server.HEADERS_WITHIN = 0.5
main()
"""


def test_slow_clients_are_cut_off(trained: Path) -> None:
    with serving(trained, program=("-c", IMPATIENT)) as server:
        for start, answer in (
            (b"GET /api/rl/runs HTTP/1.1\r\nHost: loc", None),
            (f"PATCH /api/rl/runs/other HTTP/1.1\r\n{WRITING}Content-Length: 10\r\n\r\n{{".encode(), 408),
        ):
            with socket.create_connection((server.host, server.port), timeout=60) as connection:
                connection.sendall(start)
                received = connection.recv(65536)
                assert (status(received) if received else None) == answer


def test_huge_headers_and_addresses_are_refused(served: Server) -> None:
    assert with_host(served, "/api/rl/runs", "Host: localhost", "X-Long: " + "x" * 70_000) == 431
    assert with_host(served, "/api/rl/runs?q=" + "x" * 20_000, "Host: localhost") == 414


def test_sql_takes_values_as_parameters_only(repository: Path) -> None:
    """No value is formatted into a statement: in braces stand names of tables and conditions made of question marks."""
    allowed = re.compile(
        r"\{(?:', '\.join\([^{}]*\)|KEY_NUMBER|_ALERTS|seen|window|along|points|bucket|order|behind|table|marks|"
        r"where|kept|condition|columns|values|replacing|rest|name|_SEEN|_RECORDED|expression|fields|names?)\}"
    )
    for path in sorted((repository / "python" / "hotloop" / "tracking").glob("*.py")):
        for literal in re.findall(r'f"((?:[^"\\]|\\.)*(?:SELECT|DELETE|UPDATE|INSERT|WHERE)[^"]*)"', path.read_text()):
            rest = allowed.sub("", literal)
            assert "{" not in rest, f"{path.name}: {literal}"


def test_the_api_never_speaks_sql(repository: Path) -> None:
    for path in (repository / "python" / "hotloop" / "server").glob("*.py"):
        assert not re.search(r"\bSELECT\b|\bDELETE FROM\b|\bINSERT INTO\b", path.read_text()), path


def test_errors_have_no_paths_and_no_tracebacks(served: Server, trained: Path) -> None:
    for path in ("/api/rl/runs/none", "/api/rl/runs?where=x", "/api/rl/series?run=none&metric=kl", "/api/rl/compare"):
        text = served.request("GET", path).body.decode()
        assert json.loads(text)["detail"]
        assert "Traceback" not in text
        assert str(Path(__file__).parents[2]) not in text
