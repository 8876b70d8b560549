"""Exceptions that users of the package may want to catch. Modules import them from here."""


class ConfigError(ValueError):
    """A config that cannot be used; the message names the key and suggests a fix."""


class SpaceError(ValueError):
    """A space that policies do not support."""


class EnvOutputError(RuntimeError):
    """An env returned an invalid observation, reward, mask or info."""


class MissingPackageError(ImportError):
    """An env needs a package that is not installed."""

    def __init__(self, name: str, module: str, install: str) -> None:
        self.need = f"{name} needs the package {module}: pip install '{install}'"
        super().__init__(
            f"{self.need}, or name an interpreter that has it with runner.worker_python (--worker-python PATH)",
            name=module,
        )


class UnknownEnvError(ValueError):
    """A library has no env of that name; the message suggests one."""


class EnvError(RuntimeError):
    """Envs cannot be made, or fail at once; the message has the traceback of the worker."""


class WorkersFailedError(RuntimeError):
    """A worker faulted more often than its limit allows; the message reports its last faults."""


class RenderError(ValueError):
    """An env cannot be rendered in the requested mode."""


class ReplayError(ValueError):
    """A file that is not a replay, is damaged, or does not fit this version of its env."""


class NotFiniteError(ArithmeticError):
    """An array holds a number that is not finite; the message names array, index and iteration."""


class TrainingError(RuntimeError):
    """A run that failed; the message says why, and whether it can be resumed."""

    worth_keeping = False
    """Whether the weights are sound and should be saved in a checkpoint."""


class CheckpointError(TrainingError):
    """A checkpoint that is damaged, foreign or missing."""


class UnusableCheckpointError(CheckpointError):
    """A checkpoint that is complete but does not fit: another run's, another policy's, or of a newer version."""


class RankDiedError(TrainingError):
    """An MPI rank died; the progress up to then is kept."""

    worth_keeping = True


class DisagreementError(ConfigError):
    """MPI ranks have different configs; every rank raises it."""


class ExportError(ValueError):
    """A policy cannot be exported, or the exported one does not reproduce its actions."""


class StoreError(RuntimeError):
    """A store that cannot be used; the message says why and what to do."""


class StoreReadOnlyError(StoreError):
    """A store that is read-only."""


class StoreAwayError(StoreError):
    """A store that is unreachable or locked; retrying later may work."""


class QueryError(StoreError):
    """A filter, a key or another part of a query that cannot be understood."""


class NoSuchRunError(StoreError):
    """A text that names no run; `near` has the nearest name, if any is near."""

    def __init__(self, message: str, near: list[str] | None = None) -> None:
        super().__init__(message)
        self.near = near or []


class AmbiguousRunError(StoreError):
    """The beginning of a name or id that fits several runs; `near` has their names."""

    def __init__(self, message: str, near: list[str]) -> None:
        super().__init__(message)
        self.near = near


class JobError(RuntimeError):
    """A job that cannot be submitted, found or changed; the message says why and what to do."""


class LeaseLostError(RuntimeError):
    """Another orchestrator has taken over the store; this one must not change it any more."""


class JournalError(OSError):
    """A file in place of a run's journal that is not a journal."""
