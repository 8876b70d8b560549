"""sb3-contrib's RecurrentPPO on Gymnasium's CartPole: Python envs in one process, one LSTM for policy and value."""

from contextlib import ExitStack
from typing import Any

from hotloop.bench.peers import Entry, Peer
from hotloop.bench.peers.gymnasium import IDS, MOST_PYTHON_ENVS
from hotloop.bench.peers.sb3_ppo import learning
from hotloop.bench.ppo import PpoCase


def make(case: PpoCase, num_envs: int) -> Any:
    """A model that learns from so many envs."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env

    return RecurrentPPO(
        "MlpLstmPolicy",
        make_vec_env(IDS[case.env], num_envs),
        n_steps=case.horizon,
        batch_size=num_envs * case.horizon // case.minibatches,
        n_epochs=case.epochs,
        learning_rate=case.learning_rate,
        gamma=case.gamma,
        gae_lambda=case.gae_lambda,
        clip_range=case.clip,
        ent_coef=case.entropy,
        max_grad_norm=case.max_gradient_norm,
        policy_kwargs={
            "net_arch": [],
            "lstm_hidden_size": case.memory_size,
            "shared_lstm": True,
            "enable_critic_lstm": False,
        },
        device="cpu",
        seed=0,
    )


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    return learning("RecurrentPPO", make, case, "lstm", stack)


PEER = Peer(
    "sb3-contrib",
    "RecurrentPPO",
    f"at most {2 * MOST_PYTHON_ENVS} Gymnasium envs in one process, no dense layer before its LSTM",
    "sb3_contrib",
    _enter,
)
