"""Random numbers by key: a draw depends on what it is for, never on the order of draws, the platform or a library."""

from __future__ import annotations

import hashlib
import random


def integer(*parts: object, bits: int = 64) -> int:
    """Return a uniform integer for a key.

    >>> integer("a", 1) == integer("a", 1) != integer("a", 2)
    True
    """
    text = "/".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> (64 - bits)


def uniform(*parts: object) -> float:
    """Return a uniform number in [0, 1) for a key."""
    return float(integer(*parts, bits=53) * 2.0**-53)


def generator(*parts: object) -> random.Random:
    """Return a generator for a key. Use `random()` only: Python keeps its sequence across versions."""
    return random.Random(integer(*parts))


def train_seed(*parts: object) -> int:
    """Return the seed of a training session; short enough to be typed."""
    return integer(*parts, bits=32)
