"""dist_classicrl on tictactoe: its own env, table and loop, on one thread."""

from __future__ import annotations

import time
from importlib.util import find_spec

NAME = "dist_classicrl"


def missing() -> str | None:
    """Return why it cannot be measured, or None."""
    if find_spec(NAME) is None:
        return "it is not installed (pip install dist-classicrl, for Python 3.13 or newer)"
    return None


def steps_per_second(num_envs: int, seconds: float) -> float:
    """Return its steps per second with this many envs, measured for about this long."""
    from dist_classicrl.algorithms.base_algorithms.q_learning_optimal import OptimalQLearningBase
    from dist_classicrl.algorithms.runtime.single_thread_runtime import SingleThreadQLearning
    from dist_classicrl.environments.tiktaktoe_mod import TicTacToeEnv
    from dist_classicrl.schedules.constant_schedule import ConstantSchedule
    from dist_classicrl.wrappers.flatten_multidiscrete_wrapper import FlattenMultiDiscreteObservationsWrapper
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    def make() -> FlattenMultiDiscreteObservationsWrapper:
        return FlattenMultiDiscreteObservationsWrapper(TicTacToeEnv())

    envs = SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    learner = SingleThreadQLearning(
        OptimalQLearningBase(3**9, 9, discount_factor=0.99, seed=0), ConstantSchedule(0.1), ConstantSchedule(0.3)
    )
    # So many that games end: it divides by their number.
    block = max(20, 1024 // num_envs)
    state = learner.run_steps(block, envs)[3]
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        state = learner.run_steps(block, envs, state)[3]
        steps += block * num_envs
    rate = steps / (time.perf_counter() - start)
    envs.close()
    return rate
