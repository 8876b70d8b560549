"""What ends a run that should have gone on."""


class TrainingError(RuntimeError):
    """A run that could not go on; the message says why, and whether it can be resumed."""


class CheckpointError(TrainingError):
    """A checkpoint that is damaged, foreign or missing."""
