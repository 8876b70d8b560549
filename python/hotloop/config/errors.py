"""What is wrong with a config, in one line a person can act on."""

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigError(ValueError):
    """A config that cannot be used; the message names the key and says what would do."""


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """The error for a dotted key that nobody knows, with the nearest one that exists."""
    names = list(known)
    near = get_close_matches(key, names, n=1, cutoff=0.6)
    if not near:
        # A part left out or mistaken is no reason to miss the name itself.
        last = key.rpartition(".")[2]
        by_last = {name.rpartition(".")[2]: name for name in reversed(names)}
        near = [by_last[found] for found in get_close_matches(last, by_last, n=1, cutoff=0.6)]
    if near:
        return ConfigError(f"there is no config key {key!r}. Did you mean {near[0]!r}?")
    parts = sorted({name.partition(".")[0] for name in names})
    return ConfigError(f"there is no config key {key!r}: keys start with one of {', '.join(parts)}")
