"""The memory features and masks of the native env, computed from observations and actions alone.

The original simulator observes 52 bits and nothing else; policies trained with `features=memory` need this there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hotloop.envs.cage2.network import BITS, COMPACT_ACTIONS, HOSTS

_COUNT: Final = len(HOSTS)
# Ports as bits of a set, in ascending order of red's preference.
_SSH, _RDP, _SMB, _HTTP, _HTTPS, _SQL, _SMTP, _FTP = (1 << bit for bit in range(8))
_WEB: Final = _HTTP | _HTTPS
_SERVER: Final = _SSH | _RDP | _SMB | _WEB
_OPEN: Final = (_SSH, _SSH, _SERVER, _SERVER, *[_SSH] * 4, _SSH | _FTP, _SSH | _FTP, _SMB | _RDP, _WEB | _RDP | _SMTP)
_OPEN_AT_USER4: Final = _SSH | _WEB | _SQL | _SMTP
_LINUX: Final = _SMTP | _WEB
_USEFUL: Final = (
    *(_LINUX, _LINUX, _FTP, _FTP, _LINUX, _LINUX, _LINUX, _LINUX),
    *(_WEB | _SMB | _RDP, _WEB | _SMB | _RDP, _FTP | _WEB | _SSH, _SSH, 0),
)
_WINDOWS: Final = frozenset((2, 3, 8, 9, 10))
# For each decoy of `DECOYS`: the port that must be free, and the port that it opens.
_CHECKS: Final = (_HTTP, _FTP, _SMTP, _SMB, _SSH, _RDP, _HTTPS, _FTP)
_OPENS: Final = (_HTTP, _FTP, _SMTP, _SMB, _SSH, _RDP, _HTTPS, _HTTP)
_WINDOWS_ONLY: Final = frozenset((1, 3, 5))
_LINUX_ONLY: Final = frozenset((2, 7))
_DECOYS_FROM, _RESTORES_FROM = 28, 132
_MOST_DECOYS: Final = 4
_DEFENDER, _OP_SERVER = 0, 7


class EpisodeMemory:
    """Facts that blue can derive from the observations and actions of one episode."""

    def __init__(self, *, green: bool = False) -> None:
        self._green = green
        self._open = np.array([*_OPEN, _OPEN_AT_USER4])
        self._useful = np.array(_USEFUL)
        self._seen = np.zeros(_COUNT, np.bool_)
        self._touched = np.zeros(_COUNT, np.bool_)
        self._taken = np.zeros(_COUNT, np.bool_)
        self._restored = np.zeros(_COUNT, np.bool_)
        self._ages = np.full(_COUNT, 255)
        self._steps = -1
        self._decoys = np.zeros(_COUNT, np.int64)
        self._listed = np.zeros(_COUNT, np.int64)

    def observe(self, bits: NDArray[Any]) -> None:
        """Update the memory with an observation."""
        self._steps += 1
        table = bits.reshape(_COUNT, 4) != 0
        active = table[:, 0]
        self._ages = np.minimum(self._ages + 1, 255)
        self._ages[active] = 0
        self._listed = np.where(active & ~self._seen, self._decoys, self._listed)
        self._seen |= active
        self._touched |= active
        self._taken = table[:, 3]

    def act(self, action: int) -> None:
        """Update the memory with an action of the full space."""
        if action >= _RESTORES_FROM:
            host = action - _RESTORES_FROM
            self._decoys[host] = 0
            self._restored[host] = True
        elif action >= _DECOYS_FROM:
            kind, host = divmod(action - _DECOYS_FROM, _COUNT)
            fits = kind not in (_LINUX_ONLY if host in _WINDOWS else _WINDOWS_ONLY)
            if fits and not (self._open[host] | self._decoys[host]) & _CHECKS[kind]:
                self._decoys[host] |= _OPENS[kind]
                self._touched[host] = True

    def features(self, bits: NDArray[Any]) -> NDArray[np.float32]:
        """Return the observation of `features=memory`."""
        notes = np.empty((_COUNT, 5), np.float32)
        notes[:, 0] = self._seen
        notes[:, 1] = self._seen / (1.0 + self._ages).astype(np.float32)
        notes[:, 2] = self._restored
        notes[:, 3] = np.bitwise_count(self._decoys) / np.float32(_MOST_DECOYS)
        notes[:, 4] = np.bitwise_count(self._listed) / np.float32(_MOST_DECOYS)
        clock = np.ones(1, np.float32) / np.float32(1 + self._steps)
        return np.concatenate([bits.reshape(BITS).astype(np.float32), clock, notes.ravel()])

    def mask(self) -> NDArray[np.bool_]:
        """Return which compact actions have an effect."""
        analyse, restore = self._touched.copy(), self._touched.copy()
        analyse[_DEFENDER] = False
        restore[_OP_SERVER] = True
        remove = np.ones(_COUNT, np.bool_) if self._green else self._taken
        mask = np.concatenate([[True], analyse, remove, restore, (self._useful & ~self._decoys) != 0])
        assert mask.shape == (COMPACT_ACTIONS,)
        return mask

    def to_full(self, action: int) -> int:
        """Return the full action of a compact one in this state; Sleep if no useful decoy is left."""
        if action == 0:
            return 0
        part, host = divmod(action - 1, _COUNT)
        if part < 3:
            return (2, 15, _RESTORES_FROM)[part] + host
        left = int(self._useful[host] & ~self._decoys[host])
        if not left:
            return 0
        return _DECOYS_FROM + _COUNT * _OPENS.index(1 << (left.bit_length() - 1)) + host
