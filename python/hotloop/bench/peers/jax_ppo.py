"""A PPO loop of our own in JAX: CartPole, collecting and learning in one jitted program, on one host device per core.

Each device plays its share of the envs, shuffles all of its rows in every epoch and averages gradients with the others.
Truncated episodes count as ended, as in most such scripts, which saves it the values of their final observations.
"""

import math
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.ppo import PpoCase, usable_cores

# Must be set before JAX is first imported.
os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={usable_cores()}")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

Array = Any
OBSERVATIONS, ACTIONS = 4, 2
LONGEST = 500
# Iterations in one call while solving: enough that calling costs nothing.
CHUNK = 8


class Episodes(NamedTuple):
    """Running returns of every env, and a ring buffer of the last finished ones on this device."""

    running: Array
    last: Array
    finished: Array


class State(NamedTuple):
    """State carried from one iteration to the next."""

    params: Any
    mean: Any
    square: Any
    updates: Array
    env: Array
    age: Array
    key: Array
    episodes: Episodes


def reset_envs(key: Array, count: int) -> Array:
    """Return initial states of carts."""
    import jax

    return jax.random.uniform(key, (count, OBSERVATIONS), minval=-0.05, maxval=0.05)


def step_envs(env: Array, action: Array) -> tuple[Array, Array]:
    """CartPole-v1 as Gymnasium has it: next state, and whether the pole or the cart went too far."""
    import jax.numpy as jnp

    x, speed, angle, turn = env.T
    force = jnp.where(action == 1, 10.0, -10.0)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    push = (force + 0.05 * turn * turn * sin) / 1.1
    turning = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
    moving = push - 0.05 * turning * cos / 1.1
    env = jnp.stack([x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning], 1)
    return env, (jnp.abs(env[:, 0]) > 2.4) | (jnp.abs(env[:, 2]) > 12 * math.pi / 180)


def init_params(key: Array, hidden: tuple[int, ...]) -> list[tuple[Array, Array]]:
    """A shared trunk with one head that gives both logits and value."""
    import jax
    import jax.numpy as jnp

    sizes = (OBSERVATIONS, *hidden)
    layers = []
    for place, (fan_in, fan_out) in enumerate(zip(sizes, (*hidden, ACTIONS + 1), strict=True)):
        key, at = jax.random.split(key)
        weights = jax.nn.initializers.orthogonal(math.sqrt(2))(at, (fan_in, fan_out))
        if place == len(hidden):
            weights *= jnp.array([0.01] * ACTIONS + [1.0]) / math.sqrt(2)
        layers.append((weights, jnp.zeros(fan_out)))
    return layers


def forward(params: list[tuple[Array, Array]], obs: Array) -> tuple[Array, Array]:
    """Log-probabilities of the actions, and the value."""
    import jax
    import jax.numpy as jnp

    for weights, bias in params[:-1]:
        obs = jnp.tanh(obs @ weights + bias)
    out = obs @ params[-1][0] + params[-1][1]
    return jax.nn.log_softmax(out[:, :ACTIONS]), out[:, ACTIONS]


def loss(params: Any, batch: tuple[Array, ...], case: PpoCase) -> Array:
    """PPO's clipped loss of one minibatch."""
    import jax.numpy as jnp

    obs, action, old, advantage, target = batch
    logits, value = forward(params, obs)
    ratio = jnp.exp(jnp.take_along_axis(logits, action[:, None], 1)[:, 0] - old)
    clipped = jnp.clip(ratio, 1 - case.clip, 1 + case.clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    entropy = -(jnp.exp(logits) * logits).sum(1).mean()
    return -gain + 0.5 * ((value - target) ** 2).mean() * 0.5 - case.entropy * entropy


def make_iteration(case: PpoCase, envs: int, count: int) -> Any:
    """`count` iterations of one device with so many envs, as one function of the state."""
    import jax
    import jax.numpy as jnp

    def act(state: State, _: None) -> tuple[State, tuple[Array, ...]]:
        key, choose, fresh = jax.random.split(state.key, 3)
        logits, value = forward(state.params, state.env)
        action = jax.random.categorical(choose, logits)
        chosen = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
        env, failed = step_envs(state.env, action)
        age = state.age + 1
        done = failed | (age == LONGEST)
        row = (state.env, action, chosen, value, jnp.full(envs, case.reward_scale), done)
        returns = state.episodes.running + 1
        episodes = Episodes(jnp.where(done, 0.0, returns), *_note(state.episodes, returns, done))
        env = jnp.where(done[:, None], reset_envs(fresh, envs), env)
        return state._replace(env=env, age=jnp.where(done, 0, age), key=key, episodes=episodes), row

    descend = descent(loss, case)

    def epoch(carry: tuple[State, tuple[Array, ...]], _: None) -> tuple[tuple[State, tuple[Array, ...]], None]:
        state, rows = carry
        key, shuffle = jax.random.split(state.key)
        # One sort; jax.random.permutation sorts several times to rule out ties, and takes a third longer in all.
        order = jnp.argsort(jax.random.bits(shuffle, (envs * case.horizon,)))
        batches = tuple(part[order].reshape(case.minibatches, -1, *part.shape[1:]) for part in rows)
        state, _ = jax.lax.scan(descend, state._replace(key=key), batches)
        return (state, rows), None

    def iteration(state: State, _: None) -> tuple[State, None]:
        state, rows = jax.lax.scan(act, state, None, length=case.horizon)
        obs, action, chosen, value, reward, done = rows
        advantage = advantages(case, value, reward, done, forward(state.params, state.env)[1])
        target = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        flat = tuple(part.reshape(-1, *part.shape[2:]) for part in (obs, action, chosen, advantage, target))
        (state, flat), _ = jax.lax.scan(epoch, (state, flat), None, length=case.epochs)
        return state, None

    return lambda state: jax.lax.scan(iteration, state, None, length=count)[0]


def advantages(case: PpoCase, value: Array, reward: Array, done: Array, last_value: Array) -> Array:
    """Generalised advantage estimation over a rollout, time first."""
    import jax
    import jax.numpy as jnp

    def back(carry: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        advantage, next_value = carry
        value, reward, done = row
        delta = reward + case.gamma * next_value * (1 - done) - value
        advantage = delta + case.gamma * case.gae_lambda * (1 - done) * advantage
        return (advantage, value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    return jax.lax.scan(back, start, (value, reward, done.astype(jnp.float32)), reverse=True)[1]


def descent(loss: Callable[..., Array], case: PpoCase) -> Callable[[Any, Any], tuple[Any, None]]:
    """Apply a step of Adam with the clipped gradient of a loss, averaged over devices."""
    import jax
    import jax.numpy as jnp

    def descend(state: Any, batch: Any) -> tuple[Any, None]:
        lax: Any = jax.lax  # pmean has no types
        grads = lax.pmean(jax.grad(loss)(state.params, batch, case), "devices")
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, case.max_gradient_norm / (norm + 1e-6)), grads)
        updates = state.updates + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)
        rate = case.learning_rate / (1 - 0.9**updates)
        params = jax.tree.map(
            lambda p, m, s: p - rate * m / (jnp.sqrt(s / (1 - 0.999**updates)) + 1e-5), state.params, mean, square
        )
        return state._replace(params=params, mean=mean, square=square, updates=updates), None

    return descend


def _note(episodes: Episodes, returns: Array, done: Array) -> tuple[Array, Array]:
    import jax.numpy as jnp

    room = len(episodes.last)
    place = (episodes.finished + jnp.cumsum(done) - 1) % room
    # Those that did not finish are sent past the end, where nothing is written.
    last = episodes.last.at[jnp.where(done, place, room)].set(returns, mode="drop")
    return last, episodes.finished + done.sum()


def start(case: PpoCase, seed: int, count: int) -> tuple[State, Any]:
    """Return the initial state and the compiled program of `count` iterations."""
    import jax
    import jax.numpy as jnp

    devices = jax.local_device_count()
    envs = case.num_envs // devices
    params = init_params(jax.random.key(seed), case.hidden)
    zeros = jax.tree.map(jnp.zeros_like, params)

    def one(key: Array) -> State:
        key, at = jax.random.split(key)
        window = Episodes(jnp.zeros(envs), jnp.zeros(max(1, 100 // devices)), jnp.zeros((), jnp.int32))
        age = jnp.zeros(envs, jnp.int32)
        return State(params, zeros, zeros, jnp.zeros(()), reset_envs(at, envs), age, key, window)

    state = jax.pmap(one)(jax.random.split(jax.random.key(seed + 1, impl="rbg"), devices))
    return state, jax.pmap(make_iteration(case, envs, count), axis_name="devices", donate_argnums=0)


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    if case.env != "cartpole" or case.separate or case.memory != "none":
        return []
    import jax

    state: Any
    state, program = start(case, seed=0, count=1)
    wait: Any = jax.block_until_ready  # it has no types

    def iterate(_: object) -> None:
        nonlocal state
        state = wait(program(state))

    return [Entry(Contender("JAX loop", iterate, [None], work_per_pass=case.steps), case.num_envs)]


def solve(case: PpoCase, seed: int) -> int:
    """Train until the last 100 episodes have a mean of 475; return the number of steps."""
    state, program = start(case, seed, CHUNK)
    steps = 0
    while True:
        state = program(state)
        steps += CHUNK * case.steps
        last, finished = state.episodes.last, state.episodes.finished
        if int(finished.min()) >= last.shape[1] and float(last.mean()) >= 475:
            return steps


PEER = Peer("jax", "JAX loop", "as many envs, one jitted program, a device per core, full shuffle", "jax", _enter)

if __name__ == "__main__":
    from hotloop.bench.ppo import SOLVE

    print(solve(SOLVE, seed=int(sys.argv[1])))
