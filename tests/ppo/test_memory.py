"""Policies that remember: LSTM and GRU layers between dense layers and outputs."""

from typing import Any

import numpy as np
import pytest

from hotloop import _core

GATES = {"lstm": 4, "gru": 3}


def learner(env: str = "cartpole", *, rows: int = 8, horizon: int = 4, seed: int = 0, **policy: Any) -> _core.Learner:
    return _core.Learner(env, None, policy, rows=rows, horizon=horizon, seed=seed)


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("shared", [True, False])
def test_arrays_have_torchs_shapes_and_order(memory: str, shared: bool) -> None:
    gates = GATES[memory]
    arrays = learner(memory=memory, memory_size=20, memory_layers=2, hidden=[24], shared=shared).arrays()
    for prefix in ["memory"] if shared else ["policy.memory", "value.memory"]:
        for layer, inputs in enumerate([24, 20]):
            name = f"{prefix}.{layer}"
            assert arrays[f"{name}.input.weight"].shape == (gates * 20, inputs)
            assert arrays[f"{name}.hidden.weight"].shape == (gates * 20, 20)
            assert arrays[f"{name}.bias"].shape == (gates * 20,)
            assert (f"{name}.hidden.bias" in arrays) == (memory == "gru")
    heads = "heads" if shared else "policy.head"
    assert arrays[f"{heads}.weight"].shape == (3 if shared else 2, 20)


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_first_weights_are_orthogonal_gate_by_gate_and_keep_what_is_remembered(memory: str) -> None:
    arrays = learner(memory=memory, memory_size=20, hidden=[24], seed=3).arrays()
    for name, side in (("memory.0.hidden.weight", 20), ("memory.0.input.weight", 24)):
        for block in arrays[name].reshape(GATES[memory], 20, side):
            np.testing.assert_allclose(block @ block.T, np.eye(20), atol=1e-6)
    bias = arrays["memory.0.bias"].reshape(GATES[memory], 20)
    assert (bias[1] == 1.0).all()
    assert np.count_nonzero(bias) == 20
    again = learner(memory=memory, memory_size=20, hidden=[24], seed=4).arrays()
    assert not np.array_equal(again["memory.0.hidden.weight"], arrays["memory.0.hidden.weight"])


def test_arrays_survive_the_way_to_the_learner_and_back() -> None:
    mine = learner(memory="lstm", memory_size=37, memory_layers=2, hidden=[5])
    draw = np.random.default_rng(0)
    arrays = {name: draw.normal(size=array.shape).astype(np.float32) for name, array in mine.arrays().items()}
    mine.set_arrays(arrays)
    for name, array in mine.arrays().items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"memory": "elephant"}, 'memory is "elephant": expected none, lstm or gru'),
        ({"memory": "gru", "memory_size": 0}, "memory_size is 0: expected 1 to 4096"),
        ({"memory": "lstm", "memory_size": 5000}, "memory_size is 5000: expected 1 to 4096"),
        ({"memory": "lstm", "memory_layers": 17}, "memory_layers is 17: expected 1 to 16"),
    ],
)
def test_what_cannot_be_built_is_named(policy: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        learner(**policy)
