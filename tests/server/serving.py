"""A real server in a process of its own, and a client for it."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
def serving(home: Path, *arguments: str, **environment: str) -> Iterator[Server]:
    """A server over a home, until the end."""
    command = [sys.executable, "-m", "hotloop", "serve", "--port", "0", "--json", *arguments]
    own = {**os.environ, "HOTLOOP_HOME": str(home), "HOTLOOP_TOKEN": TOKEN, **environment}
    process = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        facts = json.loads(line)
        yield Server(process, facts["port"], facts["link"])
    finally:
        process.kill()
        process.communicate()


def train(home: Path, *arguments: str, **environment: str) -> str:
    """Train a run in a process of its own; its name."""
    command = [sys.executable, "-m", "hotloop", "train", *arguments, "--json"]
    own = {**os.environ, "HOTLOOP_HOME": str(home), **environment}
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    name: str = json.loads(done.stdout.splitlines()[-1])["run"]
    return name
