"""A compiled env's functions turned into native ones by Numba, with the signatures of `hotloop.h`."""

from __future__ import annotations

import dis
import re
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.envs import abi
from hotloop.envs.compiled.exceptions import attempting, explainer
from hotloop.envs.compiled.functions import Rng
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from hotloop.envs.compiled.declaration import Declared
    from hotloop.envs.compiled.spaces import Layout

# Python's arithmetic: sums are not reordered. Indices are checked, as a wrong one could write anywhere.
_HOW: Final = {
    "fastmath": False,
    "boundscheck": True,
    "error_model": "python",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
# Env i of several that are contiguous in memory.
_STATE = "carray(state, i + 1)[i]"
_OPTIONS = "carray(options, 1)[0]"
_RNG = "Rng(int64(rng[4 * i]), int64(rng[4 * i + 1]), int64(rng[4 * i + 2]), int64(rng[4 * i + 3]))"
_PARAMETERS: Final = {
    "reset": "state, options, rng",
    "step": "state, options, rng, actions, terms, terminated, metrics",
    "observe": "state, options, observation, mask_bytes, valid",
}
_PLAY: Final = f"""\
def entry(
    count, state, options, rng, actions, terms, terminated, metrics, observation, mask_bytes, valid, waiting, statuses
):
    for i in range(count):
        if waiting[i]:
            continue
        statuses[2 * i] = attempt(step_of, (i, {_PARAMETERS["step"]}))
        if statuses[2 * i] >= 0:
            statuses[2 * i + 1] = attempt(observe_of, (i, {_PARAMETERS["observe"]}))
"""
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


def compile_functions(declared: Declared, layout: Layout) -> dict[str, Any]:
    """The functions of the table as native code."""
    try:
        import numba
    except ModuleNotFoundError:
        raise ConfigError(
            f"{declared.name} needs Numba to be compiled: pip install 'hotloop[compiled]', or set HOTLOOP_COMPILED=0 "
            "to run it uncompiled"
        ) from None
    return _Compiler(numba, declared, layout).functions()


class _Compiler:
    def __init__(self, numba: Any, declared: Declared, layout: Layout) -> None:
        self._numba = numba
        self._declared = declared
        self._layout = layout
        types = numba.types
        # A record without fields is never read.
        options = types.voidptr if layout.options is None else types.CPointer(numba.from_dtype(layout.options))
        state = types.CPointer(numba.from_dtype(declared.state))
        words, numbers, bytes_ = (types.CPointer(kind) for kind in (types.uint32, types.float32, types.uint8))
        action = types.CPointer(getattr(types, layout.action_dtype))
        seen = types.CPointer(getattr(types, layout.observation_dtype))
        results = types.CPointer(types.int32)
        self._signatures = {
            "reset": types.int32(state, options, words),
            "step": types.int32(state, options, words, action, numbers, bytes_, numbers),
            "observe": types.int32(state, options, seen, bytes_, bytes_),
            "play": types.void(
                types.int64,
                state,
                options,
                words,
                action,
                numbers,
                bytes_,
                numbers,
                seen,
                bytes_,
                bytes_,
                words,
                results,
            ),
        }
        self._made: dict[FunctionType, Any] = {}

    def functions(self) -> dict[str, Any]:
        sources = {"reset": self._reset(), "step": self._step(), "observe": self._observe()}
        names = {f"{name}_of": self._part(name, source) for name, source in sources.items()}
        texts = {"play": _PLAY}
        for name, given in _PARAMETERS.items():
            texts[name] = f"def entry({given}):\n    return attempt({name}_of, (0, {given}))\n"
        entries = {
            name: self._entry(name, text, {**names, "attempt": attempting(self._numba)}) for name, text in texts.items()
        }
        explain = explainer([*names.values(), *self._made.values()])
        # References to their ctypes objects keep the code alive.
        functions = {name: entry.ctypes for name, entry in entries.items()}
        return {**functions, "explain": abi.Explain(lambda status, text, room: abi.tell(explain(status), text, room))}

    def _part(self, name: str, source: str) -> Any:
        """Return a function of env i from the source of its body."""
        body = "\n".join(f"    {line}" for line in source.splitlines())
        parts = self._declared.functions
        names = {
            "carray": self._numba.carray,
            "int32": np.int32,
            "int64": np.int64,
            "float64": np.float64,
            "Rng": Rng,
            **{f"author_{part}": self._jit(parts[part]) for part in parts if part != "render"},
        }
        exec(f"def part(i, {_PARAMETERS[name]}):\n{body}\n", names)
        made = self._numba.njit(**_HOW, forceinline=True)(names["part"])
        try:
            made.compile((self._numba.types.int64, *self._signatures[name].args))
        except (self._numba.core.errors.NumbaError, KeyError) as error:
            raise ConfigError(self._explain(name, error)) from None
        return made

    def _entry(self, name: str, text: str, names: dict[str, Any]) -> Any:
        """Return a C function."""
        exec(text, names)
        return self._numba.cfunc(self._signatures[name], **_HOW)(names["entry"])

    def _reset(self) -> str:
        given = self._given("reset", rng=_RNG, options=_OPTIONS)
        return f"author_reset({given})\nreturn int32(0)"

    def _step(self) -> str:
        cast = "int64" if self._layout.action_dtype == "int32" else "float64"
        width = self._layout.action_width
        chosen = [f"{cast}(actions[{width} * i + {k}])" for k in range(width)]
        action = chosen[0] if self._layout.one_choice else f"({', '.join(chosen)},)"
        given = self._given("step", action=action, rng=_RNG, options=_OPTIONS)
        late = self._check_outcome()
        lines = [f"result = author_step({given})"]
        count = len(self._declared.terms)
        lines += [f"terms[{count} * i + {k}] = result[0][{k}]" for k in range(count)] or ["terms[i] = result[0]"]
        if "success" in self._declared.functions:
            lines.append(f"metrics[i] = 1.0 if author_success({_STATE}) else 0.0")
        lines.append("if result[1]:\n    terminated[i] = 1\n    return int32(1)")
        if late:
            lines.append("if result[2]:\n    return int32(2)")
        return "\n".join([*lines, "return int32(0)"])

    def _observe(self) -> str:
        shape = ", ".join(str(size) for size in self._layout.observation_shape)
        given = self._given(
            "observe",
            obs=f"carray(observation, (i + 1, {shape}))[i]",
            mask=f"carray(mask_bytes, (i + 1, {self._layout.mask_len}))[i]",
            options=_OPTIONS,
        )
        return f"author_observe({given})\nreturn int32(0)"

    def _given(self, function: str, **values: str) -> str:
        return ", ".join([_STATE, *(values[ask] for ask in self._declared.asks(function))])

    def _check_outcome(self) -> bool:
        """Return whether a step's result has `truncated`; results of other types are an error."""
        types, declared, layout = self._numba.types, self._declared, self._layout
        number = types.int64 if layout.action_dtype == "int32" else types.float64
        asked = {
            "action": number if layout.one_choice else types.UniTuple(number, layout.action_width),
            "rng": types.NamedUniTuple(types.int64, 4, Rng),
            "options": types.none if layout.options is None else self._numba.from_dtype(layout.options),
        }
        step = self._jit(declared.functions["step"])
        given = (self._numba.from_dtype(declared.state), *(asked[ask] for ask in declared.asks("step")))
        try:
            step.compile(given)
        except (self._numba.core.errors.NumbaError, KeyError) as error:
            raise ConfigError(self._explain("step", error)) from None
        returned = step.overloads[given].signature.return_type
        parts = list(returned) if isinstance(returned, types.BaseTuple) else []
        rewards = list(parts[0]) if parts and isinstance(parts[0], types.BaseTuple) else parts[:1]
        grouped = bool(parts) and isinstance(parts[0], types.BaseTuple)
        if (
            len(parts) not in (2, 3)
            or grouped != bool(declared.terms)
            or len(rewards) != max(1, len(declared.terms))
            or not all(isinstance(kind, types.Number) for kind in rewards)
            or not all(isinstance(kind, types.Boolean) for kind in parts[1:])
        ):
            reward = f"({', '.join(declared.terms)})" if declared.terms else "reward"
            raise ConfigError(
                f"{declared.where('step')} returns {returned}: expected ({reward}, terminated) or "
                f"({reward}, terminated, truncated), with numbers and truth values"
            )
        return len(parts) == 3

    def _jit(self, function: FunctionType) -> Any:
        """Return the function compiled with all plain functions that it calls, resolved as by Python and inlined."""
        if function in self._made:
            return self._made[function]
        names = dict(function.__globals__)
        plain = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        plain.__kwdefaults__ = function.__kwdefaults__
        made = self._made[function] = self._numba.njit(**_HOW, forceinline=True)(plain)
        for name in _names(function.__code__):
            if isinstance(names.get(name), FunctionType):
                names[name] = self._jit(names[name])
        return made

    def _explain(self, function: str, error: Exception) -> str:
        """Return Numba's reason in short, with the author's line."""
        if isinstance(error, KeyError):
            # Numba's message about a field that a record does not have.
            return self._explain_field(function, error.args[0])
        text = _ESCAPES.sub("", str(error))
        lines = [line.strip() for line in text.splitlines()]
        noise = ("Failed in", "During:", "File ", "<source", "-", "^", "There are", "- ", "def entry", "[")
        relevant = [line for line in lines if line and not line.startswith(noise)]
        reasons = [line for line in relevant if _REASON.search(line)] or relevant[:1]
        places = re.findall(r'File "([^"]+)", line (\d+)', text)
        files = {Path(part.__code__.co_filename) for part in self._declared.functions.values()}
        mine = [(Path(file), int(line)) for file, line in places if Path(file).absolute() in files]
        at = self._declared.where(function)
        if mine:
            file, number = mine[-1]
            at = f"{self._declared.name}.{function} ({file.name}, line {number}: {_line(file, number)})"
        return f"{at} cannot be compiled: {reasons[0] if reasons else 'Numba gave no reason'}"

    def _explain_field(self, function: str, field: object) -> str:
        names = ", ".join(self._declared.state.names or ())
        code = self._declared.functions[function].__code__
        lines = [
            found.positions.lineno for found in dis.get_instructions(code) if found.argval == field and found.positions
        ]
        number = lines[0] if lines and lines[0] else code.co_firstlineno
        file = Path(code.co_filename)
        at = f"{self._declared.name}.{function} ({file.name}, line {number}: {_line(file, number)})"
        return f"{at} cannot be compiled: the state has no {field!r}; it has {names}"


_REASON: Final = re.compile(
    r"Unknown attribute|No implementation|Untyped|[Cc]annot|Invalid|Use of|undefined|not supported|[Uu]nsupported"
)


def _line(file: Path, number: int) -> str:
    lines = file.read_text().splitlines() if file.is_file() else []
    return lines[number - 1].strip() if number <= len(lines) else ""


def _names(code: CodeType) -> set[str]:
    """Return all names that a function and its inner functions look up."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
