"""Exceptions of compiled code as status codes that cross a C interface, and their messages."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

_PICKLED: Final = re.compile(r'pickledata\.[^ ]* = [^\n]*? c"([^"]*)"')
_ESCAPED: Final = re.compile(rb"\\([0-9A-Fa-f]{2})")
_NEGATIVE: Final = 1 << 31
# Status of exceptions with arguments computed at run time, which Numba does not number.
_UNNUMBERED: Final = -1


def attempting(numba: Any) -> Any:
    """A function for compiled code that calls another, which returns an int32: `attempt(function, arguments)`.

    What is raised becomes a negative number, the beginning of the hash that Numba keeps of every exception: `try` could
    not tell them apart.
    """
    cgutils = numba.core.cgutils
    word = cgutils.int32_t

    def attempt(typingctx: Any, function: Any, arguments: Any) -> Any:
        called = function.get_call_type(typingctx, arguments.types, {})

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            made = function.dispatcher.overloads[called.args]
            context.active_code_library.add_linking_library(made.library)
            given = cgutils.unpack_tuple(builder, args[1])
            status, result = context.call_internal_no_propagate(builder, made.fndesc, called, given)
            outcome = cgutils.alloca_once_value(builder, result)
            with cgutils.if_unlikely(builder, status.is_error):
                # It points to {data, length, hash, function, whether it was made at run time}.
                hashed, fresh = (
                    builder.load(cgutils.gep_inbounds(builder, status.excinfoptr, 0, part)) for part in (2, 4)
                )
                builder.store(word(_UNNUMBERED), outcome)
                with builder.if_then(builder.icmp_signed("==", fresh, word(0))):
                    number = builder.load(builder.bitcast(hashed, word.as_pointer()), align=1)
                    builder.store(builder.or_(number, word(_NEGATIVE)), outcome)
            return builder.load(outcome)

        return numba.types.int32(function, arguments), codegen

    return numba.extending.intrinsic(attempt)


def explainer(functions: Sequence[Any]) -> Callable[[int], str]:
    """Return the message of a status that `attempt` returned in one of these compiled functions."""
    known: dict[int, str] = {_UNNUMBERED: "it raised an exception; uncompiled, it can be seen"}

    def explain(status: int) -> str:
        if len(known) == 1:
            for text in (text for function in functions for text in function.inspect_llvm().values()):
                known.update(_exceptions(text))
        return known.get(status, "")

    return explain


def _exceptions(text: str) -> dict[int, str]:
    """Return all exceptions in the source of a compiled module, by their numbers."""
    found = {}
    for escaped in _PICKLED.findall(text):
        data = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), escaped.encode("latin-1"))
        try:
            kind, values, place = pickle.loads(data)
        except Exception:
            # Something else that code refers to: bytes that are no pickle can raise anything.
            continue
        number = int.from_bytes(hashlib.sha1(data, usedforsecurity=False).digest()[:4], "little", signed=True)
        words = f"it raised {kind.__name__}({', '.join(map(repr, values or ()))})"
        found[number | -_NEGATIVE] = f"{words} in line {place[2]} of {Path(place[1]).name}" if place else words
    return found
