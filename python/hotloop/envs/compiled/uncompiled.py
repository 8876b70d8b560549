"""A compiled env's functions run uncompiled, on the same memory and through the same table: for debuggers."""

from __future__ import annotations

import ctypes
import sys
import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hotloop.envs import abi
from hotloop.envs.compiled.functions import Rng

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.envs.compiled.declaration import Declared
    from hotloop.envs.compiled.spaces import Layout


class PlainArray(np.ndarray[Any, Any]):
    """An array whose elements are Python numbers, so that arithmetic has 64 bits as in compiled code."""

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return value.item() if isinstance(value, np.generic) else value


def _view(address: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    raw = (ctypes.c_char * (np.dtype(dtype).itemsize * count)).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape).view(PlainArray)


class State:
    """The state of one env, as Python numbers."""

    __slots__ = ("_record",)

    def __init__(self, record: NDArray[np.void]) -> None:
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        if name not in self._record.dtype.names:
            raise AttributeError(f"the state has no {name!r}; it has {', '.join(self._record.dtype.names)}")
        value = self._record[name]
        return value.item() if value.ndim == 0 else value.view(PlainArray)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._record.dtype.names:
            raise AttributeError(f"the state has no {name!r}; it has {', '.join(self._record.dtype.names)}")
        self._record[name] = value


class Failures:
    """Exceptions of the functions; the first is printed at once, and all are kept until one is raised."""

    def __init__(self) -> None:
        self.pending: list[BaseException] = []

    def add(self, error: BaseException, *, where: str) -> None:
        """Add an exception."""
        if not self.pending:
            print(f"{where} raised:", file=sys.stderr)
            traceback.print_exception(error)
        self.pending.append(error)

    def raise_first(self) -> None:
        """Raise the first exception since the last call, if there is one."""
        if self.pending:
            first, self.pending = self.pending[0], []
            raise first


def callbacks(declared: Declared, layout: Layout, failures: Failures) -> dict[str, Any]:
    """The functions of the table as C functions that call Python."""
    parts = declared.functions

    def state_at(address: int) -> State:
        return State(_view(address, declared.state, (1,)).view(np.ndarray)[0])

    def given(function: str, **values: Callable[[], Any]) -> list[Any]:
        return [values[ask]() for ask in declared.asks(function)]

    def guarded(function: str, play: Callable[..., int]) -> Callable[..., int]:
        def call(*addresses: int) -> int:
            try:
                return play(*addresses)
            except BaseException as error:
                failures.add(error, where=declared.where(function))
                return -1

        return call

    def options_at(address: int) -> Any:
        record = _view(address, layout.options, (1,)).view(np.ndarray)[0] if layout.options is not None else {}
        return SimpleNamespace(**{name: record[name].item() for name in declared.options})

    def rng_at(address: int) -> Rng:
        return Rng(*_view(address, np.uint32, (4,)).tolist())

    def reset(state: int, options: int, rng: int) -> int:
        parts["reset"](state_at(state), *given("reset", rng=lambda: rng_at(rng), options=lambda: options_at(options)))
        return 0

    def step(state: int, options: int, rng: int, actions: int, terms: int, terminated: int, metrics: int) -> int:
        me = state_at(state)
        chosen = _view(actions, layout.action_dtype, (layout.action_width,)).tolist()
        result = parts["step"](
            me,
            *given(
                "step",
                action=lambda: chosen[0] if layout.one_choice else tuple(chosen),
                rng=lambda: rng_at(rng),
                options=lambda: options_at(options),
            ),
        )
        reward, ended, late = _outcome(declared, result)
        _view(terms, np.float32, (len(reward),))[:] = reward
        if "success" in parts:
            _view(metrics, np.float32, (1,))[0] = bool(parts["success"](me))
        _view(terminated, np.uint8, (1,))[0] = ended
        return 1 if ended else 2 if late else 0

    def observe(state: int, options: int, observation: int, mask: int, valid: int) -> int:
        obs = _view(observation, layout.observation_dtype, layout.observation_shape)
        parts["observe"](
            state_at(state),
            *given(
                "observe",
                obs=lambda: obs,
                mask=lambda: _view(mask, np.uint8, (layout.mask_len,)),
                options=lambda: options_at(options),
            ),
        )
        if layout.observation_dtype == "float32" and not np.isfinite(obs).all():
            bad = np.argwhere(~np.isfinite(obs))[0].tolist()
            raise ValueError(f"observe gave {obs[tuple(bad)]} in obs{bad}: expected finite numbers")
        return 0

    return {
        "reset": abi.Reset(guarded("reset", reset)),
        "step": abi.Step(guarded("step", step)),
        "observe": abi.Observe(guarded("observe", observe)),
    }


def _outcome(declared: Declared, result: Any) -> tuple[list[float], bool, bool]:
    """Return reward terms, terminated and truncated of a step's result."""
    expected = (
        f"{declared.where('step')} gave {result!r}: expected (reward, terminated) or (reward, terminated, truncated)"
    )
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise TypeError(expected)
    reward = result[0] if declared.terms else (result[0],)
    numbers = (float, int, np.floating, np.integer)
    if not isinstance(reward, tuple) or not all(isinstance(x, numbers) for x in reward):
        raise TypeError(expected)
    if len(reward) != max(1, len(declared.terms)) or not all(isinstance(x, bool | np.bool_) for x in result[1:]):
        raise TypeError(expected)
    return list(reward), bool(result[1]), bool(result[2]) if len(result) == 3 else False
