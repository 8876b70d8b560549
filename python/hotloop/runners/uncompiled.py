"""The native runner for compiled envs that run uncompiled: exceptions of the env are raised to the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.runners.threads import ThreadRunner

if TYPE_CHECKING:
    from hotloop.envs.compiled.uncompiled import Failures
    from hotloop.runners.batch import Batch


class UncompiledRunner(ThreadRunner):
    """A `ThreadRunner` that raises the exceptions of its envs."""

    failures: Failures

    def step(self, actions: Any, out: Any = None) -> Any:
        """See `ThreadRunner`."""
        result = super().step(actions, out)
        self.failures.raise_first()
        return result

    def reset(self, **keywords: Any) -> Any:
        """See `ThreadRunner`."""
        result = super().reset(**keywords)
        self.failures.raise_first()
        return result

    def recv(self, count: int | None = None) -> Batch:
        """See `ThreadRunner`."""
        result = super().recv(count)
        self.failures.raise_first()
        return result
