"""sb3-contrib's RecurrentPPO on Gymnasium's CartPole: Python envs in one process, one LSTM for policy and value."""

from contextlib import ExitStack
from typing import Any

from hotloop.bench.peers import Entry, Peer
from hotloop.bench.peers.gymnasium import MOST_PYTHON_ENVS
from hotloop.bench.peers.sb3_ppo import built, learning
from hotloop.bench.ppo import PpoCase


def make(case: PpoCase, num_envs: int) -> Any:
    """Return a model for this many envs."""
    from sb3_contrib import RecurrentPPO

    own = {"net_arch": [], "lstm_hidden_size": case.memory_size, "shared_lstm": True, "enable_critic_lstm": False}
    return built(RecurrentPPO, "MlpLstmPolicy", case, num_envs, own)


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    return learning("RecurrentPPO", make, case, "lstm", stack)


PEER = Peer(
    "sb3-contrib",
    "RecurrentPPO",
    f"at most {2 * MOST_PYTHON_ENVS} Gymnasium envs in one process, no dense layer before its LSTM",
    "sb3_contrib",
    _enter,
)
