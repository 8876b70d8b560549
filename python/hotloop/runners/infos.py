"""Info in the form of Gymnasium's vector envs: a key is an array over rows, and `_key` marks the rows that have it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class InfoMaker:
    """Completes the info that the core returns.

    Masks that are true for every row are views of one read-only array.
    """

    def __init__(self, rows: int, available: Sequence[tuple[str, int]], wanted: Sequence[str]) -> None:
        lengths = dict(available)
        self._all_rows = np.ones(rows, np.bool_)
        self._all_rows.flags.writeable = False
        self._parts: list[tuple[str, int | slice]] = []
        start = 0
        for name in wanted:
            stop = start + lengths[name]
            self._parts.append((name, start if stop == start + 1 else slice(start, stop)))
            start = stop

    def split(self, packed: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Return the info arrays by name, as views of the packed array that the core fills."""
        return {name: packed[..., part] for name, part in self._parts}

    def complete(self, info: dict[str, Any], count: int) -> None:
        """Split packed arrays, arrange final observations and add the masks, for a batch of `count` rows."""
        all_rows = self._all_rows[:count]
        packed = info.pop("infos", None)
        finals = info.pop("finals", None)
        if packed is not None:
            info.update(self.split(packed))
        for key in tuple(info):
            info[f"_{key}"] = all_rows
        if finals is not None:
            self._add_finals(info, count, *finals)

    def _add_finals(
        self,
        info: dict[str, Any],
        count: int,
        rows: NDArray[np.int64],
        obs: NDArray[Any],
        packed: NDArray[np.float32],
        masks: NDArray[np.int8],
    ) -> None:
        ended = np.zeros(count, np.bool_)
        ended[rows] = True
        final_obs = np.full(count, None, object)
        final_obs[rows] = np.fromiter(obs, object, len(obs))
        entries: dict[str, NDArray[Any]] = {"action_mask": masks} if masks.size else {}
        entries.update(self.split(packed))
        final_info: dict[str, Any] = {}
        for name, values in entries.items():
            final_info[name] = np.zeros((count, *values.shape[1:]), values.dtype)
            final_info[name][rows] = values
            final_info[f"_{name}"] = ended
        info.update(final_obs=final_obs, _final_obs=ended, final_info=final_info, _final_info=ended)
