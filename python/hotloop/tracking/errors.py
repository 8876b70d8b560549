"""Errors of stores and journals; their messages say what is wrong and what to do."""


class StoreError(RuntimeError):
    """A store that cannot be used."""


class StoreReadOnlyError(StoreError):
    """A store that can only be read."""


class StoreAwayError(StoreError):
    """A store that cannot be reached or is locked: the same may work later."""


class JournalError(OSError):
    """A file in the place of a run's journal that cannot be one."""
