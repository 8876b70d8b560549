"""Short training runs of every kind whose records, checkpoints and evaluations fall on many iterations."""

from collections.abc import Mapping
from pathlib import Path

from tests.reliability import commands
from tests.reliability.commands import Ended

NAME = "run"
_COMMON = (
    "train.until=null",
    "train.evaluate_episodes=4",
    "runner.num_threads=2",
    "track.statistics_every=8",
    "ppo.minibatch_size=64",
    "policy.hidden=[16]",
    "train.keep_last=2",
)
_OFTEN = ("train.checkpoint_every=8", "train.evaluate_every=12", "track.interval=4")
_SELDOM = ("train.checkpoint_every=200", "train.evaluate_every=300", "track.interval=50")
_SMALL = ("runner.num_envs=8", "ppo.horizon=32")

KINDS: Mapping[str, tuple[str, ...]] = {
    # 32 iterations: about 400 file operations.
    "brief": ("cartpole", *_COMMON, *_OFTEN, *_SMALL, "--steps", "8192"),
    "cartpole": ("cartpole", *_COMMON, *_SELDOM, *_SMALL, "--steps", str(8 * 32 * 6000)),
    "pendulum": (
        "pendulum",
        *_COMMON,
        *_SELDOM,
        *_SMALL,
        "ppo.normalize_observations=true",
        "ppo.normalize_rewards=true",
        "ppo.target_kl=0.02",
        "ppo.learning_rate_schedule=linear",
        "--steps",
        str(8 * 32 * 4000),
    ),
    "recall": (
        "recall",
        *_COMMON,
        *_SELDOM,
        *_SMALL,
        "env.delay=4",
        "policy.memory_size=16",
        "ppo.minibatch_size=128",
        "ppo.sequence_length=16",
        "--steps",
        str(8 * 32 * 1600),
    ),
    "tabular": (
        "taxi",
        "train.algorithm=q-learning",
        "tabular.iteration=2048",
        "train.until=null",
        "train.evaluate_episodes=4",
        "train.keep_last=2",
        *_SELDOM,
        "--steps",
        str(2048 * 4000),
    ),
    "workers": (
        "tests.runners.python_envs:counter",
        *_COMMON,
        *_OFTEN,
        "runner.num_envs=4",
        "runner.num_workers=2",
        "ppo.horizon=32",
        "--steps",
        str(4 * 32 * 96),
    ),
    "torch": (
        "cartpole",
        *_COMMON,
        *_OFTEN,
        *_SMALL,
        "train.learner=torch",
        "torch.num_threads=1",
        "--steps",
        str(8 * 32 * 64),
    ),
}


def command(kind: str) -> list[str]:
    """The arguments of `hotloop` that begin such a run."""
    return ["train", *KINDS[kind], "--seed", "5", "--name", NAME, "--json"]


def resumed(kind: str, home: Path) -> list[str]:
    """The arguments that go on with it, or begin it again where nothing was left."""
    exists = (home / "runs" / NAME / "config.yaml").exists()
    return ["train", "--resume", NAME, "--json"] if exists else command(kind)


def whole(kind: str, home: Path) -> Ended:
    """Train without any disturbance."""
    done = commands.run(home, *command(kind), timeout=300)
    assert done.code == 0, done
    return done
