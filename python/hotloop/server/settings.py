"""Settings of a server: where it listens, what it serves and who may use it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hotloop.errors import ConfigError

TOKEN_FILE: Final = "server-token"
_SHORTEST_TOKEN: Final = 16


@dataclass(frozen=True)
class Settings:
    """Settings of a server."""

    home: Path
    token: str = field(repr=False)
    store: str | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    read_only: bool = False
    allow_hosts: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect; then reading needs no token."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address always means this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "127.0.0.1.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def find_token(home: Path, *, is_local: bool) -> str:
    """The token: `HOTLOOP_TOKEN`, or that of the home, which is made for a server that only this machine can reach."""
    given = os.environ.get("HOTLOOP_TOKEN")
    if given is not None:
        if len(given) < _SHORTEST_TOKEN:
            raise ConfigError(f"HOTLOOP_TOKEN is too short: expected {_SHORTEST_TOKEN} characters or more")
        return given
    path = home / TOKEN_FILE
    with contextlib.suppress(FileNotFoundError):
        if token := path.read_text().strip():
            return token
    if not is_local:
        raise ConfigError(
            "a server that other machines can reach needs a token: set HOTLOOP_TOKEN, or run "
            f"'hotloop serve' once on this machine alone, which writes one to {path}"
        )
    token = secrets.token_urlsafe(32)
    home.mkdir(parents=True, exist_ok=True)
    # Created with its mode, so that there is no moment at which others can read it.
    temporary = path.with_name(f".{TOKEN_FILE}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{token}\n".encode())
    finally:
        os.close(handle)
    try:
        # Of two servers that start at once, one writes it.
        os.link(temporary, path)
    except FileExistsError:
        token = path.read_text().strip()
    finally:
        temporary.unlink()
    return token
