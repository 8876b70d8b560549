"""Ways to damage a file: bytes, lines, hostile JSON and YAML, and things that are no files at all."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Path, Random], None]


def flip_bit(path: Path, random: Random) -> None:
    """Flip one bit, half of the time in the first bytes, where headers and sizes are."""
    data = bytearray(path.read_bytes())
    at = random.randrange(min(16, len(data)) if random.random() < 0.5 else len(data))
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def flip_bytes(path: Path, random: Random) -> None:
    """Replace some bytes by others."""
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 20)):
        data[random.randrange(len(data))] = random.randrange(256)
    path.write_bytes(data)


def change_digit(path: Path, random: Random) -> None:
    """Change one decimal digit: what remains is still readable."""
    data = bytearray(path.read_bytes())
    digits = [at for at, byte in enumerate(data) if chr(byte).isdecimal()]
    if digits:
        at = random.choice(digits)
        data[at] = random.choice([digit for digit in b"0123456789" if digit != data[at]])
    path.write_bytes(data)


def truncate(path: Path, random: Random) -> None:
    """Cut the file short."""
    path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size)])


def empty(path: Path, random: Random) -> None:
    """Leave nothing in the file."""
    path.write_bytes(b"")


def append(path: Path, random: Random) -> None:
    """Add bytes at the end."""
    path.write_bytes(path.read_bytes() + random.choice([b"\0" * 4096, random.randbytes(100), b"}\n", b"{}\n"]))


def zero(path: Path, random: Random) -> None:
    """Set a range to zero, as a file system does with blocks that were never written."""
    data = bytearray(path.read_bytes())
    start = random.randrange(len(data))
    end = min(len(data), start + random.choice([1, 64, 4096]))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def remove(path: Path, random: Random) -> None:
    """Remove the file."""
    path.unlink()


def remove_line(path: Path, random: Random) -> None:
    """Remove one line, often the first."""
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[0 if random.random() < 0.3 else random.randrange(len(lines))]
    path.write_bytes(b"".join(lines))


def duplicate_line(path: Path, random: Random) -> None:
    """Write one line twice."""
    lines = path.read_bytes().splitlines(keepends=True)
    at = random.randrange(len(lines))
    path.write_bytes(b"".join([*lines[:at], lines[at], *lines[at:]]))


def swap_lines(path: Path, random: Random) -> None:
    """Exchange two lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    path.write_bytes(b"".join(lines))


# As JSON text: some of it no JSON by the standard, all of it accepted by one reader or another.
HOSTILE = (
    "null",
    "true",
    "-1",
    "4611686018427387904",
    "1e400",
    "NaN",
    "-Infinity",
    "0.5",
    "9" * 5000,
    '""',
    '"\\ud800"',
    '"\\u001b]0;title\\u0007\\u001b[2Jtext"',
    '"../../../etc/passwd"',
    '"' + "x" * 100_000 + '"',
    "[]",
    "{}",
    "[[[]]]",
    '{"a": {"a": []}}',
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
    "[" + "0," * 100_000 + "0]",
)


def hostile_value(path: Path, random: Random) -> None:
    """Put a hostile value in the place of one in the file's JSON, or in that of one of its lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    whole = path.suffix != ".jsonl"
    at = 0 if random.random() < 0.3 else random.randrange(len(lines))
    text = path.read_bytes() if whole else lines[at]
    changed = _changed(json.loads(text), random).encode(errors="surrogatepass")
    path.write_bytes(changed if whole else b"".join([*lines[:at], changed + b"\n", *lines[at + 1 :]]))


def remove_key(path: Path, random: Random) -> None:
    """Remove a key from the file's JSON, or from that of one of its lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    whole = path.suffix != ".jsonl"
    at = random.randrange(len(lines))
    value = json.loads(path.read_bytes() if whole else lines[at])
    holder, key = random.choice([place for place in _places(value) if isinstance(place[0], dict)])
    del holder[key]
    changed = json.dumps(value).encode()
    path.write_bytes(changed if whole else b"".join([*lines[:at], changed + b"\n", *lines[at + 1 :]]))


def hostile_document(path: Path, random: Random) -> None:
    """Replace all of the file by a hostile value."""
    path.write_text(random.choice(HOSTILE) + "\n")


def hostile_yaml(path: Path, random: Random) -> None:
    """Replace a line of YAML by a hostile one."""
    lines = path.read_text().splitlines()
    at = random.randrange(len(lines))
    key = lines[at].partition(":")[0]
    aliases = "[&a [x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c]]"
    values = (*HOSTILE, "!!python/object/apply:os.system ['touch marker']", aliases, "*unknown", "{", "@", "\t- x")
    more = ("[" * 60_000, "- " * 60_000, "&a [*a]", "2001-13-01")
    lines[at] = f"{key}: {random.choice((*values, *more))}"
    path.write_text("\n".join(lines) + "\n")


def _changed(value: Any, random: Random) -> str:
    """The value as JSON text with one of its parts replaced."""
    mark = "<replaced here>"
    places = list(_places(value))
    if not places:
        return random.choice(HOSTILE)
    holder, key = random.choice(places)
    holder[key] = mark
    return json.dumps(value).replace(json.dumps(mark), random.choice(HOSTILE))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every part of a JSON value, as its holder and its key or index."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def fifo(path: Path, random: Random) -> None:
    """Put a FIFO in its place: a reader waits for a writer that never comes."""
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, random: Random) -> None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()


def unix_socket(path: Path, random: Random) -> None:
    """Put a socket in its place."""
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket must be short.
        short = Path(f"/tmp/hotloop-{os.getpid()}-{random.getrandbits(40):x}")
        made.bind(str(short))
        shutil.move(short, path)


def link(path: Path, random: Random) -> None:
    """Put a symbolic link in its place: to nothing, to itself, to an endless device, to a foreign file."""
    path.unlink()
    path.symlink_to(random.choice(["/nowhere/at/all", path.name, "/dev/zero", __file__, "/dev/null"]))


_BYTES: tuple[Damage, ...] = (flip_bit, flip_bytes, truncate, empty, append, zero, remove)
_NO_FILES: tuple[Damage, ...] = (fifo, folder, unix_socket, link)
_LINES: tuple[Damage, ...] = (remove_line, duplicate_line, swap_lines, change_digit)
_JSON: tuple[Damage, ...] = (hostile_value, hostile_value, hostile_value, remove_key, remove_key, hostile_document)


def fitting(path: Path) -> tuple[Damage, ...]:
    """The damages that make sense for a file, by its name."""
    common = (*_BYTES, *_NO_FILES)
    if path.suffix == ".jsonl":
        return (*common, *_LINES, *_JSON)
    if path.suffix == ".json":
        return (*common, change_digit, *_JSON)
    if path.suffix == ".yaml":
        return (*common, *_LINES, hostile_yaml, hostile_yaml, hostile_yaml, hostile_document)
    return common
