"""The tables of a store, as SQLAlchemy sees them. How they come about stands in `migrations.py`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text

metadata = MetaData()


def _table(table: str, /, **columns: type[Any]) -> Table:
    return Table(table, metadata, *(Column(column, kind) for column, kind in columns.items()))


_AT = {"run": BigInteger, "step": BigInteger, "time": Double}

runs = _table(
    "runs",
    number=BigInteger,
    id=Text,
    name=Text,
    path=Text,
    host=Text,
    process=BigInteger,
    env=Text,
    seed=Text,
    status=Text,
    ended=Text,
    created=Double,
    seen=Double,
    seconds=Double,
    steps=BigInteger,
    iterations=BigInteger,
    episodes=BigInteger,
    return_recent=Double,
    best=Double,
    config=Text,
    facts=Text,
    taken=BigInteger,
)
metric_keys = _table("metric_keys", number=BigInteger, name=Text)
metrics = _table("metrics", run=BigInteger, key=BigInteger, step=BigInteger, time=Double, value=Double)
episodes = _table(
    "episodes",
    **_AT,
    count=BigInteger,
    return_mean=Double,
    return_std=Double,
    return_min=Double,
    return_max=Double,
    length_mean=Double,
    sample=Text,
)
evaluations = _table(
    "evaluations",
    number=BigInteger,
    **_AT,
    source=Text,
    mean=Double,
    low=Double,
    high=Double,
    episodes=BigInteger,
    facts=Text,
)
checkpoints = _table("checkpoints", **_AT, path=Text, is_best=BigInteger)
events = _table("events", number=BigInteger, **_AT, kind=Text, level=Text, what=Text, facts=Text)
resources = _table("resources", number=BigInteger, **_AT, who=Text, cpu=Double, memory=Double, facts=Text)
