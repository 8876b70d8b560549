"""What ends a run that should have gone on."""


class TrainingError(RuntimeError):
    """A run that could not go on; the message says why, and whether it can be resumed."""

    worth_keeping = False
    """Whether what was learned until then is sound, and should be kept in a checkpoint."""


class CheckpointError(TrainingError):
    """A checkpoint that is damaged, foreign or missing."""
