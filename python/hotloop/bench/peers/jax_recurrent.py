"""The JAX loop with memory: one dense layer, an LSTM or GRU, and a head, all in one jitted program.

As the loop without memory, but sequences stay whole: minibatches are sets of envs, gradients go back through all steps.
"""

import math
from contextlib import ExitStack
from typing import Any, NamedTuple

from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.peers.jax_ppo import (
    ACTIONS,
    LONGEST,
    OBSERVATIONS,
    Array,
    advantages,
    descent,
    reset_envs,
    step_envs,
)
from hotloop.bench.ppo import PpoCase


class State(NamedTuple):
    """State carried from one iteration to the next."""

    params: Any
    mean: Any
    square: Any
    updates: Array
    env: Array
    age: Array
    memory: Any
    key: Array


def init_params(key: Array, case: PpoCase) -> dict[str, Array]:
    """Dense layer, memory, and one head that gives both logits and value."""
    import jax
    import jax.numpy as jnp

    width, size = case.hidden[0], case.memory_size
    gates = (4 if case.memory == "lstm" else 3) * size
    keys = jax.random.split(key, 4)
    orthogonal = jax.nn.initializers.orthogonal
    return {
        "dense": orthogonal(math.sqrt(2))(keys[0], (OBSERVATIONS, width)),
        "dense_bias": jnp.zeros(width),
        "input": orthogonal(1.0)(keys[1], (width, gates)),
        "hidden": orthogonal(1.0)(keys[2], (size, gates)),
        "bias": jnp.zeros(gates),
        "head": orthogonal(1.0)(keys[3], (size, ACTIONS + 1)) * jnp.array([0.01] * ACTIONS + [1.0]),
        "head_bias": jnp.zeros(ACTIONS + 1),
    }


def recall(params: dict[str, Array], case: PpoCase, x: Array, memory: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the recurrent layer's next state, from inputs that were already multiplied by its weights."""
    import jax
    import jax.numpy as jnp

    h = memory[0]
    if case.memory == "lstm":
        i, f, g, o = jnp.split(x + h @ params["hidden"], 4, axis=-1)
        c = jax.nn.sigmoid(f + 1.0) * memory[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c
    x_r, x_z, x_n = jnp.split(x, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(h @ params["hidden"], 3, axis=-1)
    r, z = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z)
    n = jnp.tanh(x_n + r * h_n)
    return ((1 - z) * n + z * h,)


def feed(params: dict[str, Array], obs: Array) -> Array:
    """Return the input of the recurrent layer."""
    import jax.numpy as jnp

    return jnp.tanh(obs @ params["dense"] + params["dense_bias"]) @ params["input"] + params["bias"]


def head(params: dict[str, Array], h: Array) -> tuple[Array, Array]:
    """Log-probabilities of the actions, and the value."""
    import jax

    out = h @ params["head"] + params["head_bias"]
    return jax.nn.log_softmax(out[..., :ACTIONS]), out[..., ACTIONS]


def loss(params: dict[str, Array], batch: tuple[Any, ...], case: PpoCase) -> Array:
    """PPO's clipped loss of whole sequences, `[steps, envs]`."""
    import jax
    import jax.numpy as jnp

    obs, action, old, advantage, target, done, memory = batch

    def step(memory: tuple[Array, ...], row: tuple[Array, Array]) -> tuple[tuple[Array, ...], Array]:
        after = recall(params, case, row[0], memory)
        return tuple(jnp.where(row[1][:, None], 0.0, part) for part in after), after[0]

    _, h = jax.lax.scan(step, memory, (feed(params, obs), done))
    logits, value = head(params, h)
    ratio = jnp.exp(jnp.take_along_axis(logits, action[..., None], -1)[..., 0] - old)
    clipped = jnp.clip(ratio, 1 - case.clip, 1 + case.clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    entropy = -(jnp.exp(logits) * logits).sum(-1).mean()
    return -gain + 0.25 * ((value - target) ** 2).mean() - case.entropy * entropy


def make_iteration(case: PpoCase, envs: int) -> Any:
    """Return one iteration of a device with this many envs, as a function of the state."""
    import jax
    import jax.numpy as jnp

    def act(state: State, _: None) -> tuple[State, tuple[Array, ...]]:
        key, choose, fresh = jax.random.split(state.key, 3)
        memory = recall(state.params, case, feed(state.params, state.env), state.memory)
        logits, value = head(state.params, memory[0])
        action = jax.random.categorical(choose, logits)
        chosen = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
        env, failed = step_envs(state.env, action)
        age = state.age + 1
        done = failed | (age == LONGEST)
        row = (state.env, action, chosen, value, done)
        env = jnp.where(done[:, None], reset_envs(fresh, envs), env)
        memory = tuple(jnp.where(done[:, None], 0.0, part) for part in memory)
        return state._replace(env=env, age=jnp.where(done, 0, age), memory=memory, key=key), row

    descend = descent(loss, case)

    def iteration(state: State) -> State:
        begun = state.memory
        state, (obs, action, chosen, value, done) = jax.lax.scan(act, state, None, length=case.horizon)
        memory = recall(state.params, case, feed(state.params, state.env), state.memory)
        reward = jnp.full_like(value, case.reward_scale)
        advantage = advantages(case, value, reward, done, head(state.params, memory[0])[1])
        target = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        steps = (obs, action, chosen, advantage, target, done)
        for _ in range(case.epochs):
            key, shuffle = jax.random.split(state.key)
            order = jnp.argsort(jax.random.bits(shuffle, (envs,))).reshape(case.minibatches, -1)
            batches = (
                *(jnp.moveaxis(part[:, order], 1, 0) for part in steps),
                tuple(part[order] for part in begun),
            )
            state, _ = jax.lax.scan(descend, state._replace(key=key), batches)
        return state

    return iteration


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    if case.env != "cartpole" or case.separate or case.memory == "none":
        return []
    import jax
    import jax.numpy as jnp

    devices = jax.local_device_count()
    envs = case.num_envs // devices
    params = init_params(jax.random.key(0), case)
    zeros = jax.tree.map(jnp.zeros_like, params)

    def one(key: Array) -> State:
        key, at = jax.random.split(key)
        memory = (jnp.zeros((envs, case.memory_size)),) * (2 if case.memory == "lstm" else 1)
        age = jnp.zeros(envs, jnp.int32)
        return State(params, zeros, zeros, jnp.zeros(()), reset_envs(at, envs), age, memory, key)

    state: Any = jax.pmap(one)(jax.random.split(jax.random.key(1, impl="rbg"), devices))
    program = jax.pmap(make_iteration(case, envs), axis_name="devices")
    wait: Any = jax.block_until_ready  # it has no types

    def iterate(_: object) -> None:
        nonlocal state
        state = wait(program(state))

    return [Entry(Contender("JAX loop", iterate, [None], work_per_pass=case.steps), case.num_envs)]


PEER = Peer(
    "jax-recurrent",
    "JAX memory",
    "as many envs, one jitted program, a device per core, whole envs shuffled",
    "jax",
    _enter,
)
