"""Checks of a runner's arguments, made before any env moves. Errors name the value and what was expected."""

import difflib
import operator
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

AUTORESET: Final[dict[AutoresetMode, Literal["next_step", "same_step", "disabled"]]] = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


def autoreset(mode: str | AutoresetMode) -> AutoresetMode:
    """Return the mode, given as Gymnasium's enum, its value, or its name here."""
    for known, word in AUTORESET.items():
        if mode in (known, known.value, word):
            return known
    raise ValueError(f"autoreset_mode is {mode!r}: expected one of {', '.join(AUTORESET.values())}")


def names(what: str, given: Sequence[str]) -> list[str]:
    """Return a list of distinct names; a single string is a mistake, not a list of letters."""
    if isinstance(given, str):
        raise TypeError(f"{what} is {given!r}: expected a list of names")
    listed = list(given)
    for name in listed:
        if listed.count(name) > 1:
            raise ValueError(f"{what} names {name!r} twice")
    return listed


def within(what: str, value: int, least: int, most: int) -> int:
    """Return a number if it is within bounds."""
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{what} is {number}: expected {least} to {most}")
    return number


def one_of(what: str, name: str, known: Iterable[str]) -> str:
    """Return a name if it is known; else suggest the nearest one."""
    choices = list(known)
    if name in choices:
        return name
    near = difflib.get_close_matches(str(name), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"there is no {what} {name!r}.{hint} There are: {', '.join(choices)}")


def random_seed() -> int:
    """Return a seed from the system's entropy."""
    return secrets.randbits(63)


def seeds(seed: int | Sequence[int | None] | None, env_count: int) -> int | list[int | None] | None:
    """Return one seed, or one for each env."""
    if seed is None:
        return None
    if isinstance(seed, list | tuple | np.ndarray):
        listed = [None if one is None else _seed(f"the seed of env {env}", one) for env, one in enumerate(seed)]
        if len(listed) != env_count:
            raise ValueError(f"{len(listed)} seeds for {env_count} envs")
        return listed
    return _seed("seed", seed)


def _seed(what: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}: expected a whole number, or one for each env") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{what} is {number}: expected 0 to 2**64 - 1")
    return number


def reset_mask(mask: object, env_count: int) -> NDArray[np.bool_]:
    """Return which envs to reset, after the checks that Gymnasium makes."""
    what = "options['reset_mask']"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{what} must be a numpy array, got {type(mask)}")
    if mask.shape != (env_count,):
        raise ValueError(f"{what} must have shape ({env_count},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{what} must have dtype=np.bool_, got {mask.dtype}")
    if not mask.any():
        raise ValueError(f"{what} must name at least one env, got {mask}")
    return mask


def indices(what: str, given: ArrayLike, count: int) -> list[int]:
    """Return indices of envs as a list."""
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{what} is {given!r}: expected a list of whole numbers")
    listed: list[int] = array.astype(np.int64).tolist()
    for index in listed:
        if not 0 <= index < count:
            raise ValueError(f"{what} names {index}: expected 0 to {count - 1}")
    return listed


def policies(given: ArrayLike, env_count: int, seats: int) -> list[int]:
    """Return a table of policies by env and seat, flattened by row."""
    table = np.asarray(given)
    if table.dtype.kind not in "iu":
        raise TypeError(f"the table of policies has dtype {table.dtype}: expected whole numbers")
    if table.shape != (env_count, seats):
        raise ValueError(f"the table of policies has shape {table.shape}: expected ({env_count}, {seats})")
    if table.max() >= 2**31 or table.min() < 0:
        bad = next(zip(*np.nonzero((table >= 2**31) | (table < 0)), strict=True))
        raise ValueError(f"the policy of env {bad[0]}, seat {bad[1]} is {table[bad]}: expected 0 to 2**31 - 1")
    listed: list[int] = table.ravel().tolist()
    return listed
