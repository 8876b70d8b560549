"""Spaces: what distributions draw, which dimensions apply, and errors that name the place."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.config.loader import known_keys
from hotloop.errors import ConfigError
from hotloop.sweeps.space import Distribution, Space, parse_distribution, parse_space

NUMBERS = ("real(0.1, 3)", "log(1e-4, 1e-2)", "log1m(0.9, 0.999)", "int(1, 8)", "logint(50k, 1M)", "pow2(256, 16k)")


def parse(entries: dict[str, Any], **fixed: Any) -> Space:
    return parse_space(entries, known_keys("cartpole"), fixed.get)


def distribution(text: str) -> Distribution:
    return parse_distribution(text.replace("16k", "16384"), "space.x")


@given(st.sampled_from(NUMBERS), st.floats(0, 1, exclude_max=True))
def test_values_lie_in_the_range_and_are_recognised(text: str, unit: float) -> None:
    drawn = distribution(text)
    value = drawn.value(unit)
    assert drawn.low <= value <= drawn.high
    assert drawn.coordinate(value) is not None
    # Rounded to a few digits, so that the last bits of a logarithm do not matter.
    assert value == drawn.at(drawn.coordinate(value))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", NUMBERS)
def test_the_ends_of_a_range_are_reached(text: str) -> None:
    drawn = distribution(text)
    assert drawn.value(0.0) == drawn.low
    if drawn.is_discrete:
        assert drawn.value(1 - 2**-53) == drawn.high
    assert {drawn.points(5)[0], drawn.points(5)[-1]} == {drawn.low, drawn.high}
    assert (drawn.unit(drawn.low), drawn.unit(drawn.high)) == (0.0, 1.0)


def test_each_kind_spreads_evenly_on_its_own_scale() -> None:
    assert distribution("log(1e-4, 1e-2)").value(0.5) == pytest.approx(1e-3)
    assert 1 - distribution("log1m(0.9, 0.999)").value(0.5) == pytest.approx(0.01)
    assert distribution("pow2(256, 16384)").value(0.5) == 2048
    assert [distribution("int(1, 4)").value(i / 4) for i in range(4)] == [1, 2, 3, 4]
    assert distribution("logint(10, 1000)").value(0.5) == math.floor(math.sqrt(10 * 1001))


def test_conditions_decide_which_dimensions_apply() -> None:
    space = parse(
        {
            "ppo.sequence_length": {"if": {"policy.memory": ["lstm", "gru"]}, "is": "choice(16, 32)"},
            "policy.memory": "choice(none, lstm)",
        }
    )
    assert space.settings(lambda each: each.distribution.value(0.0)) == {"policy.memory": "none"}
    with_memory = space.settings(lambda each: each.distribution.value(0.9))
    assert with_memory == {"policy.memory": "lstm", "ppo.sequence_length": 32}
    assert len(space.grid(4)) == 3
    assert space.has(with_memory)
    assert not space.has({"policy.memory": "none", "ppo.sequence_length": 16})


def test_a_condition_may_name_a_fixed_setting() -> None:
    entry = {
        "ppo.sequence_length": {"if": {"policy.memory": "lstm"}, "is": "choice(16, 32)"},
        "ppo.epochs": "int(1, 2)",
    }
    fixed = {"policy.memory": "lstm"}
    assert len(parse_space(entry, known_keys("cartpole"), fixed.get).grid(4)) == 4
    assert len(parse(entry).grid(4)) == 2


def test_tied_choices_set_several_keys_together() -> None:
    space = parse({"runner.num_envs, ppo.horizon": "choice([32, 64], [64, 32])"})
    assert space.grid(4) == [{"runner.num_envs": 32, "ppo.horizon": 64}, {"runner.num_envs": 64, "ppo.horizon": 32}]


def test_a_choice_may_have_no_value_as_an_option() -> None:
    space = parse({"ppo.target_kl": "choice(null, 0.02)"})
    assert space.has({"ppo.target_kl": None})
    assert not space.has({})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "the space is empty"),
        ({"ppo.lr": "log(1e-4, 1e-2)"}, "Did you mean 'ppo.learning_rate'"),
        ({"ppo.epochs": "int(5, 5)"}, "space.ppo.epochs is 'int.5, 5.': the range is empty"),
        ({"ppo.epochs": "int(8, 1)"}, "the range is empty, 8 is not less than 1"),
        ({"ppo.epochs": "int(1.5, 4)"}, "int needs whole numbers"),
        ({"ppo.epochs": "int(1, 2, 3)"}, "expected two numbers"),
        ({"ppo.epochs": "integer(1, 2)"}, "expected a distribution: real"),
        ({"ppo.epochs": "choice()"}, "needs at least one value"),
        ({"ppo.epochs": "choice(2, 2)"}, "given twice"),
        ({"ppo.epochs": 4}, "fixed values stand outside of the space"),
        ({"ppo.learning_rate": "log(0, 1)"}, "log needs a low bound above 0"),
        ({"ppo.gamma": "log1m(0.9, 1)"}, "log1m needs a high bound below 1"),
        ({"ppo.minibatch_size": "pow2(100, 256)"}, "pow2 needs powers of two"),
        ({"train.seed": "int(0, 9)"}, "seeds come from sweep.seed"),
        ({"track.interval": "int(1, 9)"}, "space.track.interval cannot be searched"),
        ({"ppo.epochs": "int(1, 2)", "ppo.epochs, ppo.clip": "choice([1, 0.1])"}, "is searched twice"),
        ({"ppo.epochs, ppo.clip": "choice([1, 0.1], [2])"}, "needs 2 values, one per key"),
        ({"ppo.epochs, ppo.clip": "int(1, 2)"}, "settings are tied by choice"),
        ({"ppo.epochs": {"if": {"ppo.clip": 1}}}, "expected a distribution, or {if"),
        ({"ppo.epochs": {"if": {"ppo.clap": 1}, "is": "int(1, 2)"}}, "its condition names an unknown key"),
        (
            {
                "ppo.epochs": {"if": {"ppo.clip": 0.2}, "is": "int(1, 3)"},
                "ppo.clip": {"if": {"ppo.epochs": 2}, "is": "real(0.1, 0.4)"},
            },
            "depend on each other",
        ),
        (
            {"policy.memory": "choice(none, gru)", "ppo.epochs": {"if": {"policy.memory": "lstm"}, "is": "int(1, 2)"}},
            "its condition never holds",
        ),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused_by_name(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(entries)
