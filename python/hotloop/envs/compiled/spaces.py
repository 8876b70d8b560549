"""The memory layout of an env's spaces and options, and the table that describes it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.envs import abi
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.envs.compiled.declaration import Declared


@dataclass(frozen=True)
class Layout:
    """The memory layout of the arguments of a table's functions."""

    observation_dtype: str
    observation_shape: tuple[int, ...]
    action_dtype: str
    action_width: int
    one_choice: bool
    """Whether an action is a scalar."""
    mask_len: int
    options: np.dtype[Any] | None
    """The record of the options, if there are any."""


def layout_of(declared: Declared) -> Layout:
    """Return the layout of these spaces; raise an error for unsupported ones."""
    from gymnasium import spaces

    observation, action = declared.observation, declared.action
    match observation:
        case spaces.Box() if observation.dtype in (np.float32, np.uint8) and observation.shape:
            dtype, shape = str(observation.dtype), observation.shape
        case spaces.Discrete() if observation.start == 0:
            dtype, shape = "int64", (1,)
        case _:
            raise ConfigError(
                f"{declared.name} observes {observation}: expected a Box of float32 or uint8, or Discrete"
            )
    width = 1
    match action:
        case spaces.Discrete() if action.start == 0:
            choices = [int(action.n)]
        case spaces.MultiDiscrete() if action.nvec.ndim == 1 and not action.start.any():
            choices = action.nvec.tolist()
        case spaces.Box() if action.dtype == np.float32 and len(action.shape) == 1:
            choices, width = [], action.shape[0]
        case _:
            raise ConfigError(
                f"{declared.name} has the actions {action}: expected Discrete, MultiDiscrete, or a Box of float32 and "
                "one dimension"
            )
    if declared.masked and not choices:
        raise ConfigError(f"{declared.name} has masked=True, but continuous actions: masks are for discrete ones")
    return Layout(
        observation_dtype=dtype,
        observation_shape=shape,
        action_dtype="int32" if choices else "float32",
        action_width=len(choices) or width,
        one_choice=isinstance(action, spaces.Discrete),
        mask_len=sum(choices) if declared.masked else 0,
        options=_options_record(declared),
    )


def _options_record(declared: Declared) -> np.dtype[Any] | None:
    from hotloop.envs.compiled.declaration import Option

    fields = []
    for name, option in declared.options.items():
        default = option.default if isinstance(option, Option) else option
        fields.append((name, "float64" if isinstance(default, float) else "int64"))
    return np.dtype(fields) if fields else None


class Table:
    """A function table in memory, with everything it points to."""

    def __init__(self, declared: Declared, layout: Layout, functions: Mapping[str, Any]) -> None:
        self._kept: list[Any] = [functions]
        self.env = abi.Env()
        self._identify(declared)
        self._describe(declared, layout)
        self._list(declared)
        for name, function in functions.items():
            setattr(self.env, name, ctypes.cast(function, ctypes.c_void_p).value)

    @property
    def address(self) -> int:
        """Its address."""
        return ctypes.addressof(self.env)

    def _array(self, kind: Any, values: Any) -> Any:
        array = (kind * len(values))(*values)
        self._kept.append(array)
        return array

    def _texts(self, values: Any) -> Any:
        return self._array(ctypes.c_char_p, [value.encode() for value in values])

    def _identify(self, declared: Declared) -> None:
        env = self.env
        env.abi, env.table_bytes = abi.ABI, ctypes.sizeof(abi.Env)
        env.name, env.about = declared.name.encode(), declared.about.encode()
        env.state_bytes, env.state_alignment = declared.state.itemsize, declared.state.alignment
        env.state_version, env.seats = declared.version, 1
        env.masked, env.max_steps = declared.masked, declared.max_steps
        # Cost of a simple env; more expensive envs are divided less finely than they could be.
        env.step_nanoseconds = 40

    def _describe(self, declared: Declared, layout: Layout) -> None:
        from gymnasium import spaces

        env, observation, action = self.env, declared.observation, declared.action
        env.observation_dims = len(layout.observation_shape)
        shape = (int(observation.n),) if isinstance(observation, spaces.Discrete) else layout.observation_shape
        env.observation_shape = self._array(ctypes.c_uint64, shape)
        kinds = {"float32": abi.OBSERVE_NUMBERS, "uint8": abi.OBSERVE_BYTES, "int64": abi.OBSERVE_STATE}
        env.observation_kind = kinds[layout.observation_dtype]
        if isinstance(observation, spaces.Box) and layout.observation_dtype == "float32":
            env.observation_low = self._array(ctypes.c_float, observation.low.ravel().tolist())
            env.observation_high = self._array(ctypes.c_float, observation.high.ravel().tolist())
        env.action_width = layout.action_width
        if isinstance(action, spaces.Box):
            env.action_kind = abi.AMOUNTS
            env.action_low = self._array(ctypes.c_float, action.low.tolist())
            env.action_high = self._array(ctypes.c_float, action.high.tolist())
        else:
            env.action_kind = abi.CHOOSE if layout.one_choice else abi.CHOOSE_EACH
            choices = [action.n] if isinstance(action, spaces.Discrete) else action.nvec  # type: ignore[attr-defined]
            env.action_choices = self._array(ctypes.c_uint32, [int(n) for n in choices])

    def _list(self, declared: Declared) -> None:
        env = self.env
        env.term_count, env.terms = len(declared.terms), self._texts(declared.terms)
        if "success" in declared.functions:
            env.metric_count, env.metrics = 1, self._texts(["success"])
        options = [self._option(name, option) for name, option in declared.options.items()]
        env.option_count, env.options = len(options), self._array(abi.Option, options)
        fields = []
        for name, (kind, offset, *_) in (declared.state.fields or {}).items():
            count = int(np.prod(kind.shape, dtype=np.int64))
            fields.append(abi.Field(name.encode(), abi.FIELD_KINDS[str(kind.base)], count, offset))
        env.field_count, env.fields = len(fields), self._array(abi.Field, fields)

    def _option(self, name: str, given: Any) -> abi.Option:
        from hotloop.envs.compiled.declaration import Option

        raw = abi.Option(name=name.encode(), low=-np.inf, high=np.inf)
        if isinstance(given, Option):
            raw.low, raw.high, raw.about = given.low, given.high, given.about.encode()
            given = given.default
        match given:
            case bool():
                raw.kind, raw.value.whole = abi.YES_NO, given
            case int():
                raw.kind, raw.value.whole = abi.WHOLE, given
            case float():
                raw.kind, raw.value.number = abi.NUMBER, given
            case tuple() if given and all(isinstance(word, str) for word in given):
                raw.kind, raw.word_count, raw.words = abi.WORD, len(given), self._texts(given)
            case _:
                raise ConfigError(
                    f"the option {name} is {given!r}: expected a number, a truth value, or a tuple of words"
                )
        return raw
