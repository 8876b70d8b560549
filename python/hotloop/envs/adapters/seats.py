"""The common part of adapters of envs with several agents: one seat per agent, all with equal or padded spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from hotloop.envs.adapters.padding import Padding
from hotloop.envs.adapters.rows import ObservationWriter, Rows, write_infos, write_mask, write_metrics
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import EnvSpec
from hotloop.errors import EnvOutputError, SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_NESTED = {"observation", "action_mask"}


class Seats:
    """The seats of an env; `agents` names them in order.

    `masked` says whether infos hold masks, `independent` whether agents end and restart episodes independently.
    """

    def __init__(
        self,
        agents: list[Any],
        observations: list[Any],
        actions: list[Any],
        *,
        masked: bool = False,
        independent: bool = False,
    ) -> None:
        if not agents:
            raise SpaceError("the env names no agents")
        self.agents = agents
        # PettingZoo's board games put masks into the observation.
        self._nested = all(isinstance(space, spaces.Dict) and set(space.spaces) == _NESTED for space in observations)
        if self._nested:
            observations = [space["observation"] for space in observations]
        self._padding: Padding | None = None
        if any(space != found[0] for found in (observations, actions) for space in found):
            self._padding = Padding(agents, observations, actions)
            observations, actions = [self._padding.observation], [self._padding.action]
        self._flat = FlatObservation(observations[0])
        self.action = FlatAction(actions[0])
        self._write = ObservationWriter(self._flat).write
        masked = masked or self._nested or (self._padding is not None and self._padding.masked)
        self.spec = EnvSpec(
            seats=len(agents),
            observation=self._flat.spec,
            action=self.action.spec,
            masked=masked and bool(self.action.spec.choices),
            independent_rows=independent,
            own_observation=self._flat.own,
            own_action=self.action.own,
            padded=self._padding is not None,
        )

    def bind(self, rows: Rows, infos: tuple[str, ...]) -> None:
        """Set the rows to write to, and the entries of info that are wanted."""
        self.rows = rows
        self.infos = infos

    def decode(self, seat: int, action: Any) -> Any:
        """Return a seat's action in the env's own form."""
        return self.action.unflatten(action) if self._padding is None else self._padding.decode(seat, action)

    def show(self, seat: int, obs: Any, info: Mapping[str, Any]) -> None:
        """Write the observation, infos and mask of one seat."""
        rows = self.rows
        mask = info.get("action_mask")
        if self._nested:
            obs, mask = obs["observation"], obs["action_mask"]
        if self._padding is not None:
            try:
                obs, mask = self._padding.pad(seat, obs), self._padding.mask(seat, mask)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                agent = self.agents[seat]
                raise EnvOutputError(f"the observation of agent {agent!r} does not fit its space: {error}") from error
        self._write(obs, rows.obs[seat : seat + 1].reshape(()) if rows.obs.ndim == 1 else rows.obs[seat])
        write_infos(info, self.infos, rows.infos[seat], rows.info_given[seat])
        write_metrics(info, rows, seat)
        if rows.mask is not None:
            if mask is None:
                rows.mask[seat] = 1
            else:
                write_mask(mask, rows.mask[seat])

    def blank(self, seat: int) -> None:
        """Clear a seat that takes no part any more."""
        self.rows.obs[seat] = 0
        self.rows.valid[seat] = False
        if self.rows.mask is not None:
            self.rows.mask[seat] = 1

    def get_state(self) -> dict[str, NDArray[Any]] | None:
        """Return `None`: the env does not offer its state."""
        return None

    def show_state(self, seen: Any) -> None:
        """Not offered."""

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> Any:
        """Not offered."""
        raise NotImplementedError("this env does not offer its state")
