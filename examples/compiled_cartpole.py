"""CartPole in plain Python, compiled: the physics of Gymnasium's CartPole-v1, at native speed.

hotloop train examples/compiled_cartpole.py:CartPole --until 475 --steps 1000000
hotloop bench envs cartpole examples/compiled_cartpole.py:CartPole --num-envs 4096
HOTLOOP_COMPILED=0 python -m pdb ...    # the same source, run by Python itself
"""

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import hotloop
from hotloop.envs.compiled import Option, Rng, sin_cos, uniform

GRAVITY = 9.8
CART, POLE = 1.0, 0.1
LIGHTNESS = 1.0 / (CART + POLE)
FORCE = 10.0
SECONDS = 0.02
FAR, STEEP = 2.4, 0.20943951023931953
HIGH = np.array([4.8, np.inf, 0.418879, np.inf], np.float32)


class Options:
    """For type checkers: what people can set."""

    length: float


@hotloop.compiled(
    observation=spaces.Box(-HIGH, HIGH),
    action=spaces.Discrete(2),
    max_steps=500,
    options={"length": Option(0.5, 0.05, 5.0, "half the pole's length")},
)
class CartPole:
    """Keep a pole upright on a cart by pushing the cart left or right."""

    x: float
    x_dot: float
    theta: float
    theta_dot: float

    def reset(self, rng: Rng) -> None:
        """Starts near the middle, almost upright."""
        self.x = uniform(rng, 0, -0.05, 0.05)
        self.x_dot = uniform(rng, 1, -0.05, 0.05)
        self.theta = uniform(rng, 2, -0.05, 0.05)
        self.theta_dot = uniform(rng, 3, -0.05, 0.05)

    def step(self, action: int, options: Options) -> tuple[float, bool]:
        """Pushes; gives the reward, and whether the pole fell."""
        push = FORCE if action == 1 else -FORCE
        sine, cosine = sin_cos(self.theta)
        moment = POLE * options.length * LIGHTNESS
        pull = push * LIGHTNESS + moment * self.theta_dot * self.theta_dot * sine
        turn = (GRAVITY * sine - cosine * pull) / (4.0 / 3.0 * options.length - moment * cosine * cosine)
        speed_up = pull - moment * turn * cosine
        self.x += SECONDS * self.x_dot
        self.x_dot += SECONDS * speed_up
        self.theta += SECONDS * self.theta_dot
        self.theta_dot += SECONDS * turn
        return 1.0, abs(self.x) > FAR or abs(self.theta) > STEEP

    def observe(self, obs: NDArray[np.float32]) -> None:
        """Shows all of it."""
        obs[0] = self.x
        obs[1] = self.x_dot
        obs[2] = self.theta
        obs[3] = self.theta_dot
