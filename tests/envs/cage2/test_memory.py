"""Outside the native env, memory features and masks are those that the native env returns."""

import numpy as np
import pytest

import hotloop
from hotloop.envs.cage2.memory import EpisodeMemory


@pytest.mark.parametrize("green", [False, True])
@pytest.mark.parametrize("space", ["full", "compact"])
def test_features_masks_and_actions_are_those_of_the_native_env(space: str, green: bool) -> None:
    rng = np.random.default_rng(1)
    count, choices = 40, {"full": 145, "compact": 53}[space]
    own = {"red": "mix", "green": green, "lengths": [0]}
    real = hotloop.make_vec("cage2", count, options=own)
    native = hotloop.make_vec("cage2", count, options={**own, "features": "memory", "actions": space})
    bits, _ = real.reset(seed=4)
    obs, info = native.reset(seed=4)
    memories = [EpisodeMemory(green=green) for _ in range(count)]
    for _ in range(100):
        chosen = rng.integers(choices, size=count)
        actions = []
        for row, memory in enumerate(memories):
            memory.observe(bits[row])
            assert (memory.features(bits[row]) == obs[row]).all()
            if space == "compact":
                assert (memory.mask() == info["action_mask"][row]).all()
            actions.append(memory.to_full(int(chosen[row])) if space == "compact" else int(chosen[row]))
            memory.act(actions[-1])
        bits, reward, *_ = real.step(np.array(actions))
        obs, other_reward, _, _, info = native.step(chosen)
        assert (reward == other_reward).all()
