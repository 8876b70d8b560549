"""What can be wrong with a store, in words a person can act on."""


class StoreError(RuntimeError):
    """A store that cannot be used; the message says why and what to do."""


class StoreReadOnlyError(StoreError):
    """A store that can be read only."""


class StoreAwayError(StoreError):
    """A store that cannot be reached or is locked: the same may work later."""
