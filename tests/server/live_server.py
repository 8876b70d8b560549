"""A real server in a process of its own, and a client for it."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.command import hotloop

TOKEN = "a token for tests, long enough"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    link: str
    host: str = "127.0.0.1"
    headers: dict[str, str] = field(default_factory=dict)
    streams: list["Events"] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60.0
    ) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**kind, **self.headers, **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        """The JSON at a path, which must be there."""
        reply = self.request("GET", path, headers=headers)
        assert reply.status == 200, reply
        return reply.json

    def write(self, method: str, path: str, body: Any = None) -> Reply:
        """A request that carries the token."""
        return self.request(method, path, {} if body is None else body, {"Authorization": f"Bearer {TOKEN}"})

    def stop(self) -> str:
        """End the server as a person would; its messages."""
        self.process.send_signal(signal.SIGTERM)
        _, messages = self.process.communicate(timeout=30)
        return messages


@contextlib.contextmanager
def serving(
    home: Path, *arguments: str, program: Sequence[str] = ("-m", "hotloop"), **environment: str
) -> Iterator[Server]:
    """A server over a home, until the end."""
    command = [sys.executable, *program, "serve", "--port", "0", "--json", *arguments]
    own = {**os.environ, "HOTLOOP_HOME": str(home), "HOTLOOP_TOKEN": TOKEN, **environment}
    process = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        facts = json.loads(line)
        server = Server(process, facts["port"], facts["link"])
        try:
            yield server
        finally:
            for stream in server.streams:
                stream.close()
    finally:
        process.kill()
        process.communicate()


def train(home: Path, *arguments: str, **environment: str) -> str:
    """Train a run in a process of its own; its name."""
    done = hotloop("train", *arguments, "--json", **{"HOTLOOP_HOME": str(home), **environment})
    assert done.returncode == 0, done.stderr
    name: str = json.loads(done.stdout.splitlines()[-1])["run"]
    return name


class Events:
    """A client of the event stream."""

    def __init__(self, server: Server, topics: str, last_id: str | None = None, **query: str) -> None:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        self._connection.request("GET", f"/api/rl/events?topics={topics}{more}", headers=headers)
        self._reply = self._connection.getresponse()
        assert self._reply.status == 200, self._reply.read()
        server.streams.append(self)
        self.last_id = last_id
        self.hello = self.wait("hello")

    def next(self) -> tuple[str, Any]:
        """Type and data of the next event, however long it takes."""
        kind, data = "message", None
        while True:
            line = self._reply.readline().decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data = json.loads(value)
            elif not line and data is not None:
                return kind, data

    def wait(self, kind: str) -> Any:
        """The data of the next event of a type; others are passed over."""
        while True:
            found, data = self.next()
            if found == kind:
                return data

    def close(self) -> None:
        self._reply.close()
        self._connection.close()


def start_training(home: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A run that trains while it is watched; it has begun."""
    command = [sys.executable, "-m", "hotloop", "train", *arguments, "--json"]
    own = {**os.environ, "HOTLOOP_HOME": str(home), **environment}
    process = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    # Nobody reads the rest: it must not fill a pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return process
