"""Conversion between Gymnasium's spaces and those that policies support: reversible, and the same in every process.

Observations: a Box of bytes stays bytes, any other Box becomes float32 of the same shape, Discrete stays one number
(counted from 0). Dict, Tuple, MultiDiscrete and MultiBinary become one vector of float32: the parts in the order of the
space, choices one-hot, texts in a Dict left out. Actions: Discrete stays; MultiDiscrete, MultiBinary and Dicts and
Tuples of these become a list of choices; Boxes (alone or in Dicts and Tuples) become one vector; Dicts and Tuples of
both become one vector of float32, all choices first.
Needs Gymnasium, and of this package the specs only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from hotloop.envs.space_json import space_to_json, without_text
from hotloop.envs.spec import (
    Action,
    BoxObservation,
    BytesObservation,
    ContinuousAction,
    DiscreteAction,
    DiscreteObservation,
    HybridAction,
    MultiDiscreteAction,
    Observation,
)
from hotloop.errors import SpaceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Leaf:
    """One plain space inside a nested one, and its part of the flat vector."""

    def __init__(self, space: Any, path: tuple[Any, ...], *, one_hot: bool) -> None:
        self.space = space
        self.path = path
        match space:
            case spaces.Box():
                self.sets: list[int] = []
                self.size = int(np.prod(space.shape))
            case spaces.Discrete():
                self.sets = [int(space.n)]
            case spaces.MultiDiscrete():
                self.sets = [int(n) for n in np.ravel(space.nvec)]
            case spaces.MultiBinary():
                self.sets = [2] * int(np.prod(space.shape))
            case _:
                where = "".join(f"[{step!r}]" for step in path)
                raise SpaceError(f"the space{where} is {space}: only Box, Discrete, MultiDiscrete, MultiBinary, and ")
        self.starts = np.zeros(len(self.sets), np.int64)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            self.starts = np.ravel(np.asarray(space.start)).astype(np.int64)
        self.binary = isinstance(space, spaces.MultiBinary)
        if self.sets:
            self.size = sum(self.sets) if one_hot and not self.binary else len(self.sets)

    def pick(self, value: Any) -> Any:
        for step in self.path:
            value = value[step]
        return value

    def choices(self, value: Any) -> NDArray[np.int64]:
        """Return choices that count from 0."""
        given = np.ravel(np.asarray(value))
        if given.dtype.kind not in "iub":
            raise TypeError(f"a choice of {self.space} is {value!r}: expected whole numbers")
        found: NDArray[np.int64] = given.astype(np.int64) - self.starts
        if found.shape != self.starts.shape or (found < 0).any() or (found >= self.sets).any():
            raise ValueError(f"{value!r} does not lie in {self.space}")
        return found

    def encode(self, value: Any, out: NDArray[Any]) -> None:
        if not self.sets:
            given = np.asarray(value)
            if given.shape != self.space.shape:
                raise ValueError(f"a part has shape {given.shape}: its space {self.space} has {self.space.shape}")
            out[:] = given.ravel()
        elif self.binary:
            out[:] = self.choices(value)
        else:
            out[:] = 0.0
            first = 0
            for choice, n in zip(self.choices(value), self.sets, strict=True):
                out[first + choice] = 1.0
                first += n

    def decode(self, flat: NDArray[Any]) -> Any:
        """Return the value from one-hot parts, bits or real numbers."""
        if not self.sets:
            return self.continuous(flat)
        if self.binary:
            return self.chosen(flat.astype(np.int64))
        first, found = 0, []
        for n in self.sets:
            found.append(int(np.argmax(flat[first : first + n])))
            first += n
        return self.chosen(np.array(found))

    def continuous(self, flat: NDArray[Any]) -> Any:
        space = self.space
        given = np.rint(flat) if space.dtype.kind in "iu" else flat
        return given.astype(space.dtype).reshape(space.shape)

    def chosen(self, choices: NDArray[np.int64]) -> Any:
        """Return the value from choices that count from 0."""
        values = choices + self.starts
        if isinstance(self.space, spaces.Discrete):
            return int(values[0])
        return values.astype(self.space.dtype).reshape(self.space.shape)


def _leaves(space: Any, *, one_hot: bool, path: tuple[Any, ...] = ()) -> list[_Leaf]:
    match space:
        case spaces.Dict():
            parts: list[tuple[Any, Any]] = list(space.spaces.items())
        case spaces.Tuple():
            parts = list(enumerate(space.spaces))
        case _:
            try:
                return [_Leaf(space, path, one_hot=one_hot)]
            except SpaceError as error:
                raise SpaceError(f"{error}Dict and Tuple of these can be flattened") from None
    found = [leaf for key, part in parts for leaf in _leaves(part, one_hot=one_hot, path=(*path, key))]
    if not found:
        raise SpaceError(f"the space {space} has no parts")
    return found


def _rebuilt(space: Any, values: dict[tuple[Any, ...], Any], path: tuple[Any, ...] = ()) -> Any:
    match space:
        case spaces.Dict():
            return {key: _rebuilt(part, values, (*path, key)) for key, part in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_rebuilt(part, values, (*path, i)) for i, part in enumerate(space.spaces))
    return values[path]


class FlatObservation:
    """Conversion of observations of a space for a policy; `spec` is the space that the policy gets."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._given = space
        space = self.space = without_text(space)
        self.spec: Observation
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.plain = True
        """Whether arrays need no conversion."""
        match space:
            case spaces.Discrete():
                self.shape: tuple[int, ...] = ()
                self.dtype = np.dtype(np.int64)
                self.start = int(space.start)
                self.plain = False
                self.spec = DiscreteObservation(int(space.n))
            case spaces.Box() if space.dtype == np.uint8:
                self.shape = space.shape
                self.dtype = np.dtype(np.uint8)
                most = int(space.high.max()) if space.high.size else 0
                self.spec = BytesObservation(space.shape, max(1, most))
            case spaces.Box():
                self.shape = space.shape or (1,)
                self.plain = bool(space.shape)
                low, high = (np.ravel(end).astype(np.float32).tolist() for end in (space.low, space.high))
                self.spec = BoxObservation(self.shape, tuple(low), tuple(high))
                self._leaves = [_Leaf(space, (), one_hot=True)]
            case _:
                self.plain = False
                self._leaves = _leaves(space, one_hot=True)
                size = sum(leaf.size for leaf in self._leaves)
                self.shape = (size,)
                least, greatest = np.zeros(size, np.float32), np.ones(size, np.float32)
                for leaf, part in self._parts():
                    if not leaf.sets:
                        least[part], greatest[part] = leaf.space.low.ravel(), leaf.space.high.ravel()
                self.spec = BoxObservation(self.shape, tuple(least.tolist()), tuple(greatest.tolist()))
        if 0 in self.shape:
            raise SpaceError(f"the observation space {space} has no elements")

    @property
    def own(self) -> str | None:
        """The space as JSON; `None` if its observations need no conversion."""
        same = self.plain or (isinstance(self.space, spaces.Discrete) and not self.start)
        return None if same else json.dumps(space_to_json(self._given))

    def images(self) -> list[str]:
        """Return the image parts that lose their shape because they are inside a Dict or Tuple."""
        if self.plain or isinstance(self.space, spaces.Discrete):
            return []
        found = [leaf for leaf in self._leaves if not leaf.sets and len(leaf.space.shape) in (2, 3)]
        large = [leaf for leaf in found if sorted(leaf.space.shape)[-2] >= _PICTURE]
        return [f"{'.'.join(map(str, leaf.path))} {'x'.join(map(str, leaf.space.shape))}" for leaf in large]

    def _parts(self) -> list[tuple[_Leaf, slice]]:
        first, parts = 0, []
        for leaf in self._leaves:
            parts.append((leaf, slice(first, first + leaf.size)))
            first += leaf.size
        return parts

    def flatten(self, obs: Any) -> Any:
        """Return the observation for the policy."""
        if self.shape == () and isinstance(self.space, spaces.Discrete):
            return int(_Leaf(self.space, (), one_hot=False).choices(obs)[0])
        if self.plain:
            return np.asarray(obs, self.dtype)
        flat = np.empty(self.shape, np.float32)
        for leaf, part in self._parts():
            leaf.encode(leaf.pick(obs), flat[part])
        return flat

    def batch_size(self, obs: Any) -> int | None:
        """Return how many observations a Dict or Tuple of arrays holds along a first axis; `None` for a single one."""
        for leaf in self._leaves:
            shape = np.shape(leaf.pick(obs))
            if len(shape) == len(leaf.space.shape) + 1:
                return int(shape[0])
        return None

    def flatten_batch(self, obs: Any, count: int) -> NDArray[np.float32]:
        """Return a row for each observation of a Dict or Tuple of arrays, as vector envs of Gymnasium give them."""
        flat = np.empty((count, *self.shape), np.float32)
        for leaf, part in self._parts():
            for row, value in zip(flat, leaf.pick(obs), strict=True):
                leaf.encode(value, row[part])
        return flat

    def unflatten(self, flat: Any) -> Any:
        """Return the observation that was flattened."""
        if isinstance(self.space, spaces.Discrete):
            return int(flat) + self.start
        if self.plain:
            assert self.space.shape is not None
            return np.asarray(flat).astype(self.space.dtype).reshape(self.space.shape)
        given = np.asarray(flat)
        return _rebuilt(self.space, {leaf.path: leaf.decode(given[part]) for leaf, part in self._parts()})


class FlatAction:
    """Conversion of a policy's actions to those of a space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self._leaves = _leaves(space, one_hot=False)
        sets = [n for leaf in self._leaves for n in leaf.sets]
        bounds = [[np.ravel(getattr(leaf.space, end)) for leaf in self._leaves if not leaf.sets] for end in _ENDS]
        low, high = (tuple(np.concatenate([*end, []]).astype(np.float32).tolist()) for end in bounds)
        if not sets and not low:
            raise SpaceError(f"the action space {space} has no elements")
        if sets and low and max(sets) > _EXACT:
            raise SpaceError(f"the action space {space} has {max(sets)} choices beside real numbers: at most {_EXACT}")
        self.spec: Action
        self.start = 0
        self._first_real = len(sets)
        if not sets:
            self.spec = ContinuousAction(low, high)
        elif low:
            self.spec = HybridAction(tuple(sets), low, high)
        elif isinstance(space, spaces.Discrete):
            self.start = int(space.start)
            self.spec = DiscreteAction(sets[0])
        else:
            self.spec = MultiDiscreteAction(tuple(sets))
        self.single = isinstance(space, spaces.Discrete)
        """Whether a policy's action is one integer."""

    def unflatten(self, flat: Any) -> Any:
        """Return the env's action for a policy's action."""
        if self.single:
            return int(flat) + self.start
        first_choice, first_real, values = 0, self._first_real, {}
        for leaf in self._leaves:
            if leaf.sets:
                part = np.asarray(flat[first_choice : first_choice + len(leaf.sets)])
                values[leaf.path] = leaf.chosen(part.astype(np.int64))
                first_choice += len(leaf.sets)
            else:
                values[leaf.path] = leaf.continuous(np.asarray(flat[first_real : first_real + leaf.size]))
                first_real += leaf.size
        return _rebuilt(self.space, values)

    @property
    def own(self) -> str | None:
        """The space as JSON; `None` if its actions need no conversion."""
        space = self.space
        match space:
            case spaces.Discrete():
                same = not self.start
            case spaces.MultiDiscrete():
                same = len(space.shape) == 1 and not np.any(space.start)
            case spaces.Box():
                same = len(space.shape) == 1 and space.dtype.kind == "f"
            case _:
                same = False
        return None if same else json.dumps(space_to_json(space))

    def flatten(self, action: Any) -> Any:
        """Return the policy's action for an env's action."""
        if self.single:
            return int(action) - self.start
        choices = [leaf.choices(leaf.pick(action)) for leaf in self._leaves if leaf.sets]
        reals = [np.ravel(np.asarray(leaf.pick(action), np.float32)) for leaf in self._leaves if not leaf.sets]
        return np.concatenate([*choices, *reals], dtype=self.spec.dtype)


_ENDS = ("low", "high")
# Largest number of choices whose indices float32 holds exactly.
_EXACT = 2**24
# Smallest side of an image, in pixels.
_PICTURE = 16
