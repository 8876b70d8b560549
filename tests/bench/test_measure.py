"""Contenders take turns, only their work is timed, and medians and spreads are what they say."""

import itertools
from collections.abc import Callable

import pytest

from hotloop.bench import measure as measuring
from hotloop.bench.measure import Contender, Rate, measure


class Clock:
    """Time that passes only when someone says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self, seconds: float) -> Callable[[object], None]:
        """A piece of work that takes so long."""

        def work(_: object = None) -> None:
            self.now += seconds

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measuring, "perf_counter", lambda: clock.now)
    return clock


def test_the_rate_is_work_per_second(clock: Clock) -> None:
    fast = Contender("fast", clock.advance(0.001), [1, 2], work_per_pass=20)
    slow = Contender("slow", clock.advance(0.5), [1, 2], work_per_pass=20)
    rates = measure([fast, slow], seconds=0.1, rounds=3)
    assert [rate.value for rate in rates] == pytest.approx([10_000, 20])
    assert [len(rate.rounds) for rate in rates] == [3, 3]


def test_a_measurement_lasts_about_as_long_as_asked(clock: Clock) -> None:
    starts = []
    contender = Contender("one", clock.advance(0.001), [0], work_per_pass=1)
    measure([contender], seconds=0.25, rounds=4, progress=lambda _: starts.append(clock.now))
    rounds = [later - earlier for earlier, later in itertools.pairwise(starts[1:])]
    assert rounds == pytest.approx([0.25] * 3)


def test_going_back_to_the_start_of_a_game_is_not_timed(clock: Clock) -> None:
    rewind = clock.advance(100)
    contender = Contender("game", clock.advance(0.01), [1, 2, 3, 4], work_per_pass=4, rewind=lambda: rewind(None))
    (rate,) = measure([contender], seconds=0.1, rounds=2)
    assert rate.value == pytest.approx(100)


def test_every_pass_of_a_game_begins_with_a_rewind() -> None:
    seen: list[int | str] = []
    contender = Contender("game", seen.append, [1, 2], work_per_pass=2, rewind=lambda: seen.append("start"))
    measure([contender], seconds=1e-6, rounds=1)
    assert len(seen) >= 6
    assert seen == ["start", 1, 2] * (len(seen) // 3)


def test_contenders_take_turns_after_their_warm_up() -> None:
    heard = []
    contenders = [Contender(name, lambda _: None, [0], work_per_pass=1) for name in "abc"]
    measure(contenders, seconds=1e-6, rounds=3, progress=lambda contender: heard.append(contender.name))
    assert "".join(heard) == "abc" + "abc" + "bca" + "cab"


def test_value_is_the_median_and_spread_the_middle_half() -> None:
    rate = Rate((1.0, 2.0, 4.0, 5.0, 100.0))
    assert rate.value == 4
    assert rate.spread == pytest.approx((5 - 2) / 4)


def test_a_single_round_has_no_spread() -> None:
    assert Rate((3.0,)).spread is None


@pytest.mark.parametrize(("seconds", "rounds"), [(0, 1), (-1, 1), (1, 0)])
def test_no_time_and_no_rounds_are_refused(seconds: float, rounds: int) -> None:
    with pytest.raises(ValueError, match="at least one round"):
        measure([], seconds=seconds, rounds=rounds)
