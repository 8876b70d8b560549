"""Specs of policies: which encoder and which layers an observation gets."""

import json
import math
from typing import Any

import pytest

from hotloop.config import load_config
from hotloop.envs.spec import BytesObservation, DiscreteAction, EnvSpec
from hotloop.policies.spec import NetworkSpec, default_convolutions, policy_spec, policy_spec_from_json

torch = pytest.importorskip("torch")


def spec(*shape: int) -> EnvSpec:
    return EnvSpec(1, BytesObservation(shape, 255), DiscreteAction(6), masked=False)


@pytest.mark.parametrize("shape", [(84, 84, 4), (4, 84, 84), (210, 160, 3), (36, 40, 1)])
def test_large_images_get_the_nature_network_without_padding(shape: tuple[int, ...]) -> None:
    assert default_convolutions(shape) == ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))


def test_small_images_keep_their_size_in_the_first_layer() -> None:
    assert default_convolutions((16, 16, 3)) == ((16, 3, 1), (32, 3, 2))


def test_an_atari_policy_has_as_many_weights_as_usual() -> None:
    from hotloop.policies.torch.network import build_network

    policy = load_config("catch", overrides={"policy.convolutions": None, "policy.hidden": [512]}).policy
    atari = spec(84, 84, 4)
    described = policy_spec(policy, atari.observation)
    assert isinstance(described, NetworkSpec)
    network = build_network(atari, described, seed=0, attempt=0)
    convolutions = 32 * (4 * 64 + 1) + 64 * (32 * 16 + 1) + 64 * (64 * 9 + 1)
    dense = 512 * (64 * 7 * 7 + 1) + 7 * (512 + 1)
    assert sum(math.prod(weight.shape) for weight in network.parameters()) == convolutions + dense
    outputs, value, _ = network(torch.zeros(2, 84, 84, 4), None)
    assert (tuple(outputs.shape), tuple(value.shape)) == ((2, 6), (2,))


def test_padding_is_the_fourth_number_of_a_layer_and_half_the_kernel_by_default() -> None:
    from hotloop.policies.torch.network import Convolutions

    sizes = {3: 6 * 6, 0: 4 * 4, 2: 8 * 8}
    for around, cells in sizes.items():
        layer = (1, 3, 1) if around == 3 else (1, 3, 1, around)
        assert Convolutions([6, 6, 1], NetworkSpec((8,), convolutions=(layer,))).width == cells


@pytest.mark.parametrize(
    "changes",
    [{}, {"memory": "lstm", "memory_size": 7}, {"encoder": "cnn", "convolutions": [[8, 3, 1, 0]]}, {"module": "a:B"}],
)
def test_a_spec_survives_its_manifest(changes: dict[str, Any]) -> None:
    policy = load_config("catch", overrides={f"policy.{key}": value for key, value in changes.items()}).policy
    made = policy_spec(policy, spec(16, 16, 3).observation)
    assert policy_spec_from_json(json.loads(json.dumps(made.to_json()))) == made
