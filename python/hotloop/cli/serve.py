"""`hotloop serve`: the API and the dashboard over one store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Annotated

import typer

from hotloop.cli.output import UserError, emit, tell

INSTALL = "pip install 'hotloop[dashboard]'"


def serve(
    port: Annotated[int, typer.Option(metavar="N", help="Port; if it is taken, the next free one.")] = 8765,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="A file or postgresql://...; else HOTLOOP_STORE.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse everything that changes anything.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further host name, such as a reverse proxy's.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the description of the API and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
) -> None:
    """Serve the dashboard and the API over a store.

    \b
      hotloop serve
      hotloop serve --open
      hotloop serve --host 0.0.0.0 --allow-host runs.example.org
      hotloop serve --openapi > openapi.json

    It listens on this machine only. The printed link signs a browser in, once
    and within a minute; reading needs no sign-in, changes do. On any other
    address every request needs the token: HOTLOOP_TOKEN, or the one in
    HOTLOOP_HOME/server-token, as 'Authorization: Bearer TOKEN'.
    """
    check_installed()
    if openapi:
        from hotloop.server.app import build_app

        json.dump(build_app().openapi(), sys.stdout, indent=1)
        print()
        return
    if not 0 <= port < 65536:
        raise UserError(f"--port is {port}: expected 0 to 65535")
    from hotloop.errors import ConfigError, StoreError
    from hotloop.server.http_server import bind
    from hotloop.server.http_server import serve as run
    from hotloop.server.settings import Settings, find_token, is_loopback
    from hotloop.training.runs import home

    if end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        token = find_token(home(), is_local=is_loopback(host))
        listener, bound = bind(host, port)
        if port not in (0, bound):
            tell(f"port {port} is taken: using {bound}")
        hosts = tuple(name.lower() for name in allow_host or [])
        settings = Settings(home(), token, store, host, bound, read_only=read_only, allow_hosts=hosts)

        def ready(code: str) -> None:
            url = f"http://{_shown(host)}:{bound}/"
            if as_json:
                emit("serving", url=url, link=f"{url}?code={code}", port=bound)
            else:
                print(f"Dashboard: {url}?code={code}\n(the code signs a browser in, within a minute; Ctrl-C ends)")
                sys.stdout.flush()
            if open_browser:
                import webbrowser

                webbrowser.open(f"{url}?code={code}")

        run(settings, listener, ready)
    except (ConfigError, StoreError) as error:
        raise UserError(str(error)) from None
    if as_json:
        emit("end", url=f"http://{_shown(host)}:{bound}/")


def _end_with_stdin() -> None:
    """End the server when the process that started it is gone, however it ended."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


class Beside:
    """A server beside a run, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str] | None, url: str = "") -> None:
        self._process = process
        self._url = url

    def wait(self) -> None:
        """Keep the server, if there is one, until Ctrl-C."""
        if self._process is not None:
            tell(f"The dashboard stays at {self._url} until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                self._process.wait()


@contextlib.contextmanager
def run_beside(store: str | None, *, wanted: bool) -> Iterator[Beside]:
    """Start a server if one is wanted, and end it at the end."""
    if not wanted:
        yield Beside(None)
        return
    check_installed()
    command = [sys.executable, "-m", "hotloop", "serve", "--json", "--end-with-stdin"]
    if store is not None:
        command += ["--store", store]
    pipe = subprocess.PIPE
    # In a session of its own: Ctrl-C is for the run.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise UserError("the server did not start")
            facts = json.loads(line)
            tell(f"Dashboard: {facts['link']}")
            yield Beside(process, facts["url"])
        finally:
            process.terminate()


def check_installed() -> None:
    """Reject a machine without the packages of the server."""
    from importlib.util import find_spec

    for name in ("fastapi", "orjson", "prometheus_client", "uvicorn"):
        if find_spec(name) is None:
            raise UserError(f"this needs the package {name}: {INSTALL}")


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host
