"""Keyed seeds of Python envs: a function of seed, attempt, env and episode, never of the order of events."""

import hashlib


def env_key(seed: int, attempt: int, env: int) -> int:
    """Return the key of an env, from which the seeds of its episodes are derived."""
    return _hash(f"{seed}/{attempt}/env/{env}", 8)


def episode_seed(key: int, episode: int) -> int:
    """Return the seed of an env's episode; of 31 bits, as some libraries take no more."""
    return _hash(f"{key}/{episode}", 4) >> 1


def _hash(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")
