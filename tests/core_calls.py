"""A call of every function, method and property of the native core, for tests that go through all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotloop import _core
from hotloop.policies.protocol import ActRequest

ROWS = 4
SETTINGS = {"epochs": 1, "minibatch_size": 8}
TABULAR = {
    "algorithm": "q-learning",
    "gamma": 0.9,
    "learning_rate": ("constant", 0.1, 0.0, 1.0),
    "exploration": ("constant", 0.1, 0.0, 1.0),
    "batch": 1,
    "replay": 0,
    "replays": 0,
    "table": "dense",
    "storage": "f32",
    "initial_value": 0.0,
    "private": False,
    "exchange": True,
    "iteration": 2048,
    "threads": 1,
    "seed": 0,
    "attempt": 0,
    "first_worker": 0,
}
DESCRIPTION = _core.describe("cartpole")
SIGNAL_WORDS = _core.Signals.words(1, 2)
FROZEN_LAKE = ("frozen-lake", None, TABULAR, 16, 4)
DTYPES = {
    "obs": "f4", "final_obs": "f4", "reward": "f4", "terminated": "?", "truncated": "?", "cut": "?", "finished": "?",
    "return": "f4", "length": "i8", "valid": "?", "over": "?", "seeded": "?", "number": "i8", "policy": "i4",
    "next_policy": "i4", "total": "f8", "played": "i8", "brought": "i8", "weight": "f4", "pulse": "f8", "cursor": "i8",
}  # fmt: skip


def pool(**options: Any) -> _core.Pool:
    made = _core.Pool("cartpole", ROWS, num_threads=1, num_groups=2, autoreset="same_step", **options)
    made.seed(0)
    made.reset()
    return made


def learner() -> _core.PpoLearner:
    return _core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=ROWS, horizon=8, seed=0, num_threads=1)


def external_rollout() -> _core.ExternalRollout:
    return _core.ExternalRollout(DESCRIPTION, rows=ROWS, horizon=8, seed=0, num_threads=1)


def stepper() -> _core.Stepper:
    shapes = {"obs": (1, 4), "final_obs": (1, 4), "pulse": (2,)}
    arrays = {name: np.zeros(shapes.get(name, (1,)), dtype) for name, dtype in DTYPES.items()}
    made = _core.Stepper(arrays, 1, 0, True, True)
    made.put(0, env_step, env_reset)
    return made


def env_step(action: Any) -> tuple[Any, ...]:
    return np.zeros(4, np.float32), 1.0, True, False, {}


def env_reset(**_: Any) -> tuple[Any, ...]:
    return np.zeros(4, np.float32), {}


@dataclass
class Objects:
    """One object of every class."""

    pool: _core.Pool
    rollout: _core.Rollout
    learner: _core.PpoLearner
    external: _core.ExternalRollout
    stepper: _core.Stepper
    signals: _core.Signals
    choices: _core.Choices
    tabular: _core.TabularLearner
    external_tabular: _core.ExternalTabularLearner
    table: _core.QTable


def make_signals() -> _core.Signals:
    return _core.Signals(np.zeros(SIGNAL_WORDS, np.uint32), 1, 2)


def make_choices() -> _core.Choices:
    return _core.Choices(np.zeros((2, ROWS), np.int64), np.zeros(1, np.int64), [(0, ROWS)], 2)


def make_table() -> _core.QTable:
    return _core.QTable(2, 2, 0.0, {"values": np.zeros(4, np.float32)})


def make_objects() -> Objects:
    runner = pool()
    tabular, external_tabular = _core.TabularLearner(*FROZEN_LAKE), _core.ExternalTabularLearner(TABULAR, 16, 4)
    external_tabular.begin(0, 15)
    return Objects(
        runner, runner.rollout(8), learner(), external_rollout(), stepper(), make_signals(), make_choices(),
        tabular, external_tabular, make_table(),
    )  # fmt: skip


def function_calls() -> dict[str, Callable[[], Any]]:
    """By name: every function and constructor."""
    return {
        "list_envs": _core.list_envs,
        "env_entry": lambda: _core.env_entry("cartpole"),
        "add_env": lambda: _core.add_env("native:null", 0),
        "has_env": lambda: _core.has_env("cartpole"),
        "describe": lambda: _core.describe("cartpole"),
        "transitions": lambda: _core.transitions("frozen-lake"),
        "isa": _core.isa,
        "usable_cores": _core.usable_cores,
        "orthogonal_weights": lambda: _core.orthogonal_weights(2, 2, gain=1.0, seed=0, attempt=0, index=0),
        "fma_peak": lambda: _core.fma_peak(1, 0.001),
        "update_speed": lambda: _core.update_speed(4, [8], 2, rows=64, minibatch_size=64, seconds=0.001),
        "table_bytes": lambda: _core.table_bytes(TABULAR, 16, 4),
        "optimal_values": lambda: _core.optimal_values("frozen-lake", None, 0.9, 1e-3),
        "reachable_states": lambda: _core.reachable_states("frozen-lake"),
        "evaluate_policy": lambda: _core.evaluate_policy("frozen-lake", None, np.zeros(16, np.uint32), 10),
        "Pool": pool,
        "PpoLearner": learner,
        "ExternalRollout": external_rollout,
        "Stepper": stepper,
        "Signals": make_signals,
        "Choices": make_choices,
        "QTable": make_table,
        "TabularLearner": lambda: _core.TabularLearner(*FROZEN_LAKE),
        "ExternalTabularLearner": lambda: _core.ExternalTabularLearner(TABULAR, 16, 4),
    }


def method_calls(objects: Objects) -> dict[str, Callable[[], Any]]:
    """By class and name: every method and property, called on these objects. `close` is last."""
    o = objects
    actions = np.zeros(ROWS, np.int64)
    obs = np.zeros((ROWS, 4), np.float32)
    slots, rows = np.zeros(ROWS, np.int64), np.arange(ROWS)
    outputs = np.zeros((ROWS, o.external.outputs), np.float32)
    snapshot, state, weights = o.pool.snapshot(), o.pool.get_state(), o.learner.arrays()
    changes, table, tabular_state = o.tabular.changes(), o.tabular.table(), o.tabular.snapshot()
    external_table, external_state = o.external_tabular.table(), o.external_tabular.snapshot()
    return {
        "Pool.num_threads": lambda: o.pool.num_threads,
        "Pool.num_groups": lambda: o.pool.num_groups,
        "Pool.in_flight": lambda: o.pool.in_flight,
        "Pool.describe": o.pool.describe,
        "Pool.options": o.pool.options,
        "Pool.group_starts": o.pool.group_starts,
        "Pool.seed": lambda: o.pool.seed(1),
        "Pool.reset": o.pool.reset,
        "Pool.observe": o.pool.observe,
        "Pool.step": lambda: o.pool.step(actions),
        "Pool.flight": o.pool.flight,
        "Pool.send": lambda: o.pool.send(actions[: ROWS // 2], 0),
        "Pool.recv": lambda: o.pool.recv(1),
        "Pool.finals": lambda: o.pool.finals([0]),
        "Pool.rollout": lambda: o.pool.rollout(4),
        "Pool.observe_into": lambda: o.pool.observe_into(o.rollout, 0),
        "Pool.rollout_finals": lambda: o.pool.rollout_finals(o.rollout),
        "Pool.episodes": o.pool.episodes,
        "Pool.faults": o.pool.faults,
        "Pool.configure": lambda: o.pool.configure({"max_steps": 20}),
        "Pool.set_policies": lambda: o.pool.set_policies([0] * ROWS),
        "Pool.weights": o.pool.weights,
        "Pool.set_weights": lambda: o.pool.set_weights([1.0]),
        "Pool.snapshot": o.pool.snapshot,
        "Pool.restore": lambda: o.pool.restore(snapshot),
        "Pool.get_state": o.pool.get_state,
        "Pool.set_state": lambda: o.pool.set_state(state, range(ROWS)),
        "Rollout.arrays": o.rollout.arrays,
        "PpoLearner.num_threads": lambda: o.learner.num_threads,
        "PpoLearner.set_threads": lambda: o.learner.set_threads(1),
        "PpoLearner.parameters": lambda: o.learner.parameters,
        "PpoLearner.products": lambda: o.learner.products,
        "PpoLearner.memory_len": lambda: o.learner.memory_len,
        "PpoLearner.notes": lambda: o.learner.notes,
        "PpoLearner.conditions": o.learner.conditions,
        "PpoLearner.changed_since": lambda: o.learner.changed_since({}),
        "PpoLearner.iterate": lambda: o.learner.iterate(o.pool, SETTINGS, 1, 10.0),
        "PpoLearner.collect": lambda: o.learner.collect(o.pool, SETTINGS),
        "PpoLearner.advantages": lambda: o.learner.advantages(SETTINGS),
        "PpoLearner.update": lambda: o.learner.update(SETTINGS),
        "PpoLearner.gradient": lambda: o.learner.gradient(SETTINGS),
        "PpoLearner.rollout": o.learner.rollout,
        "PpoLearner.begin_rollout": o.learner.begin_rollout,
        "PpoLearner.act_rows": lambda: o.learner.act_rows(slots, rows, 0),
        "PpoLearner.end_episodes": lambda: o.learner.end_episodes(slots, rows),
        "PpoLearner.finish_rollout": lambda: o.learner.finish_rollout(SETTINGS),
        "PpoLearner.act": lambda: o.learner.act(ActRequest(obs, deterministic=True)),
        "PpoLearner.arrays": o.learner.arrays,
        "PpoLearner.set_arrays": lambda: o.learner.set_arrays(weights),
        "PpoLearner.statistics": o.learner.statistics,
        "PpoLearner.state": o.learner.state,
        "PpoLearner.set_state": lambda: o.learner.set_state({}),
        "PpoLearner.set_opponents": lambda: o.learner.set_opponents([]),
        "ExternalRollout.num_threads": lambda: o.external.num_threads,
        "ExternalRollout.outputs": lambda: o.external.outputs,
        "ExternalRollout.rollout": o.external.rollout,
        "ExternalRollout.observe": lambda: o.external.observe(o.pool),
        "ExternalRollout.begin": o.external.begin,
        "ExternalRollout.step": lambda: o.external.step(o.pool, 0, outputs, 0),
        "ExternalRollout.finals": lambda: o.external.finals(o.pool),
        "ExternalRollout.sample_rows": lambda: o.external.sample_rows(slots, rows, outputs, 0),
        "ExternalRollout.sample": lambda: o.external.sample(outputs, ActRequest(obs, deterministic=True)),
        "ExternalRollout.advantages": lambda: o.external.advantages(SETTINGS),
        "ExternalRollout.update_statistics": lambda: o.external.update_statistics(SETTINGS),
        "ExternalRollout.explained_variance": o.external.explained_variance,
        "ExternalRollout.order": lambda: o.external.order(0, 0, 8),
        "ExternalRollout.statistics": o.external.statistics,
        "ExternalRollout.state": o.external.state,
        "ExternalRollout.set_state": lambda: o.external.set_state({}),
        "Signals.words": lambda: o.signals.words(1, 2),
        "Signals.send": lambda: o.signals.send(0, 0, 1),
        "Signals.send_all": lambda: o.signals.send_all([0, 0], 1),
        "Signals.take_back": lambda: o.signals.take_back(0),
        "Signals.receive": lambda: o.signals.receive([0], 1, 0.0),
        "Signals.alarm": o.signals.alarm,
        "Signals.next": lambda: o.signals.next(0, [0], 0.0, False),
        "Signals.done": lambda: o.signals.done(0),
        "Choices.take": lambda: o.choices.take(actions),
        "Stepper.put": lambda: o.stepper.put(0, env_step, env_reset),
        "Stepper.clear": o.stepper.clear,
        "Stepper.step": lambda: o.stepper.step([0], 0, True),
        "Stepper.take_infos": o.stepper.take_infos,
        "QTable.arrays": o.table.arrays,
        "QTable.converted": lambda: o.table.converted(0, True),
        "QTable.act": lambda: o.table.act(np.zeros(1, np.int64)),
        "QTable.values_of": lambda: o.table.values_of(0),
        "QTable.rows": lambda: o.table.rows,
        "QTable.states": lambda: o.table.states,
        "QTable.actions": lambda: o.table.actions,
        "QTable.half": lambda: o.table.half,
        "QTable.bytes": lambda: o.table.bytes,
        "TabularLearner.advance": lambda: o.tabular.advance(1, 10.0),
        "TabularLearner.take_statistics": o.tabular.take_statistics,
        "TabularLearner.table": o.tabular.table,
        "TabularLearner.set_table": lambda: o.tabular.set_table(table),
        "TabularLearner.changes": o.tabular.changes,
        "TabularLearner.absorb": lambda: o.tabular.absorb(*changes),
        "TabularLearner.steps": lambda: o.tabular.steps,
        "TabularLearner.rows": lambda: o.tabular.rows,
        "TabularLearner.bytes": lambda: o.tabular.bytes,
        "TabularLearner.snapshot": o.tabular.snapshot,
        "TabularLearner.restore": lambda: o.tabular.restore(tabular_state),
        "ExternalTabularLearner.begin": lambda: o.external_tabular.begin(0, 15),
        "ExternalTabularLearner.step": lambda: o.external_tabular.step(1.0, False, 0, 15),
        "ExternalTabularLearner.take_statistics": o.external_tabular.take_statistics,
        "ExternalTabularLearner.table": o.external_tabular.table,
        "ExternalTabularLearner.set_table": lambda: o.external_tabular.set_table(external_table),
        "ExternalTabularLearner.rows": lambda: o.external_tabular.rows,
        "ExternalTabularLearner.bytes": lambda: o.external_tabular.bytes,
        "ExternalTabularLearner.snapshot": o.external_tabular.snapshot,
        "ExternalTabularLearner.restore": lambda: o.external_tabular.restore(external_state),
        "Pool.close": o.pool.close,
    }
