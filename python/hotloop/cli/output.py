"""Output of commands: data on standard output, messages for people on standard error."""

import json
import sys
from collections.abc import Iterable
from difflib import get_close_matches

from hotloop.text import parse_number


class UserError(Exception):
    """A mistake of the user, reported in one line without a traceback."""

    exit_code = 2

    def format_message(self) -> str:
        """Return the line."""
        return _printable(str(self))


def emit(event: str, **facts: object) -> None:
    """Print one line of JSON. With `--json` a command prints only such lines, `end` as the last."""
    print(json.dumps({"event": event, **facts}, allow_nan=False), flush=True)


def tell(message: str) -> None:
    """Print a message for people, which is not data."""
    print(_printable(message), file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print text that may come from files of others: no control character reaches the terminal."""
    print(_printable(text))


def _printable(text: str) -> str:
    from hotloop.text import printable

    return "\n".join(map(printable, text.split("\n")))


def check_env_name(name: str, known: Iterable[str]) -> None:
    """Reject an unknown name and suggest the nearest known one."""
    known = list(known)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; 'hotloop envs' lists them"
        raise UserError(f"there is no env {name!r}{hint}")


def known_env(name: str, known: Iterable[str]) -> str:
    """Return the full name of a native env, or of one whose code is loaded here; reject others."""
    from hotloop.envs.loader import brings_code, load_env, whole_name

    if not brings_code(whole_name(name)):
        check_env_name(name, known)
        return name
    try:
        return load_env(name)
    except ValueError as error:
        raise UserError(str(error)) from None


def whole_numbers(text: str | None, option: str) -> list[int]:
    """Parse a list such as `1,4096`; return an empty list for None."""
    numbers = []
    for part in [] if text is None else text.split(","):
        if not part.strip().isdecimal() or int(part) < 1:
            raise UserError(f"{option} is {text!r}: expected whole numbers from 1, separated by commas")
        numbers.append(int(part))
    return numbers


def count(text: str | int) -> int:
    """Parse a count such as `200000`, `1e6`, `100k` or `2M`; a default value is a number already.

    >>> [count(text) for text in ("1e6", "100k", "2M", "1000")]
    [1000000, 100000, 2000000, 1000]
    """
    value = parse_number(str(text))
    if isinstance(value, str):
        raise UserError(f"{text!r} is not a number: expected one such as 200000, 1e6, 100k or 2M")
    if int(value) != value:
        raise UserError(f"{text!r} is not a whole number")
    return int(value)
