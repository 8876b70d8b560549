"""Standard output and error that may break: pipes are closed, disks fill, terminals go away.

A command whose output is its result stops with one line (or quietly, when the reader of a pipe has seen enough).
Training goes on: nobody loses a run because of a lost terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, Final, TextIO

from hotloop.cli.output import UserError

# The exit code that shells report for a program ended by SIGPIPE.
BROKEN_PIPE: Final = 141


class ReaderGoneError(Exception):
    """The reader of a pipe has closed it. Not a `BrokenPipeError`: libraries handle those in ways of their own."""


class Output:
    """A text stream whose first write error is either raised or, if `is_optional`, ends the output for good."""

    def __init__(self, stream: TextIO, name: str, *, is_optional: bool) -> None:
        self._stream = stream
        self._name = name
        self.is_optional = is_optional

    def write(self, text: str) -> int:
        """Write text; return its length even if it was dropped."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        # From here on everything goes to /dev/null, also what is still buffered and what is flushed at exit.
        with contextlib.suppress(OSError, io.UnsupportedOperation):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        reason = error.strerror or str(error)
        if self.is_optional:
            if self._name == "standard output":
                print(f"hotloop: cannot write to standard output ({reason}); the run goes on.", file=sys.stderr)
        elif isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        else:
            raise UserError(f"cannot write to {self._name}: {reason}") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_streams() -> None:
    """Make both standard streams usable whatever they are: closed, broken, or unable to encode a character."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # A file opened later must not take the number of a standard stream.
            os.open(os.devnull, os.O_RDWR)
    for name, title in (("stdout", "standard output"), ("stderr", "standard error")):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # lives as long as the process
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        setattr(sys, name, Output(stream, title, is_optional=name == "stderr"))


def make_output_optional() -> None:
    """Go on without standard output when it breaks."""
    if isinstance(sys.stdout, Output):
        sys.stdout.is_optional = True


def can_encode(text: str) -> bool:
    """Whether standard output can show this text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
