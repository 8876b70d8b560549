"""The process that calls: python -m tests.reliability.caller SEED CALLS THREADS.

Prints a line before each call, by which a call that killed the process is known, and one after each that ended badly.
"""

import json
import os
import resource
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import hotloop
from hotloop import _core
from hotloop.config import load_config
from hotloop.config.loader import parse_overrides
from hotloop.config.tabular.settings import settings as tabular_settings
from hotloop.policies.protocol import ActRequest
from hotloop.ppo.schedules import Schedules
from tests.reliability.oddities import nearly, odd_value

# A function, and arguments that it takes: the attack changes some of them.
Call = tuple[str, Callable[..., Any], Sequence[Any], dict[str, Any]]

_MOST_MEMORY = 4 << 30
_ENVS = ("cartpole", "pendulum", "taxi", "tag", "tictactoe", "recall", "catch")
_TABULAR = ("taxi", "frozen-lake", "cliff-walking", "tictactoe")
# Exceptions that say that something was forgotten, not that an argument is wrong.
_BAD = (SystemError, AssertionError, UnboundLocalError, NameError, RecursionError, ZeroDivisionError)
_ROUND = 25


class Caller:
    """Make calls on objects that are replaced now and then."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = Random(seed)
        self._folder = folder
        self._lock = threading.Lock()

    def run(self, calls: int, threads: int) -> None:
        """Make so many calls."""
        for _ in range(max(1, calls // _ROUND)):
            worlds = self._random.sample(_WORLDS, 2)
            objects = [call for world in worlds for call in world(self._random, self._folder)]
            seeds = [self._random.getrandbits(32) for _ in range(threads)]
            if threads == 1:
                self._round(objects, seeds[0], _ROUND)
                continue
            workers = [threading.Thread(target=self._round, args=(objects, seed, _ROUND // threads)) for seed in seeds]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

    def _round(self, objects: list[Call], seed: int, calls: int) -> None:
        random = Random(seed)
        for _ in range(calls):
            name, function, arguments, keywords = random.choice(objects)
            arguments, keywords = _attacked(arguments, keywords, random)
            shown = (
                f"{name}({', '.join([*map(_short, arguments), *(f'{k}={_short(v)}' for k, v in keywords.items())])})"
            )
            self._say("call", shown)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*arguments, **keywords)
            except _BAD as error:
                self._say("bad", shown, f"{type(error).__name__}: {error}"[:300])
            except Exception:
                continue
            except BaseException as error:
                self._say("bad", shown, f"{type(error).__name__}: {error}"[:300])

    def _say(self, *line: str) -> None:
        with self._lock:
            print(json.dumps(line), flush=True)


def _attacked(arguments: Sequence[Any], keywords: dict[str, Any], random: Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of which none, one or some are not what they should be."""
    arguments, keywords = list(arguments), dict(keywords)
    places: list[Any] = [*range(len(arguments)), *keywords]
    count = min(len(places), random.choices([0, 1, 2, 3], [2, 6, 2, 1])[0])
    for place in random.sample(places, count):
        holder: Any = arguments if isinstance(place, int) else keywords
        # How long a call may take is not attacked: forever would be right.
        if place not in ("seconds", "limit", "count_limit"):
            holder[place] = nearly(holder[place], random) if random.random() < 0.6 else odd_value(random)
    if random.random() < 0.03:
        arguments = arguments[:-1] if random.random() < 0.5 else [*arguments, odd_value(random)]
    return arguments, keywords


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<array {value.dtype} {value.shape}>"
    text = f"<{len(value)} bytes>" if isinstance(value, bytes) and len(value) > 40 else ascii(value)
    return text if len(text) < 200 else f"{text[:200]}..."


def _methods(name: str, thing: Any, valid: dict[str, tuple[Sequence[Any], dict[str, Any]]]) -> list[Call]:
    return [(f"{name}.{method}", getattr(thing, method), *given) for method, given in valid.items()]


def _pool(random: Random, folder: Path) -> list[Call]:
    env, envs = random.choice(_ENVS), 6
    pool = _core.Pool(env, envs, num_threads=2, num_groups=3)
    pool.seed(1)
    obs, _ = pool.reset()
    rows = len(obs)
    actions = _actions(_core.describe(env), rows)
    starts = [*pool.group_starts(), envs]
    seats = rows // envs
    part = actions[: (starts[1] - starts[0]) * seats]
    rollout = pool.rollout(4)
    options: dict[str, Any] = {"num_threads": 2, "num_groups": 2, "options": {}, "first_env": 0, "infos": []}
    options |= {"autoreset": "same_step", "pin_threads": False, "action_repeat": 1}
    calls = _methods(
        f"Pool[{env}]",
        pool,
        {
            "reset": ((), {"which": [True] * envs}),
            "seed": (([3] * envs, 0, [True] * envs), {}),
            "observe": ((), {}),
            "step": ((actions,), {}),
            "send": ((part, 0), {"rollout": rollout, "slot": 0}),
            "recv": ((1,), {}),
            "finals": (([0],), {}),
            "rollout": ((4,), {}),
            "observe_into": ((rollout, 0), {}),
            "rollout_finals": ((rollout,), {}),
            "episodes": ((), {}),
            "faults": ((), {}),
            "configure": ((dict(pool.options()),), {"envs": [0, 1]}),
            "set_policies": (([0] * rows,), {}),
            "set_weights": ((pool.weights(),), {}),
            "snapshot": ((), {}),
            "restore": ((pool.snapshot(),), {}),
            "set_state": ((pool.get_state(), list(range(envs))), {}),
            "flight": ((), {}),
        },
    )
    return [*calls, ("Pool", _core.Pool, (env, 4), options)]


def _actions(described: Any, rows: int) -> Any:
    action = described["action"]
    if action["kind"] == "discrete":
        return np.zeros(rows, np.int64)
    return np.zeros((rows, *action["shape"]), np.float32) if "shape" in action else np.zeros((rows, 2), np.int64)


def _learner(random: Random, folder: Path) -> list[Call]:
    env, envs, horizon = random.choice(_ENVS), 4, 8
    memory = random.choice(["none", "lstm", "gru"])
    spec: dict[str, Any] = {"hidden": [8], "activation": "tanh", "shared": True, "embedding": 0, "log_std": 0.0}
    if memory != "none":
        spec |= {"memory": memory, "memory_size": 4, "memory_layers": 1}
    pool = _core.Pool(env, envs, num_threads=2)
    pool.seed(1)
    obs, _ = pool.reset()
    rows = len(obs)
    keywords: dict[str, Any] = {"rows": rows, "horizon": horizon, "seed": 1, "attempt": 0, "num_threads": 2}
    keywords |= {"first_row": 0, "normalize_observations": True, "normalize_rewards": True, "sequence_length": None}
    learner = _core.PpoLearner(env, None, spec, **keywords)
    config = load_config(env, overrides={"ppo": {"horizon": 8, "minibatch_size": 8, "epochs": 1}})
    settings = Schedules(config, rows).at(0)
    outside = {key: keywords[key] for key in ("rows", "horizon", "seed", "attempt", "num_threads", "first_row")}
    described = dict(_core.describe(env))
    external = _core.ExternalRollout(described, **outside)
    outputs = np.zeros((rows, external.outputs), np.float32)
    state = np.zeros((rows, learner.memory_len), np.float32)
    calls = _methods(
        f"PpoLearner[{env}, {memory}]",
        learner,
        {
            "iterate": ((pool, settings, 1), {"seconds": 1.0}),
            "collect": ((pool, settings), {}),
            "advantages": ((settings,), {}),
            "update": ((settings,), {}),
            "gradient": ((settings,), {}),
            "rollout": ((), {}),
            "begin_rollout": ((), {}),
            "act_rows": ((np.zeros(rows, np.int64), np.arange(rows), 0), {}),
            "end_episodes": ((np.zeros(rows, np.int64), np.arange(rows), None), {}),
            "finish_rollout": ((settings,), {}),
            "act": ((ActRequest(obs, deterministic=True, state=state),), {}),
            "set_arrays": ((learner.arrays(),), {}),
            "set_state": ((learner.state(),), {}),
            "set_opponents": (([(spec, learner.arrays(), learner.statistics())],), {}),
        },
    )
    calls += _methods(
        f"ExternalRollout[{env}]",
        external,
        {
            "observe": ((pool,), {}),
            "begin": ((), {}),
            "step": ((pool, 0, outputs, 0), {}),
            "finals": ((pool,), {}),
            "sample_rows": ((np.zeros(rows, np.int64), np.arange(rows), outputs, 0), {}),
            "sample": ((outputs, ActRequest(obs, deterministic=False)), {}),
            "advantages": ((settings,), {}),
            "update_statistics": ((settings,), {}),
            "explained_variance": ((), {}),
            "order": ((0, 0, rows * horizon), {}),
            "set_state": ((external.state(),), {}),
        },
    )
    calls.append(("PpoLearner", _core.PpoLearner, (env, {}, spec), keywords))
    calls.append(("ExternalRollout", _core.ExternalRollout, (described,), outside))
    calls.append(("Pool.step", pool.step, (_actions(described, rows),), {}))
    return calls


def _table(random: Random, folder: Path) -> list[Call]:
    env = random.choice(_TABULAR)
    algorithm = random.choice(["q-learning", "sarsa", "expected-sarsa", "double-q-learning"])
    overrides: dict[str, Any] = {"train.algorithm": algorithm, "train.steps": 1000, "tabular.iteration": 64}
    overrides |= {"tabular.table": random.choice(["dense", "sparse"]), "tabular.storage": random.choice(["f32", "f16"])}
    settings = tabular_settings(load_config(env, overrides=parse_overrides(overrides)))
    described = _core.describe(env)
    states = int(described["observation"].get("n", 500))
    actions = int(described["action"]["n"])
    learner = _core.TabularLearner(env, {}, settings, states, actions)
    external = _core.ExternalTabularLearner(settings, states, actions)
    table = learner.table()
    calls = _methods(
        f"TabularLearner[{env}, {algorithm}]",
        learner,
        {
            "advance": ((1,), {"seconds": 1.0}),
            "take_statistics": ((), {}),
            "set_table": ((table,), {}),
            "changes": ((), {}),
            "absorb": ((np.zeros(2, np.uint64), np.zeros((2, actions), np.float32), np.zeros(2, np.uint32)), {}),
            "restore": ((learner.snapshot(),), {}),
        },
    )
    calls += _methods(
        f"ExternalTabularLearner[{algorithm}]",
        external,
        {
            "begin": ((0, 2**actions - 1), {}),
            "step": ((1.0, False, 1, 2**actions - 1), {}),
            "take_statistics": ((), {}),
            "set_table": ((table,), {}),
            "restore": ((external.snapshot(),), {}),
        },
    )
    mask = np.ones((3, actions), np.int8)
    calls += _methods(
        "QTable",
        table,
        {
            "act": ((np.zeros(3, np.int64), mask), {"seed": 1}),
            "values_of": ((0,), {}),
            "converted": ((states, True), {}),
        },
    )
    calls += [
        ("QTable", _core.QTable, (states, actions, 0.0, table.arrays()), {}),
        ("TabularLearner", _core.TabularLearner, (env, {}, settings, states, actions), {}),
        ("ExternalTabularLearner", _core.ExternalTabularLearner, (settings, states, actions), {}),
        ("table_bytes", _core.table_bytes, (settings, states, actions), {}),
        ("optimal_values", _core.optimal_values, ("frozen-lake", {}, 0.9), {}),
        ("reachable_states", _core.reachable_states, ("frozen-lake", {}), {}),
        ("evaluate_policy", _core.evaluate_policy, ("frozen-lake", {}, np.zeros(16, np.uint32)), {"limit": 100}),
    ]
    return calls


def _functions(random: Random, folder: Path) -> list[Call]:
    words = _core.Signals.words(2, 4)
    signals = _core.Signals(np.zeros(words, np.uint32), 2, 4)
    calls = _methods(
        "Signals",
        signals,
        {
            "send": ((0, 0, 1), {}),
            "send_all": (([0, 1], 1), {}),
            "take_back": ((0,), {}),
            "receive": (([0, 1], 1), {"seconds": 0.001}),
            "next": ((0, [0, 1]), {"seconds": 0.001, "awake": False}),
            "done": ((0,), {}),
            "alarm": ((), {}),
        },
    )
    kept, turns = np.zeros((8, 4), np.int64), np.zeros(2, np.int64)
    choices = _core.Choices(kept, turns, [(0, 2), (2, 4)], 3)
    env = random.choice(_ENVS)
    return [
        *calls,
        ("Signals", _core.Signals, (np.zeros(words, np.uint32), 2, 4), {}),
        ("Signals.words", _core.Signals.words, (2, 4), {}),
        ("Choices", _core.Choices, (kept, turns, [(0, 2), (2, 4)], 3), {}),
        ("Choices.take", choices.take, ([0, 1], 0), {}),
        ("describe", _core.describe, (env, {}), {}),
        ("env_entry", _core.env_entry, (env,), {}),
        ("has_env", _core.has_env, (env,), {}),
        ("transitions", _core.transitions, ("taxi", {}), {}),
        (
            "orthogonal_weights",
            _core.orthogonal_weights,
            (8, 4),
            {"gain": 1.0, "seed": 0, "attempt": 0, "index": 0},
        ),
    ]


def _runner(random: Random, folder: Path) -> list[Call]:
    env, envs = random.choice(_ENVS), 4
    options: dict[str, Any] = {"num_threads": 2, "num_groups": 2, "groups_per_batch": 1, "options": {}}
    options |= {"autoreset_mode": "next_step", "infos": (), "first_env": 0, "pin_threads": False, "action_repeat": 1}
    runner = hotloop.make_vec(env, envs, num_groups=2)
    obs, _ = runner.reset(seed=1)
    actions = _actions(_core.describe(env), len(obs))
    calls = _methods(
        f"make_vec[{env}]",
        runner,
        {
            "reset": ((), {"seed": 3, "options": None}),
            "step": ((actions,), {}),
            "step_async": ((actions,), {}),
            "step_wait": ((), {}),
            "send": ((actions[runner.group_rows(0)], 0), {}),
            "recv": ((1,), {}),
            "rollout": ((4,), {}),
            "configure": (({},), {"envs": [0]}),
            "set_policies": (([0] * len(obs),), {}),
            "set_reward_weights": ((runner.reward_weights,), {}),
            "set_state": ((runner.get_state(),), {"envs": [0, 1, 2, 3]}),
            "restore": ((runner.snapshot(),), {}),
            "group_rows": ((0,), {}),
            "episodes": ((), {}),
            "faults": ((), {}),
        },
    )
    return [*calls, ("make_vec", _made, (env, 4), options)]


def _made(*arguments: Any, **keywords: Any) -> None:
    """Make a runner and close it; a number of envs that the machine can hold is not attacked further."""
    runner = hotloop.make_vec(*arguments, **keywords)
    try:
        runner.reset(seed=0)
    finally:
        runner.close()


def _settings(random: Random, folder: Path) -> list[Call]:
    env = random.choice((*_ENVS, *_TABULAR))
    part = random.choice(["runner", "policy", "ppo", "tabular", "train", "torch", "track", "env"])
    defaults = load_config(env).model_dump()[part]
    run = folder / "runs" / "run"
    if not run.exists():
        small = {"runner.num_envs": 4, "ppo.horizon": 8, "ppo.minibatch_size": 32, "train.evaluate_episodes": 2}
        hotloop.train("cartpole", steps=64, config=small, name="run", home=folder)
    policy = hotloop.load(run)
    obs = np.zeros((3, 4), np.float32)
    return [
        ("load_config", load_config, (env,), {"overrides": {part: defaults}}),
        ("load", hotloop.load, (str(run),), {"trust": False}),
        ("policy.act", policy.act, (obs,), {"deterministic": True, "mask": None}),
        ("policy.reset", policy.reset, ([0],), {}),
        ("policy.values", getattr(policy, "value", policy.act), (obs,), {}),
    ]


_WORLDS = (_pool, _learner, _table, _functions, _runner, _settings)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as work:
        os.environ["HOTLOOP_HOME"] = work
        Caller(int(sys.argv[1]), Path(work)).run(int(sys.argv[2]), int(sys.argv[3]))
