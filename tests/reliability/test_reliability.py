"""The short form of the attacks: a few cases of each class. `make reliability` makes thousands."""

from pathlib import Path

import pytest

from tests.reliability import engine
from tests.reliability.calls import Calls
from tests.reliability.deaths import Deaths
from tests.reliability.engine import Attack
from tests.reliability.forgeries import Forgeries
from tests.reliability.hostile import Hostile
from tests.reliability.kills import Kills
from tests.reliability.mutations import Mutations
from tests.reliability.trust import Trust

SHORT: list[tuple[Attack, int]] = [
    (Kills(["cartpole", "tabular"]), 2),
    (Deaths(), 4),
    (Mutations(), 2),
    (Forgeries(), 8),
    (Trust(shown=False), 8),
    (Hostile(), 6),
    (Calls(), 500),
]


@pytest.mark.parametrize(("attack", "count"), SHORT, ids=[attack.name for attack, _ in SHORT])
def test_nothing_is_lost_and_nobody_fooled(attack: Attack, count: int, tmp_path: Path) -> None:
    tally = engine.run(attack, count, seed=1, jobs=1, folder=tmp_path)
    assert tally.tried >= count
    assert not tally.findings
