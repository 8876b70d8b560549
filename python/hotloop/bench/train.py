"""The suite `train`: steps per second of whole PPO, and its share of the machine's arithmetic peak."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hotloop import _core
from hotloop.bench.comparison import PeerResult, contest, in_json
from hotloop.bench.measure import Contender, Rate
from hotloop.bench.peers import Peer
from hotloop.bench.ppo import PpoCase, usable_cores
from hotloop.config import load_config
from hotloop.training.session import Session

UNIT = "steps/s"
CASES = (
    PpoCase("cartpole", num_envs=1024, horizon=64, epochs=4, minibatches=4),
    PpoCase("cartpole", num_envs=1024, horizon=64, epochs=1, minibatches=4),
    PpoCase("cartpole", num_envs=8, horizon=128, epochs=4, minibatches=4),
    PpoCase("pendulum", num_envs=64, horizon=64, epochs=2, minibatches=4, separate=True),
    PpoCase("cartpole", num_envs=1024, horizon=64, epochs=1, minibatches=4, hidden=(128,), memory="lstm"),
    PpoCase("cartpole", num_envs=1024, horizon=64, epochs=1, minibatches=4, hidden=(128,), memory="gru"),
)
# Inputs, layers and actions of policies whose update is measured alone.
SHAPES = ((52, (128, 128), 36), (92, (256, 256), 90))


@dataclass(frozen=True)
class TrainRow:
    """A case with our rate, each peer's by the peer's name, and the arithmetic of one step."""

    name: str
    rate: Rate
    peers: dict[str, PeerResult]
    flops: float
    """Floating-point operations of one step, collecting and learning; a multiply-add counts as two."""
    peak: float
    """Peak of this machine, in floating-point operations per second."""

    @property
    def share(self) -> float:
        """Achieved share of the peak."""
        return self.rate.value * self.flops / self.peak

    def ratio(self, peer: str) -> float | None:
        """Return our rate over the peer's; None if the peer does not support the case."""
        return self.rate.value / self.peers[peer].rate.value if peer in self.peers else None

    def as_json(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {
            "name": self.name,
            "unit": UNIT,
            **in_json(self.rate, self.peers),
            "flops_per_step": self.flops,
            "peak_gflops": self.peak / 1e9,
            "share_of_peak": self.share,
        }


def peak() -> float:
    """Floating-point operations per second of a loop of multiply-adds on all usable cores."""
    return _core.fma_peak(usable_cores())


def session_for(case: PpoCase, *, learner: str = "native") -> Session:
    """Return the session that `hotloop train` would make for this case."""
    config = load_config(
        case.env,
        overrides={
            "runner.num_envs": case.num_envs,
            "train.learner": learner,
            "policy.hidden": list(case.hidden),
            "policy.shared": not case.separate,
            "policy.activation": "tanh",
            "policy.memory": case.memory,
            "policy.memory_size": case.memory_size,
            "ppo.horizon": case.horizon,
            "ppo.epochs": case.epochs,
            "ppo.minibatch_size": case.minibatch_size,
            "ppo.learning_rate": case.learning_rate,
            "ppo.learning_rate_schedule": "constant",
            "ppo.gamma": case.gamma,
            "ppo.gae_lambda": case.gae_lambda,
            "ppo.clip": case.clip,
            "ppo.entropy": case.entropy,
            "ppo.entropy_schedule": "constant",
            "ppo.max_gradient_norm": case.max_gradient_norm,
            "ppo.reward_scale": case.reward_scale,
            "ppo.normalize_observations": False,
            "ppo.normalize_rewards": False,
            "ppo.target_kl": None,
        },
    )
    return Session(config)


def run(
    case: PpoCase,
    peers: Sequence[Peer[PpoCase]],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda contender, share: None,
) -> TrainRow:
    """Measure whole iterations, ours and the peers', in turns."""
    learners = []

    def ours(case: PpoCase, stack: ExitStack) -> Contender:
        session = session_for(case)
        stack.callback(session.close)
        assert isinstance(session.learner, _core.PpoLearner)
        learners.append(session.learner)

        interval = session.config.track.interval

        def advance(_: object) -> None:
            # As the trainer does: a record's iterations, then what the core has counted.
            session.advance(interval, math.inf)
            session.gather()

        return Contender("Hotloop", advance, [None], work_per_pass=interval * case.steps)

    rate, best = contest(case, ours, peers, seconds=seconds, rounds=rounds, progress=progress)
    forward, learn = _arithmetic(case, learners[0].products)
    return TrainRow(str(case), rate, best, forward + case.epochs * learn, peak())


def update_name(shape: tuple[int, tuple[int, ...], int]) -> str:
    """Return the name of the row of a policy's update."""
    inputs, hidden, actions = shape
    return "update " + "-".join(map(str, (inputs, *hidden, actions)))


def run_update(
    shape: tuple[int, tuple[int, ...], int],
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str, float], object] = lambda contender, share: None,
) -> TrainRow:
    """Measure the update alone of a policy of any shape, on made-up rows."""
    inputs, hidden, actions = shape
    samples, operations = [], 0.0
    for turn in range(rounds + 1):
        progress("Hotloop", turn / (rounds + 1))
        rate, operations = _core.update_speed(
            inputs, list(hidden), actions, num_threads=usable_cores(), seconds=seconds / 2 if turn == 0 else seconds
        )
        samples.append(rate)
    # The first one warmed up.
    return TrainRow(
        update_name(shape),
        Rate(tuple(samples[1:])),
        {},
        operations / samples[-1],
        peak(),
    )


def _arithmetic(case: PpoCase, products: int) -> tuple[float, float]:
    """Floating-point operations of one row forward, and of one row in one epoch.

    Forward each weight costs a multiply-add; learning costs that again, one for its gradient and one for the gradient
    of what came in, which the first layer does not need.
    """
    inputs = {"cartpole": 4, "pendulum": 3}[case.env]
    first = inputs * case.hidden[0] * (2 if case.separate else 1)
    return 2.0 * products, 2.0 * (3 * products - first)
