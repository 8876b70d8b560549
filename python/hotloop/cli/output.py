"""What commands print: data to standard output, words for people to standard error once the data is JSON."""

import json
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake of the person at the keyboard, told in one line without a traceback."""

    exit_code = 2

    def format_message(self) -> str:
        """The line."""
        return str(self)


def emit(event: str, **facts: object) -> None:
    """Print one line of JSON. Every command with `--json` prints such lines only, and `end` as the last."""
    print(json.dumps({"event": event, **facts}, allow_nan=False), flush=True)


def tell(message: str) -> None:
    """Say something to the person that is not data."""
    print(message, file=sys.stderr, flush=True)


def check_env_name(name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known, with the nearest one that is."""
    known = list(known)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; 'hotloop envs' lists them"
        raise UserError(f"there is no env {name!r}{hint}")


def known_env(name: str, known: Iterable[str]) -> str:
    """The whole name of an env that is native or brings its code, which is loaded; refuses others."""
    from hotloop.envs.loader import brings_code, load_env, whole_name

    if not brings_code(whole_name(name)):
        check_env_name(name, known)
        return name
    try:
        return load_env(name)
    except ValueError as error:
        raise UserError(str(error)) from None


def whole_numbers(text: str | None, option: str) -> list[int]:
    """The numbers of a list like `1,4096`; none if nothing was said."""
    numbers = []
    for part in [] if text is None else text.split(","):
        if not part.strip().isdecimal() or int(part) < 1:
            raise UserError(f"{option} is {text!r}: expected whole numbers from 1, separated by commas")
        numbers.append(int(part))
    return numbers
