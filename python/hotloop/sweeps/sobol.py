"""Sobol' sequences: points that cover a cube more evenly than random ones, shifted by a key.

Primitive polynomials and initial direction numbers are those of Joe and Kuo (2008), as in SciPy.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from hotloop.sweeps import keys

_BITS: Final = 32
# Polynomial and initial numbers of each dimension but the first.
_INITIAL: Final = (
    (3, (1,)),
    (7, (1, 3)),
    (11, (1, 3, 1)),
    (13, (1, 1, 1)),
    (19, (1, 1, 3, 3)),
    (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)),
    (41, (1, 1, 5, 5, 5)),
    (47, (1, 1, 7, 11, 19)),
    (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)),
    (61, (1, 3, 5, 5, 31)),
    (67, (1, 3, 3, 9, 7, 49)),
    (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)),
    (103, (1, 1, 1, 15, 7, 5)),
    (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)),
    (131, (1, 3, 7, 11, 23, 15, 103)),
    (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)),
    (145, (1, 3, 5, 9, 1, 25, 53)),
    (157, (1, 3, 1, 13, 9, 35, 107)),
)
MOST_DIMENSIONS: Final = len(_INITIAL) + 1


def coordinate(index: int, dimension: int, *key: object) -> float:
    """Return one coordinate in [0, 1) of a point of the sequence, with a digital shift that depends on the key.

    >>> sorted(int(4 * coordinate(i, 3)) for i in range(4))
    [0, 1, 2, 3]
    """
    found = keys.integer("sobol", *key, dimension, bits=_BITS)
    for bit, direction in enumerate(_directions(dimension)):
        if index >> bit & 1:
            found ^= direction
    return float(found * 2.0**-_BITS)


@cache
def _directions(dimension: int) -> tuple[int, ...]:
    """Return the direction numbers of a dimension, as fractions of 2**32."""
    if dimension == 0:
        return tuple(1 << (_BITS - 1 - bit) for bit in range(_BITS))
    polynomial, initial = _INITIAL[dimension - 1]
    degree = polynomial.bit_length() - 1
    numbers = list(initial)
    while len(numbers) < _BITS:
        new = numbers[-degree] ^ (numbers[-degree] << degree)
        for power in range(1, degree):
            if polynomial >> (degree - power) & 1:
                new ^= numbers[-power] << power
        numbers.append(new)
    return tuple(number << (_BITS - 1 - bit) for bit, number in enumerate(numbers[:_BITS]))
