# mypy: disable-error-code="misc"
"""A small world of MettaGrid's: agents walk to hearts, each of which can be taken once. Also stepped by hand."""

from typing import Any

import numpy as np
from mettagrid.builder import building
from mettagrid.config.game_value import InventoryValue
from mettagrid.config.handler_config import Handler, withdraw
from mettagrid.config.mettagrid_config import (
    ActionsConfig,
    AgentConfig,
    GameConfig,
    GridObjectConfig,
    InventoryConfig,
    MettaGridConfig,
    MoveActionConfig,
    NoopActionConfig,
    ObsConfig,
)
from mettagrid.config.reward_config import reward
from mettagrid.envs.pettingzoo_env import MettaGridPettingZooEnv
from mettagrid.map_builder.random_map import RandomMapBuilder
from mettagrid.simulator import Simulation, Simulator

STEPS = 20


def config(num_agents: int = 3, map_seed: int | None = None) -> Any:
    """The world; every episode has a map of its own, unless `map_seed` fixes it."""
    heart = GridObjectConfig(
        name="heart",
        inventory=InventoryConfig(initial={"heart": 1}),
        on_use_handler=Handler(mutations=[withdraw({"heart": 1}, remove_when_empty=True)]),
    )
    game = GameConfig(
        num_agents=num_agents,
        max_steps=STEPS,
        episode_truncates=True,
        resource_names=["heart"],
        objects={"wall": building.wall, "heart": heart},
        actions=ActionsConfig(noop=NoopActionConfig(), move=MoveActionConfig()),
        agent=AgentConfig(rewards={"heart": reward(InventoryValue(item="heart"))}),
        obs=ObsConfig(width=5, height=5, num_tokens=96),
        map_builder=RandomMapBuilder.Config(
            agents=num_agents, width=9, height=9, border_width=1, objects={"heart": 20}, seed=map_seed
        ),
    )
    return MettaGridConfig(game=game)


def zoo(map_seed: int | None = None) -> Any:
    """The same in MettaGrid's PettingZoo class."""
    return MettaGridPettingZooEnv(Simulator(), config(map_seed=map_seed))


def simulate(actions: Any, map_seed: int, seed: int) -> dict[str, Any]:
    """Return the results of an episode of MettaGrid's own simulation, given its actions agent by agent."""
    world = Simulation(config(map_seed=map_seed), seed=seed)
    core = world._c_sim
    seen, earned, ended = [core.observations().copy()], [], []
    for row in actions:
        for agent, action in enumerate(row):
            world.agent(agent).set_action(world.action_names[action])
        world.step()
        seen.append(core.observations().copy())
        earned.append(core.rewards().copy())
        ended.append([core.terminals().copy(), core.truncations().copy()])
    return {"obs": np.array(seen), "reward": np.array(earned), "ends": np.array(ended)}


def step_zoo(actions: Any, map_seed: int, seed: int) -> dict[str, Any]:
    """Return an episode of the PettingZoo class; its maps count the resets before, of which an adapter has one."""
    env = zoo(map_seed)
    env.reset(seed=0)
    by_agent, _ = env.reset(seed=seed)
    seen, earned, ended = [[by_agent[agent].copy() for agent in range(3)]], [], []
    for row in actions:
        by_agent, rewards, terminated, truncated, _ = env.step(dict(enumerate(row)))
        seen.append([by_agent[agent].copy() for agent in range(3)])
        earned.append([rewards[agent] for agent in range(3)])
        ended.append([[result[agent] for agent in range(3)] for result in (terminated, truncated)])
    return {"obs": np.array(seen), "reward": np.array(earned), "ends": np.array(ended)}
