"""A record's line has the content of the journal's own lines, with losses as entries of their own."""

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hotloop.tracking.journal import encode
from hotloop.training.callbacks import IterationReport, Statistics, TimeSplit
from hotloop.training.record_lines import record_line

numbers = st.floats() | st.sampled_from([0.0, -0.0, 500.0, 1e22, math.nan, math.inf])
counts = st.integers(-(2**63), 2**63)
names = st.text(max_size=5) | st.sampled_from(['a"b', "50%", "%d"])
named = st.dictionaries(names, numbers | counts, max_size=3)
statistics = st.builds(
    Statistics,
    weights=st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), numbers, max_size=2), max_size=2),
    gradients=st.just({}),
    actions=st.fixed_dictionaries({"shares": st.lists(numbers, max_size=3)}),
)
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "int": counts,
    "float": numbers,
    "dict[str, float]": named,
    "TimeSplit": st.builds(TimeSplit, numbers, numbers, numbers, numbers, numbers),
    "list[list[float]]": st.lists(st.tuples(numbers, st.integers(0, 10**6)).map(list), max_size=3),
    "Statistics | None": st.none() | statistics,
}
records = st.fixed_dictionaries(
    {field.name: DRAWN[str(field.type)] for field in IterationReport.__dataclass_fields__.values()}
    | {"losses": st.dictionaries(names, numbers, max_size=3)}
).map(lambda result: IterationReport(**result))


@given(records, st.floats(0, 2e9))
def test_a_record_reads_the_same_by_template_and_by_the_general_encoder(report: IterationReport, at: float) -> None:
    line = record_line(at, report)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    record = {**vars(report), **report.losses}
    del record["losses"]
    assert json.loads(line) == json.loads(encode(at, {"event": "iteration", **record}))
