"""The native core. Private: import `hotloop`, not this module.

Every class and function here does one thing without conveniences; what people call is in Python, above it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict, final, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Experience",
    "Learner",
    "Memory",
    "Pool",
    "Rollout",
    "__version__",
    "describe",
    "fma_peak",
    "isa",
    "list_envs",
    "orthogonal_weights",
    "transitions",
    "update_speed",
    "usable_cores",
]

__version__: Final[str]

_Bools: TypeAlias = NDArray[np.bool_]
_Floats: TypeAlias = NDArray[np.float32]
_Ints: TypeAlias = NDArray[np.int64]
_Value: TypeAlias = bool | int | float | str | list[int]
_Options: TypeAlias = dict[str, Any]
_Info: TypeAlias = dict[str, Any]
_Seen: TypeAlias = tuple[NDArray[Any], _Info]
_Step: TypeAlias = tuple[NDArray[Any], _Floats, _Bools, _Bools, _Info]
_Finals: TypeAlias = tuple[_Ints, NDArray[Any], _Floats, NDArray[np.int8]]

@type_check_only
class _OptionEntry(TypedDict):
    name: str
    about: str
    default: _Value
    fixed: bool
    low: float | None
    high: float | None
    choices: list[str] | None

@type_check_only
class _EnvEntry(TypedDict):
    name: str
    gymnasium_id: str
    about: str
    options: list[_OptionEntry]

@type_check_only
class _Description(TypedDict):
    seats: int
    observation: dict[str, Any]
    action: dict[str, Any]
    masked: bool
    state_version: int
    terms: list[str]
    metrics: list[str]
    infos: list[tuple[str, int]]

@type_check_only
class _FullDescription(_Description):
    state: list[tuple[str, str, int]]

@type_check_only
class _Transitions(TypedDict):
    states: int
    actions: int
    offsets: NDArray[np.uint32]
    probability: NDArray[np.float64]
    next: NDArray[np.uint32]
    reward: _Floats
    terminated: _Bools
    start: NDArray[np.float64]
    goal: _Bools
    legal: _Bools | None

@type_check_only
class _Episodes(TypedDict):
    count: int
    length: int
    total: float
    square: float
    min: float
    max: float
    extra: list[float]
    rows: _Ints
    numbers: _Ints
    lengths: _Ints
    returns: _Floats
    extras: _Floats

def list_envs() -> list[_EnvEntry]: ...
def describe(name: str, options: _Options | None = None) -> _FullDescription: ...
def transitions(name: str, options: _Options | None = None) -> _Transitions | None: ...
def isa() -> str: ...
def usable_cores() -> int: ...

@final
class Memory: ...

@final
class Rollout:
    def arrays(self) -> dict[str, NDArray[Any]]: ...

@final
class Pool:
    def __new__(
        cls,
        name: str,
        num_envs: int,
        *,
        num_threads: int | None = None,
        num_groups: int | None = None,
        options: _Options | None = None,
        first_env: int = 0,
        autoreset: Literal["next_step", "same_step", "disabled"] = "next_step",
        pin_threads: bool = False,
        infos: Sequence[str] = ...,
        action_repeat: int = 1,
    ) -> Pool: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def num_groups(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    def describe(self) -> _Description: ...
    def options(self) -> dict[str, _Value]: ...
    def group_starts(self) -> list[int]: ...
    def seed(self, seed: int | Sequence[int | None], attempt: int = 0, which: Sequence[bool] | None = None) -> None: ...
    def reset(self, which: Sequence[bool] | None = None) -> _Seen: ...
    def observe(self) -> _Seen: ...
    def step(
        self,
        actions: ArrayLike,
        out: tuple[NDArray[Any], _Floats, _Bools, _Bools] | None = None,
    ) -> _Step: ...
    def flight(self) -> dict[str, NDArray[Any]]: ...
    def send(self, actions: ArrayLike, group: int, rollout: Rollout | None = None, slot: int = 0) -> None: ...
    def recv(self, count: int) -> tuple[list[int], bool]: ...
    def finals(self, groups: Sequence[int]) -> _Finals | None: ...
    def rollout(self, horizon: int) -> Rollout: ...
    def observe_into(self, rollout: Rollout, slot: int) -> None: ...
    def rollout_finals(self, rollout: Rollout) -> tuple[_Ints, _Ints, NDArray[Any]]: ...
    def episodes(self) -> _Episodes: ...
    def faults(self) -> tuple[int, list[tuple[int, int, int, str]]]: ...
    def configure(self, changes: _Options, envs: Sequence[int] | None = None) -> None: ...
    def set_policies(self, table: Sequence[int]) -> None: ...
    def weights(self) -> list[float]: ...
    def set_weights(self, weights: Sequence[float]) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, state: bytes) -> _Seen: ...
    def get_state(self) -> dict[str, NDArray[Any]]: ...
    def set_state(self, values: dict[str, Any], envs: Sequence[int]) -> _Seen: ...
    def close(self) -> None: ...

@final
class Learner:
    """A policy that learns: for a native env by name, or for the spaces that a description such as `describe`'s has."""

    @property
    def num_threads(self) -> int: ...
    @property
    def parameters(self) -> int: ...
    @property
    def products(self) -> int: ...
    @property
    def memory_len(self) -> int: ...
    def __new__(
        cls,
        env: str | Mapping[str, Any],
        options: _Options | None,
        policy: dict[str, Any],
        *,
        rows: int,
        horizon: int,
        sequence_length: int | None = None,
        seed: int,
        attempt: int = 0,
        num_threads: int | None = None,
        first_row: int = 0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
    ) -> Learner: ...
    def iterate(self, pool: Pool, settings: dict[str, Any], count: int, seconds: float) -> dict[str, Any]: ...
    def collect(self, pool: Pool, settings: dict[str, Any]) -> None: ...
    def advantages(self, settings: dict[str, Any]) -> None: ...
    def update(self, settings: dict[str, Any]) -> dict[str, Any]: ...
    def gradient(self, settings: dict[str, Any]) -> tuple[dict[str, _Floats], dict[str, float]]: ...
    def rollout(self) -> dict[str, NDArray[Any]]: ...
    def act_slot(self, slot: int, rows: tuple[int, int], iteration: int) -> NDArray[Any]: ...
    def end_episodes(self, slot: int, rows: tuple[int, int]) -> None: ...
    def act(
        self,
        obs: ArrayLike,
        mask: NDArray[np.int8] | None = None,
        *,
        deterministic: bool,
        seed: int = 0,
        step: int = 0,
        first_row: int = 0,
        memory: _Floats | None = None,
        valid: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], _Floats, _Floats]: ...
    def value_of(self, obs: ArrayLike, rows: Sequence[int] | NDArray[np.intp] | None = None) -> _Floats: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def set_arrays(self, arrays: dict[str, _Floats]) -> None: ...
    def statistics(self) -> dict[str, NDArray[np.float64]]: ...
    def state(self) -> dict[str, NDArray[Any]]: ...
    def set_state(self, state: dict[str, NDArray[Any]]) -> None: ...
    def set_opponents(
        self, policies: list[tuple[dict[str, Any], dict[str, _Floats], dict[str, NDArray[np.float64]]]]
    ) -> None: ...

@final
class Experience:
    """A rollout for a policy that is computed elsewhere: all of a learner but its networks."""

    @property
    def num_threads(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def __new__(
        cls,
        described: Mapping[str, Any],
        *,
        rows: int,
        horizon: int,
        seed: int,
        attempt: int = 0,
        num_threads: int | None = None,
        first_row: int = 0,
        normalize_observations: bool = False,
        normalize_rewards: bool = False,
    ) -> Experience: ...
    def rollout(self) -> dict[str, NDArray[Any]]: ...
    def begin(self, pool: Pool) -> None: ...
    def step(self, pool: Pool, slot: int, outputs: _Floats, iteration: int) -> None: ...
    def finals(self, pool: Pool) -> tuple[_Ints, _Ints, NDArray[Any]]: ...
    def draw(self, slot: int, rows: tuple[int, int], outputs: _Floats, iteration: int) -> NDArray[Any]: ...
    def sample(
        self,
        outputs: _Floats,
        mask: NDArray[np.int8] | None = None,
        *,
        deterministic: bool,
        seed: int = 0,
        step: int = 0,
        first_row: int = 0,
    ) -> tuple[NDArray[Any], _Floats]: ...
    def advantages(self, settings: dict[str, Any]) -> None: ...
    def watch(self, settings: dict[str, Any]) -> None: ...
    def explained_variance(self) -> float: ...
    def order(self, iteration: int, epoch: int, count: int) -> _Ints: ...
    def statistics(self) -> dict[str, NDArray[np.float64]]: ...
    def state(self) -> dict[str, NDArray[Any]]: ...
    def set_state(self, state: dict[str, NDArray[Any]]) -> None: ...

def orthogonal_weights(outputs: int, inputs: int, *, gain: float, seed: int, attempt: int, index: int) -> _Floats: ...
def fma_peak(num_threads: int = 1, seconds: float = 0.2) -> float: ...
def update_speed(
    inputs: int,
    hidden: Sequence[int],
    actions: int,
    *,
    rows: int = 1024,
    minibatch_size: int = 16384,
    num_threads: int = 1,
    seconds: float = 0.5,
) -> tuple[float, float]: ...
