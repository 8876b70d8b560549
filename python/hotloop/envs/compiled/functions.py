"""Random numbers and math functions for compiled envs.

Plain Python over whole numbers and 64-bit floats, which gives the same bits compiled and uncompiled, and on every
machine. Draws have the bits that native envs and `hotloop.h` give.
"""

import math
from typing import Final, NamedTuple

_WORD: Final = 0xFFFFFFFF
_MIX_1: Final = 0x7FEB352D
_MIX_2: Final = 0x846CA68B
_INDEX_STEP: Final = 0xC13FA9A9
_DRAW_STEP: Final = 0x9E3779B9


class Rng(NamedTuple):
    """The key of random numbers: the env's stream, the episode, and its step (0 at reset).

    Draws have numbers and no order: the same number twice gives the same draw.
    """

    lo: int
    hi: int
    episode: int
    step: int


def _mix(x: int) -> int:
    x = ((x ^ (x >> 16)) * _MIX_1) & _WORD
    x = ((x ^ (x >> 15)) * _MIX_2) & _WORD
    return x ^ (x >> 16)


def _draw(lo: int, hi: int, episode: int, step: int, draw: int) -> int:
    spread = ((episode + 1) * _INDEX_STEP) & _WORD
    lo = lo ^ _mix(hi ^ spread)
    hi = hi ^ _mix((lo + spread) & _WORD)
    spread = ((step + 1) * _INDEX_STEP) & _WORD
    lo = lo ^ _mix(hi ^ spread)
    hi = hi ^ _mix((lo + spread) & _WORD)
    x = (lo + draw * _DRAW_STEP) & _WORD
    x = ((x ^ (x >> 16)) * _MIX_1) & _WORD
    x = x ^ hi
    x = ((x ^ (x >> 15)) * _MIX_2) & _WORD
    return x ^ (x >> 16)


def bits(rng: Rng, draw: int) -> int:
    """32 random bits."""
    return _draw(rng.lo, rng.hi, rng.episode, rng.step, draw)


def uniform(rng: Rng, draw: int, low: float = 0.0, high: float = 1.0) -> float:
    """Return a uniform number in [low, high), one of 2^24; rounding may reach `high`."""
    return low + (bits(rng, draw) >> 8) * (1.0 / 16777216.0) * (high - low)


def below(rng: Rng, draw: int, n: int) -> int:
    """Return a uniform integer below n."""
    return (bits(rng, draw) * n) >> 32


def episode_draws(rng: Rng) -> Rng:
    """Return the key of draws that are the same in the whole episode."""
    return Rng(rng.lo, rng.hi, rng.episode, _WORD)


def normal(rng: Rng, draw: int) -> float:
    """Return a standard normal number (Box-Muller), from the draws `2 * draw` and `2 * draw + 1`."""
    chance = 1.0 - uniform(rng, 2 * draw)
    angle = uniform(rng, 2 * draw + 1) * 6.283185307179586
    return math.sqrt(-2.0 * log(chance)) * cos(angle)


def sin(x: float) -> float:
    """Return the sine, accurate to a bit or two up to a million turns."""
    return sin_cos(x)[0]


def cos(x: float) -> float:
    """Return the cosine, accurate to a bit or two up to a million turns."""
    return sin_cos(x)[1]


def sin_cos(x: float) -> tuple[float, float]:
    """Return sine and cosine of an angle, at little more than the cost of one."""
    quarter = math.floor(x * 0.6366197723675814 + 0.5)
    # pi / 2 in two parts, of which the first has exact multiples.
    r = (x - quarter * 1.5707963267341256) - quarter * 6.077100506506192e-11
    z = r * r
    p = -2.5050760253406863e-08 + z * 1.58969099521155e-10
    p = -0.0001984126982985795 + z * (2.7557313707070068e-06 + z * p)
    sine = r + r * z * (-0.16666666666666632 + z * (0.00833333333332249 + z * p))
    p = 2.087572321298175e-09 - z * 1.1359647557788195e-11
    p = 2.480158728947673e-05 + z * (-2.7557314351390663e-07 + z * p)
    cosine = 1.0 - 0.5 * z + z * z * (0.0416666666666666 + z * (-0.001388888888887411 + z * p))
    if quarter & 1:
        sine, cosine = cosine, -sine
    return (-sine, -cosine) if quarter & 2 else (sine, cosine)


def exp(x: float) -> float:
    """Return the exponential; infinite from 710 on, 0 from -746 down."""
    if x > 709.78:
        return math.inf
    if x < -745.2:
        return 0.0
    n = math.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    p = 1.0
    for k in range(14, 0, -1):
        p = 1.0 + r / k * p
    return math.ldexp(p, n)


def log(x: float) -> float:
    """Return the natural logarithm of a positive number."""
    if not x > 0.0:
        raise ValueError("log of a number that is not above 0")
    if x == math.inf:
        return x
    m, e = math.frexp(x)
    if m < 0.7071067811865476:
        m, e = m * 2.0, e - 1
    f = (m - 1.0) / (m + 1.0)
    z = f * f
    p = 0.0
    for k in range(23, 0, -2):
        p = p * z + 1.0 / k
    return e * 0.6931471803691238 + (2.0 * f * p + e * 1.9082149292705877e-10)


def tanh(x: float) -> float:
    """Return the hyperbolic tangent."""
    if abs(x) < 0.05:
        z = x * x
        p = -0.05396825396825397 + z * 0.021869488536155203
        return x + x * z * (-0.3333333333333333 + z * (0.13333333333333333 + z * p))
    t = exp(-2.0 * abs(x))
    value = (1.0 - t) / (1.0 + t)
    return -value if x < 0.0 else value
