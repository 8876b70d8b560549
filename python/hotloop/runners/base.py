"""The interface of all runners: what `hotloop.make_vec` returns."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from gymnasium.vector import VectorEnv

from hotloop.runners import arguments
from hotloop.runners.reports import EpisodeReport, FaultReport

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hotloop import _core
    from hotloop.runners.batch import Batch
    from hotloop.runners.rollout import Rollout

    Step = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
    ObsInfo = tuple[NDArray[Any], dict[str, Any]]
    Out = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]

IN_USE = (
    "another thread is using this runner: one thread at a time may call it. Give each thread a runner of its own, or "
    "hold a lock around its calls"
)


_NO_OBJECTS = "native envs are no Python objects: use options, configure, get_state and set_state"


class ThreadGuard:
    """Rejects a second thread; the same thread may enter again, as a listener does that queries its runner."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(IN_USE)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Runner(VectorEnv[Any, Any, Any]):
    """Many envs as one vector env: `num_envs` rows, from `env_count` envs with `seats` rows each."""

    name: str
    env_count: int
    seats: int
    num_groups: int
    groups_per_batch: int
    first_env: int
    options: dict[str, Any]
    masked: bool
    reward_terms: tuple[str, ...]
    metrics: tuple[str, ...]
    _seed_now: int | None

    @abstractmethod
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> ObsInfo:
        """Start a new episode in every env, or in some; return observation and info."""

    @abstractmethod
    def step(self, actions: ArrayLike, out: Out | None = None) -> Step:
        """Step every env; return observation, reward, terminated, truncated and info."""

    @abstractmethod
    def step_async(self, actions: ArrayLike) -> None:
        """Start a step of every env, with an action for each row."""

    @abstractmethod
    def step_wait(self) -> Step:
        """Wait for the step that `step_async` started."""

    @abstractmethod
    def group_rows(self, group: int) -> slice:
        """The rows of a group."""

    @abstractmethod
    def send(self, actions: ArrayLike, group: int) -> None:
        """Start a step of one group, with an action for each of its rows; `recv` returns the result."""

    @abstractmethod
    def recv(self, count: int | None = None) -> Batch:
        """Wait for the `count` groups that are ready first (default: `groups_per_batch`), or for all in flight."""

    def rollout(self, horizon: int) -> Rollout:
        """Return arrays for `horizon` steps of every row, which groups of native envs can write to."""
        raise NotImplementedError("rollout() is for native envs: store the batches of recv() instead")

    @abstractmethod
    def configure(self, options: Mapping[str, Any], envs: ArrayLike | None = None) -> None:
        """Change env options from each env's next reset on, in all envs or in those named by index."""

    @abstractmethod
    def set_policies(self, table: ArrayLike) -> None:
        """Set which policy plays each seat (`table[env, seat]`), from each env's next reset on."""

    @property
    @abstractmethod
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term; the reward is the weighted sum of the terms."""

    @abstractmethod
    def set_reward_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of the named terms, from the next step on."""

    @abstractmethod
    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return every field of the envs' state, an entry per env."""

    @abstractmethod
    def set_state(self, fields: Mapping[str, ArrayLike], envs: ArrayLike | None = None) -> ObsInfo:
        """Set fields of all envs, or of those named by index; return the observation and info of every row."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return the state of every env, for `restore`."""

    @abstractmethod
    def restore(self, state: bytes) -> ObsInfo:
        """Restore a snapshot; return the observation and info of every row."""

    @abstractmethod
    def faults(self) -> FaultReport:
        """Return the faults since the last call; each env was reset, and its episode dropped."""

    @abstractmethod
    def _seed(self, seed: int, attempt: int = 0) -> None:
        """Restart every random stream; `attempt` is part of its key."""

    @abstractmethod
    def _take_episodes(self) -> _core._Episodes:
        """Return the sums over the episodes that finished since the last call."""

    def _wanted(self, count: int | None) -> int:
        return self.groups_per_batch if count is None else arguments.within("count", count, 1, self.num_groups)

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of every env in `render_mode`; `None` without one."""
        return None

    def call(self, name: str, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        """Call a method of every Python env; return the results, an entry per env."""
        raise NotImplementedError(f"call({name!r}): {_NO_OBJECTS}")

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every Python env, an entry per env."""
        raise NotImplementedError(f"get_attr({name!r}): {_NO_OBJECTS}")

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every Python env: a value for each, or one for all."""
        raise NotImplementedError(f"set_attr({name!r}): {_NO_OBJECTS}")

    def episodes(self) -> EpisodeReport:
        """Return statistics of the episodes that finished since the last call."""
        return EpisodeReport.from_core(self._take_episodes(), self.reward_terms, self.metrics)

    @property
    def np_random_seed(self) -> int | None:
        """The seed of the envs' random streams: `None` before the first reset, -1 if they have several."""
        return self._seed_now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
