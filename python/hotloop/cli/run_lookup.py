"""Find a run by its path, name, id, the beginning of one, or `last`."""

from collections.abc import Sequence
from pathlib import Path

from hotloop.cli.output import UserError
from hotloop.errors import TrainingError
from hotloop.training.lookup import find_run


def find(text: str, envs: Sequence[str] = ()) -> Path:
    """Return the run's folder. `envs` are env names that would be valid here, too, for the error message."""
    try:
        return find_run(text, envs=envs)
    except TrainingError as error:
        raise UserError(str(error)) from None
