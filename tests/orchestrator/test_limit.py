"""The law of the adaptive limit, on models of machines."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from hotloop.config.orchestrator import OrchestratorConfig
from hotloop.orchestrator.limit import Limit, Signals, adapt

SETTINGS = OrchestratorConfig()


def run_model(
    goodput: Callable[[int], float], stall: Callable[[int], float], *, start: int = 8, intervals: int = 60
) -> list[int]:
    """Limits over time on a machine that does `goodput(n)` work with n jobs, with an endless queue."""
    limit, limits = Limit(start), []
    for _ in range(intervals):
        seen = Signals(running=limit.value, queued=100, stall=stall(limit.value), goodput=goodput(limit.value))
        limit, _ = adapt(limit, seen, SETTINGS)
        limits.append(limit.value)
    return limits


def test_busy_jobs_settle_near_the_number_of_cores() -> None:
    limits = run_model(lambda n: min(n, 4), lambda n: max(0.0, 1 - 4 / n), start=12)
    assert all(4 <= value <= 8 for value in limits[20:]), limits


def test_idle_jobs_are_raised_to_where_goodput_ends_to_rise() -> None:
    limits = run_model(lambda n: min(n, 14) * 0.2, lambda n: 0.02, start=2)
    assert max(limits[20:]) <= SETTINGS.max_concurrent_tasks
    assert min(limits[20:]) >= 14, limits


def test_a_probe_that_does_not_pay_is_taken_back_and_repeated_less_and_less() -> None:
    limits = run_model(lambda n: min(n, 4), lambda n: 0.1, start=4, intervals=64)
    assert set(limits) == {4, 5}
    probes = [i for i, (a, b) in enumerate(pairwise(limits)) if (a, b) == (4, 5)]
    gaps = [b - a for a, b in pairwise(probes)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > gaps[0]


def test_steps_are_small_while_jobs_wait_for_cores() -> None:
    for stall, step in ((0.0, SETTINGS.increase_step), (0.05, 1)):
        limit, why = adapt(Limit(4), Signals(running=4, queued=9, stall=stall, goodput=4.0), SETTINGS)
        assert (limit.value, limit.probe, why) == (4 + step, "up", "probe up")


def test_a_crowded_machine_is_probed_downwards_and_restored_if_goodput_falls() -> None:
    crowded = Signals(running=4, queued=9, stall=0.5, goodput=4.0)
    down, _ = adapt(Limit(4), crowded, SETTINGS)
    assert (down.value, down.probe) == (3, "down")
    back, why = adapt(down, Signals(running=3, queued=9, stall=0.3, goodput=3.0), SETTINGS)
    assert (back.value, why) == (4, "goodput fell: taken back")
    kept, _ = adapt(down, Signals(running=3, queued=9, stall=0.3, goodput=3.99), SETTINGS)
    assert (kept.value, kept.probe) == (3, "")


def test_without_demand_nothing_is_raised() -> None:
    for running, queued in ((4, 0), (3, 5)):
        limit, _ = adapt(Limit(4), Signals(running=running, queued=queued, goodput=1.0), SETTINGS)
        assert limit.value == 4


def test_deaths_halve_the_limit() -> None:
    limit, why = adapt(Limit(8), Signals(running=8, queued=9, deaths=3, attempts=20), SETTINGS)
    assert (limit.value, why) == (4, "3 of the last 20 attempts died")
    limit, _ = adapt(Limit(8), Signals(running=8, queued=0, deaths=2, attempts=20), SETTINGS)
    assert limit.value == 8


def test_short_memory_lowers_the_limit_below_the_running_jobs() -> None:
    limit, why = adapt(Limit(8), Signals(running=6, queued=9, memory_pressure=True), SETTINGS)
    assert (limit.value, why) == (5, "memory is short")


def test_a_queue_for_gpus_is_not_made_longer() -> None:
    seen = Signals(running=4, queued=9, goodput=4.0, gpu_wait=SETTINGS.gpu_wait_high + 1)
    assert adapt(Limit(4), seen, SETTINGS)[0].value == 4


@pytest.mark.parametrize("setting", [{"max_limit": 4}, {"max_concurrent_tasks": 4}])
def test_the_limit_stays_within_its_bounds(setting: dict[str, int]) -> None:
    settings = OrchestratorConfig(base_limit=4, **setting)
    assert adapt(Limit(4), Signals(running=4, queued=9, goodput=4.0), settings)[0].value == 4
    low = OrchestratorConfig(min_limit=3)
    assert adapt(Limit(3), Signals(running=3, queued=9, stall=0.9, goodput=4.0), low)[0].value == 3
