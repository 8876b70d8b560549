"""A real PostgreSQL server on loopback, for the time of some tests."""

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


def program(name: str) -> str | None:
    """Where one of PostgreSQL's programs is; Debian keeps them out of the path."""
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found or (str(places[-1]) if places else None)


def is_installed() -> bool:
    return program("initdb") is not None and program("pg_ctl") is not None


@dataclass
class Server:
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def new_database(self) -> str:
        """The address of a fresh database."""
        import psycopg

        name = f"test_{secrets.token_hex(4)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url.replace("/postgres", f"/{name}")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        log = self.folder / "log"
        self._control("start", "-w", "-o", options, "-l", str(log))

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def _control(self, *arguments: str) -> None:
        path = program("pg_ctl")
        assert path is not None
        run_as_nobody([path, "-D", str(self.folder / "data"), *arguments], self.folder)


def run_as_nobody(command: list[str], folder: Path) -> None:
    """PostgreSQL refuses to run as root."""
    # Not captured by a pipe: the server inherits the output, and would keep it open.
    with (folder / "output").open("a") as output:
        who = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.geteuid() == 0 else {}
        done = subprocess.run(
            command, stdout=output, stderr=output, cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **who
        )  # type: ignore[call-overload]
    assert done.returncode == 0, (folder / "output").read_text()


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A fresh server, and its end."""
    with tempfile.TemporaryDirectory(prefix="hotloop-pg-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (folder / "output").touch()
        initdb = program("initdb")
        assert initdb is not None
        run_as_nobody([initdb, "-D", str(folder / "data"), "-U", "tester", "-A", "trust", "--no-sync"], folder)
        server = Server(folder, port)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(AssertionError):
                server.stop()
