"""MettaGrid from its config: all agents are stepped by one call through arrays, and seeds decide on maps.

MettaGrid's own env classes draw maps from elsewhere, so that their resets with equal seeds differ.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from hotloop.envs.adapters.seats import Seats

# The dtype of MettaGrid's actions.
_SEEDS: Final = 2**31


class MettaGridEnv(Seats):
    """A simulation of a `MettaGridConfig`; episodes end for each agent as the simulation says."""

    metadata: ClassVar = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(self, config: Any) -> None:
        from mettagrid.policy.policy_env_interface import PolicyEnvInterface

        self.env = self
        self.config = config
        self.simulation: Any = None
        interface = PolicyEnvInterface.from_mg_cfg(config)
        count = int(interface.num_agents)
        super().__init__(list(range(count)), [interface.observation_space] * count, [interface.action_space] * count)
        self._names = interface.action_names
        self._over = np.zeros(count, np.bool_)
        self._random = np.random.default_rng(0)

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Build a map and start an episode on it, with that seed or the next one derived from the last."""
        from mettagrid.simulator import Simulation

        if seed is not None:
            self._random = np.random.default_rng(seed)
        world, course = self._random.integers(_SEEDS, size=2).tolist()
        config, builder = self.config, self.config.game.map_builder
        if getattr(builder, "seed", 0) is None:
            game = config.game.model_copy(update={"map_builder": builder.model_copy(update={"seed": world})})
            config = config.model_copy(update={"game": game})
        self.close()
        self._buffers = self._fresh_buffers()
        self.simulation = Simulation(config, seed=course, buffers=self._buffers)
        self._ids = np.array([self.simulation.action_ids[name] for name in self._names], np.int32)
        self._over[:] = False
        self._look()

    def _fresh_buffers(self) -> Any:
        from mettagrid.simulator.simulator import Buffers

        count = len(self.agents)
        return Buffers(
            observations=np.zeros((count, *self._flat.shape), np.uint8),
            terminals=np.zeros(count, np.bool_),
            truncations=np.zeros(count, np.bool_),
            rewards=np.zeros(count, np.float32),
            masks=np.ones(count, np.bool_),
            actions=np.zeros(count, np.int32),
            teacher_actions=np.zeros(count, np.int32),
            vibe_actions=np.zeros(count, np.int32),
        )

    def step(self, actions: Any) -> bool:
        """Step all agents."""
        buffers, rows, over = self._buffers, self.rows, self._over
        buffers.actions[:] = self._ids[actions]
        self.simulation.step()
        rows.reward[:] = buffers.rewards
        np.greater(buffers.terminals, over, out=rows.terminated)
        np.greater(buffers.truncations, over | rows.terminated, out=rows.truncated)
        over |= rows.terminated | rows.truncated
        self._look()
        return bool(over.all())

    def _look(self) -> None:
        self.rows.obs[...] = self._buffers.observations
        np.logical_not(self._over, out=self.rows.valid)
        self.rows.info_given.fill(False)

    def render(self) -> str:
        """Return the whole map as text, as in MettaGrid's own terminal view."""
        from mettagrid.renderer.miniscope.buffer import MapBuffer
        from mettagrid.renderer.miniscope.symbol import DEFAULT_SYMBOL_MAP

        shown = self.simulation
        symbols = {**DEFAULT_SYMBOL_MAP, **self.config.game.render.symbols}
        return str(MapBuffer(symbols, shown.map_height, shown.map_width).render_full_map(shown.grid_objects()))

    def close(self) -> None:
        """Close the simulation."""
        if self.simulation is not None:
            self.simulation.close()
            self.simulation = None
