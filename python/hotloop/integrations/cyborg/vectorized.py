"""The vector interface that trainers for the real simulator use, over the native env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotloop.envs.cage2.network import FULL_ACTIONS, HOSTS, red_agent_name
from hotloop.make import make_vec

_SCENARIO: Final = "Scenario2"
_WINDOWS: Final = frozenset(("Enterprise1", "Enterprise2", "User0", "User1", "User2"))


class VectorizedCAGE2Envs:
    """Many envs with the observations of `ChallengeWrapper2` and the 145 actions of the challenge.

    Args:
        n_envs: How many envs.
        scenario_path: Kept for callers that pass it; only Scenario2 is there.
        red_agent_type: One of the simulator's red agent classes or its name, or `b-line`, `meander`, `sleep`.
        episode_length: Steps after which an env is done and starts again, its new observation being shown; `None`, as
            in the original, for episodes that go on until `reset`.
        seed: Decides everything random; left out, every object plays differently.
        num_threads: Threads that step the envs; left out, as many as pay.

    >>> envs = VectorizedCAGE2Envs(n_envs=3, red_agent_type="B_lineAgent", seed=0)
    >>> observations = envs.reset()
    >>> observations, rewards, dones, infos = envs.step(np.zeros(3, int))
    >>> observations.shape, rewards.tolist(), dones.any(), len(infos)
    ((3, 52), [0.0, 0.0, 0.0], np.False_, 3)
    """

    def __init__(
        self,
        n_envs: int = 200,
        scenario_path: str | None = None,
        red_agent_type: object = "RedMeanderAgent",
        *,
        episode_length: int | None = None,
        seed: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        if scenario_path is not None and _SCENARIO not in str(scenario_path):
            raise ValueError(f"scenario_path is {scenario_path!r}: only {_SCENARIO}, the challenge's own, is there")
        if episode_length is not None and episode_length < 1:
            raise ValueError(f"episode_length is {episode_length}: expected 1 or more, or None for never ending")
        self.n_envs = n_envs
        self.scenario_path = scenario_path
        self.red_agent_type = red_agent_type
        self._envs = make_vec(
            "cage2",
            num_envs=n_envs,
            num_threads=num_threads,
            options={
                "red": red_agent_name(red_agent_type),
                "variant": "challenge2",
                "lengths": [episode_length or 0],
            },
            autoreset_mode="same_step",
        )
        self.observation_space = self._envs.single_observation_space
        self.observation_shape = self.observation_space.shape
        self.action_space = self._envs.single_action_space
        self._observations = self._envs.reset(seed=seed)[0]

    def reset(self, env_ids: Sequence[int] | NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Reset all envs, or the given ones; return the observations of all."""
        options = None
        if env_ids is not None:
            which = np.zeros(self.n_envs, np.bool_)
            try:
                which[np.asarray(env_ids, np.int64)] = True
            except IndexError:
                raise ValueError(f"env_ids is {env_ids!r}: expected numbers from 0 to {self.n_envs - 1}") from None
            options = {"reset_mask": which}
        self._observations = self._envs.reset(options=options)[0]
        return self._observations.copy()

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every env; return observations, rewards, dones and an info dict per env."""
        chosen = np.asarray(actions)
        if chosen.dtype.kind in "iu" and chosen.size and not 0 <= chosen.min() <= chosen.max() < FULL_ACTIONS:
            raise ValueError(f"actions hold {chosen.min()} to {chosen.max()}: expected 0 to {FULL_ACTIONS - 1}")
        observations, rewards, terminated, truncated, _ = self._envs.step(chosen)
        self._observations = observations
        return observations, rewards, terminated | truncated, [{} for _ in range(self.n_envs)]

    def get_true_states(self) -> list[dict[str, Any]]:
        """Return the true state of every env: each host with red's sessions on it, and the services that matter.

        The dicts have the simulator's form, but only what the rules depend on.
        """
        state = self._envs.get_state()
        return [{name: self._host(state, env, host) for host, name in enumerate(HOSTS)} for env in range(self.n_envs)]

    @staticmethod
    def _host(state: dict[str, NDArray[Any]], env: int, host: int) -> dict[str, Any]:
        name = HOSTS[host]
        windows = name in _WINDOWS
        users = []
        if state["privileged"][env, host]:
            users.append("SYSTEM" if windows else "root")
        users += ["user"] * int(state["removable"][env, host]) + ["user"] * int(state["sticky"][env, host])
        facts: dict[str, Any] = {
            "System info": {"Hostname": name, "OSType": "WINDOWS" if windows else "LINUX"},
            "Sessions": [{"Agent": "Red", "Username": user} for user in users],
        }
        if name == "Op_Server0":
            facts["Services"] = {"OTService": {"active": bool(state["ot_up"][env].item())}}
        return facts

    def close(self) -> None:
        """Stop the threads."""
        self._envs.close()
