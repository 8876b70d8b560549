"""sb3-contrib's RecurrentPPO on Gymnasium's CartPole: Python envs in one process, one LSTM for policy and value."""

import warnings
from contextlib import ExitStack
from typing import Any

from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.peers.gymnasium import IDS, MOST_PYTHON_ENVS
from hotloop.bench.ppo import PpoCase, use_torch_threads


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
    if case.env not in IDS or case.memory != "lstm":
        return []
    num_envs = min(case.num_envs, 2 * MOST_PYTHON_ENVS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(case, num_envs)
    stack.callback(model.env.close)
    steps = num_envs * case.horizon

    def iterate(_: object) -> None:
        use_torch_threads(steps // case.minibatches)
        model.learn(steps, reset_num_timesteps=False)

    return [Entry(Contender("RecurrentPPO", iterate, [None], work_per_pass=steps), num_envs)]


PEER = Peer(
    "sb3-contrib",
    "RecurrentPPO",
    f"at most {2 * MOST_PYTHON_ENVS} Gymnasium envs in one process, no dense layer before its LSTM",
    "sb3_contrib",
    _enter,
)
