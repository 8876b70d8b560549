r"""Nim against an opponent who plays at random: a compiled game in which some moves are forbidden at times.

Three heaps; a move takes one to three matches from one of them; whoever takes the last match wins.

hotloop train examples/compiled_nim.py:Nim --until 0.7 --steps 2000000 \
    ppo.learning_rate=0.002 ppo.gamma=1.0 ppo.entropy=0.003
hotloop play last
"""

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import hotloop
from hotloop.envs.compiled import Bytes, Option, Rng, below

HEAPS = 3
MOST_TAKEN = 3
MOST_MATCHES = 9


class Options:
    """For type checkers: what people can set."""

    matches: int


def take(heaps: Bytes, move: int) -> bool:
    """Plays a move; whether it took the last match of all."""
    heaps[move // MOST_TAKEN] -= move % MOST_TAKEN + 1
    left = 0
    for heap in range(HEAPS):
        left += heaps[heap]
    return left == 0


def allowed(heaps: Bytes, move: int) -> bool:
    """Whether the heap has as many matches as the move takes."""
    return heaps[move // MOST_TAKEN] > move % MOST_TAKEN


@hotloop.compiled(
    observation=spaces.Box(0.0, 1.0, (HEAPS * MOST_MATCHES,)),
    action=spaces.Discrete(HEAPS * MOST_TAKEN),
    masked=True,
    options={"matches": Option(5, 3, MOST_MATCHES, "how many matches a heap has at most at the start")},
)
class Nim:
    """Take the last match, against an opponent who plays at random."""

    heaps = Bytes(HEAPS)
    won: bool

    def reset(self, rng: Rng, options: Options) -> None:
        """Heaps of several sizes; who begins is a coin's throw."""
        self.won = False
        for heap in range(HEAPS):
            self.heaps[heap] = 2 + below(rng, heap, options.matches - 1)
        if below(rng, HEAPS, 2) == 1:
            reply(self.heaps, rng)

    def step(self, action: int, rng: Rng) -> tuple[float, bool]:
        """Plays the move, and the opponent's answer."""
        if take(self.heaps, action):
            self.won = True
            return 1.0, True
        if reply(self.heaps, rng):
            return -1.0, True
        return 0.0, False

    def observe(self, obs: NDArray[np.float32], mask: NDArray[np.uint8]) -> None:
        """Every heap as a row of matches, and which moves there are."""
        for heap in range(HEAPS):
            for match in range(MOST_MATCHES):
                obs[heap * MOST_MATCHES + match] = 1.0 if match < self.heaps[heap] else 0.0
        for move in range(HEAPS * MOST_TAKEN):
            mask[move] = allowed(self.heaps, move)

    def success(self) -> bool:
        """Whether the game was won."""
        return self.won

    def render(self) -> str:
        """The heaps."""
        return "\n".join("|" * self.heaps[heap] or "-" for heap in range(HEAPS))


def reply(heaps: Bytes, rng: Rng) -> bool:
    """A random move of the opponent; whether it took the last match."""
    moves = 0
    for move in range(HEAPS * MOST_TAKEN):
        moves += allowed(heaps, move)
    nth = below(rng, HEAPS + 1, moves)
    for move in range(HEAPS * MOST_TAKEN):
        if allowed(heaps, move):
            if nth == 0:
                return take(heaps, move)
            nth -= 1
    return False
