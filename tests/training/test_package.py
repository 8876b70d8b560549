"""The names that `hotloop.training` offers."""

import hotloop.training


def test_every_public_name_can_be_imported() -> None:
    found = {name: getattr(hotloop.training, name) for name in hotloop.training.__all__}
    assert all(found.values())
