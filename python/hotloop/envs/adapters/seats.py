"""What adapters of envs with several agents share: one seat per agent, all with equal spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from hotloop.envs.adapters.rows import ObservationWriter, Rows, write_infos, write_mask
from hotloop.envs.flatten import FlatAction, FlatObservation
from hotloop.envs.spec import EnvSpec
from hotloop.errors import SpaceError

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
        for what, found in (("observation", observations), ("action", actions)):
            for agent, space in zip(agents, found, strict=True):
                if space != found[0]:
                    raise SpaceError(
                        f"the {what} space of agent {agent!r} is {space}, that of {agents[0]!r} is {found[0]}: seats "
                        "of one env need equal spaces (wrappers that pad them exist)"
                    )
        self.agents = agents
        space = observations[0]
        # PettingZoo's board games show their masks inside the observation.
        self._nested = isinstance(space, spaces.Dict) and set(space.spaces) == _NESTED
        self._flat = FlatObservation(space["observation"] if self._nested else space)
        self.action = FlatAction(actions[0])
        self._write = ObservationWriter(self._flat).write
        self.spec = EnvSpec(
            seats=len(agents),
            observation=self._flat.spec,
            action=self.action.spec,
            masked=(masked or self._nested) and bool(self.action.spec.choices),
            independent_rows=independent,
        )

    def bind(self, rows: Rows, infos: tuple[str, ...]) -> None:
        """Where to write from now on."""
        self.rows = rows
        self.infos = infos

    def show(self, seat: int, obs: Any, info: Mapping[str, Any]) -> None:
        """Writes what one seat sees."""
        rows = self.rows
        if rows.obs.ndim == 1:
            self._write(obs["observation"] if self._nested else obs, rows.obs[seat : seat + 1].reshape(()))
        else:
            self._write(obs["observation"] if self._nested else obs, rows.obs[seat])
        write_infos(info, self.infos, rows.infos[seat], rows.told[seat])
        if rows.mask is not None:
            mask = obs["action_mask"] if self._nested else info.get("action_mask")
            if mask is None:
                rows.mask[seat] = 1
            else:
                write_mask(mask, rows.mask[seat])

    def blank(self, seat: int) -> None:
        """A seat that sees nothing any more."""
        self.rows.obs[seat] = 0
        self.rows.valid[seat] = False
        if self.rows.mask is not None:
            self.rows.mask[seat] = 1

    def get_state(self) -> dict[str, NDArray[Any]] | None:
        """Not offered."""
        return None

    def show_state(self, seen: Any) -> None:
        """Not offered."""

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> Any:
        """Not offered."""
        raise NotImplementedError("this env does not offer its state")
