"""Samplers: functions of what a trial may see and of its key, wherever and however often they are asked."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from hotloop.config.loader import known_keys
from hotloop.errors import ConfigError
from hotloop.sweeps import keys, sobol
from hotloop.sweeps.samplers import Observation, RandomSampler, Sampler, make_sampler
from hotloop.sweeps.space import Settings, Space, parse_space

ENTRIES = {
    "ppo.learning_rate": "log(1e-4, 1e-2)",
    "ppo.gamma": "log1m(0.9, 0.999)",
    "ppo.minibatch_size": "pow2(256, 16384)",
    "policy.memory": "choice(none, lstm)",
    "ppo.sequence_length": {"if": {"policy.memory": "lstm"}, "is": "choice(16, 32, 64)"},
}
LAG = 4


def space_of(entries: Any = ENTRIES) -> Space:
    return parse_space(entries, known_keys("cartpole"), lambda key: None)


def make(name: str, space: Space, objectives: int = 1) -> Sampler:
    return make_sampler(name, space, 0, objectives=objectives, grid=4)


def score(settings: Settings) -> float:
    return -abs(math.log(settings["ppo.learning_rate"]) + 6) - float(settings["ppo.gamma"])


def search(name: str, count: int, *, restart: int = 10**9, space: Space | None = None) -> list[Settings]:
    """Return the settings of trials; the sampler is made again every `restart` of them, as resuming a sweep does."""
    space = space or space_of()
    done: list[Settings] = []
    results: list[Observation] = []
    sampler = make(name, space)
    for index in range(count):
        if index and index % restart == 0:
            sampler = make(name, space)
            for known in range(index):
                again = sampler.ask(results[: max(0, known - LAG + 1)], pending(done, known), keys.generator(0, known))
                assert again == done[known]
        asked = sampler.ask(results[: max(0, index - LAG + 1)], pending(done, index), keys.generator(0, index))
        assert space.has(asked)
        done.append(asked)
        # A trial that failed, and one that was pruned, are results, too.
        state = {5: "failed", 7: "pruned"}.get(index, "completed")
        values = (score(asked),) if state == "completed" else ()
        results.append(Observation(index, asked, state, values, ((100, score(asked)),)))
    return done


def pending(done: Sequence[Settings], index: int) -> list[tuple[int, Settings]]:
    return [(each, done[each]) for each in range(max(0, index - LAG + 1), index)]


@pytest.mark.parametrize("name", ["random", "sobol", "grid", "tpe", "cma-es", "nsga-ii"])
def test_a_resumed_search_asks_for_the_same_settings(name: str) -> None:
    assert search(name, 24) == search(name, 24, restart=11)


def test_built_in_draws_never_change() -> None:
    assert search("random", 1) == [
        {
            "ppo.learning_rate": 0.000473915,
            "ppo.gamma": 0.99724361,
            "ppo.minibatch_size": 256,
            "policy.memory": "lstm",
            "ppo.sequence_length": 32,
        }
    ]


def test_a_random_draw_does_not_depend_on_other_dimensions() -> None:
    alone = space_of({"ppo.gamma": ENTRIES["ppo.gamma"]})
    assert [each["ppo.gamma"] for each in search("random", 4)] == [
        each["ppo.gamma"]
        for each in (RandomSampler(alone, 0).ask([], pending([{}] * 4, i), random.Random()) for i in range(4))
    ]


def test_sobol_points_fill_every_cell() -> None:
    for dimension in range(sobol.MOST_DIMENSIONS):
        cells = sorted(int(32 * sobol.coordinate(index, dimension, 7)) for index in range(32))
        assert cells == list(range(32))
    pairs = {(int(4 * sobol.coordinate(i, 0, 7)), int(4 * sobol.coordinate(i, 1, 7))) for i in range(16)}
    assert len(pairs) == 16


def test_a_grid_has_every_combination_once() -> None:
    space = space_of()
    found = search("grid", len(space.grid(4)))
    assert len({str(each) for each in found}) == len(found) == 4 * 4 * 4 * (1 + 3)


def test_tpe_learns_from_results() -> None:
    informed, blind = search("tpe", 60), search("random", 60)
    assert sum(map(score, informed[40:])) > sum(map(score, blind[40:]))


def test_prior_trials_are_known_from_the_start() -> None:
    space = space_of({"ppo.learning_rate": "log(1e-4, 1e-2)", "ppo.gamma": "log1m(0.9, 0.999)"})
    prior = [
        Observation(number - 20, each, "completed", (score(each),))
        for number, each in enumerate(search("random", 20, space=space))
    ]
    informed = make("tpe", space).ask(prior, [], keys.generator(0, 0))
    assert informed != make("tpe", space).ask([], [], keys.generator(0, 0))


@pytest.mark.parametrize(
    ("name", "objectives", "message"),
    [
        ("tpa", 1, "did you mean 'tpe'"),
        ("anything", 1, "expected random, sobol"),
        ("nowhere:Class", 1, "no module 'nowhere'"),
        ("cma-es", 2, "takes one objective"),
    ],
)
def test_a_sampler_that_cannot_be_used_is_refused(name: str, objectives: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(name, space_of(), objectives)


def test_sobol_refuses_more_dimensions_than_it_has() -> None:
    many = {f"env.o{number}": "real(0, 1)" for number in range(sobol.MOST_DIMENSIONS + 1)}
    with pytest.raises(ConfigError, match="at most 24 dimensions: the space has 25"):
        make("sobol", space_of(many))
