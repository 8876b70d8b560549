"""Queries of displays, by both kinds of database."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.errors import QueryError, StoreError
from hotloop.tracking.database import Database
from hotloop.tracking.queries import Axis, bucketed, changed_since, page, tail
from hotloop.tracking.store import Store, StoredRun
from hotloop.tracking.store_url import find_store_url

QUICK: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "track.interval": 4,
    "train.until": None,
    "train.evaluate_episodes": 0,
}
POINTS = 5000


def trained(home: Path, store: str, name: str, **config: Any) -> None:
    hotloop.train("cartpole", steps=1024, config={**QUICK, **config}, home=home, store=store, name=name)


def filled(home: Path, store: str) -> None:
    """One run with a long metric that is never twice the same."""
    trained(home, store, "long")
    url = find_store_url(store, home)
    assert url is not None
    with Database(url) as database, database.transaction():
        (number,) = database.execute("SELECT number FROM runs").fetchone()
        key = database.key_numbers(["mine"])["mine"]
        values = np.random.default_rng(0).normal(size=POINTS).tolist()
        rows = [(number, key, 3 * i, 1000.0 + i / 7, value) for i, value in enumerate(values)]
        database.insert("metrics", ("run", "key", "step", "time", "value"), rows)


def test_pages_have_every_run_once_while_runs_are_added(tmp_path: Path, store: str) -> None:
    for i in range(5):
        trained(tmp_path, store, f"run-{i}", **{"train.seed": i // 2})
    seen: list[str] = []
    with Store(store, home=tmp_path) as found:
        for sort in ("seed", "-seed", "-created", "kl"):
            seen, cursor = [], None
            while True:
                some = page(found, sort=sort, limit=2, cursor=cursor, columns=["name", "seed"])
                seen += [values[0] for values in some.values]
                assert some.total == 5
                if (cursor := some.cursor) is None:
                    break
            assert sorted(seen) == [f"run-{i}" for i in range(5)], sort
        first = page(found, sort="-seed", limit=2)
        trained(tmp_path, store, "new", **{"train.seed": 9})
        rest = page(found, sort="-seed", cursor=first.cursor)
        assert [run.seed for run in (*first.runs, *rest.runs)] == [2, 1, 1, 0, 0]
        assert page(found, where=["name=run-*", "seed>=1"], text="run-3").total == 1
        with pytest.raises(QueryError, match="is none that a page ended with"):
            page(found, cursor="nonsense")


def test_changes_are_new_runs_new_events_and_deletions(tmp_path: Path, store: str) -> None:
    trained(tmp_path, store, "one")
    trained(tmp_path, store, "two")
    with Store(store, home=tmp_path) as found:
        first = changed_since(found, {})
        assert sorted(run.name for run in first.runs) == ["one", "two"]
        same = changed_since(found, first.positions)
        assert (same.runs, same.deleted) == ([], [])
        hotloop.train(resume="one", home=tmp_path, store=store, steps=1536)
        found.delete(found.find("two"))
        second = changed_since(found, first.positions)
        assert [run.name for run in second.runs] == ["one"]
        assert len(second.deleted) == 1


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [("step", None, None), ("step", 1000.0, 9000.0), ("time", None, None), ("time", 1100.5, 1500.25)],
)
def test_buckets_are_those_that_the_points_make(
    tmp_path: Path, store: str, x: Axis, low: float | None, high: float | None
) -> None:
    filled(tmp_path, store)
    with Store(store, home=tmp_path) as found:
        run = found.find("long")
        series = found.series(run, "mine")
        along = series.steps.astype(float) if x == "step" else series.times
        begin, end = along[0] if low is None else low, along[-1] if high is None else high
        inside = (along >= begin) & (along <= end)
        along, values = along[inside], series.values[inside]
        buckets = bucketed(found, run, ["mine"], x, low, high, count=50)["mine"]
        index = np.minimum(((along - begin) / ((end - begin) / 50)).astype(int), 49)
        expected = [(along[index == i], values[index == i]) for i in np.unique(index)]
        assert buckets.first.tolist() == [a.min() for a, _ in expected]
        assert buckets.last.tolist() == [a.max() for a, _ in expected]
        assert buckets.low.tolist() == [v.min() for _, v in expected]
        assert buckets.high.tolist() == [v.max() for _, v in expected]
        assert buckets.mean.tolist() == pytest.approx([v.mean() for _, v in expected])
        assert buckets.count.sum() == len(values)


def test_few_points_are_returned_as_they_are_over_any_axis(tmp_path: Path, store: str) -> None:
    filled(tmp_path, store)
    with Store(store, home=tmp_path) as found:
        run = found.find("long")
        kl = found.series(run, "kl")
        for x, along in (("step", kl.steps.tolist()), ("episodes", found.series(run, "episodes").values.tolist())):
            points = bucketed(found, run, ["kl"], x)["kl"]  # type: ignore[arg-type]
            assert (points.first.tolist(), points.mean.tolist()) == (along, kl.values.tolist())
        assert bucketed(found, run, ["nothing"])["nothing"].count.size == 0
        with pytest.raises(QueryError, match="expected step, time, seconds or episodes"):
            bucketed(found, run, ["kl"], "epoch")  # type: ignore[arg-type]


def test_the_tail_has_the_points_behind_a_step(tmp_path: Path, store: str) -> None:
    filled(tmp_path, store)
    with Store(store, home=tmp_path) as found:
        run = found.find("long")
        last = tail(found, run, ["mine", "kl"], 3 * (POINTS - 4))
        assert [step for step, _, _ in last["mine"]] == [3 * (POINTS - 3), 3 * (POINTS - 2), 3 * (POINTS - 1)]
        assert last["kl"] == []


def test_each_thread_reads_by_a_connection_of_its_own(tmp_path: Path, store: str) -> None:
    filled(tmp_path, store)
    found: list[int] = []
    with Store(store, home=tmp_path, read_only=True) as opened:
        run = opened.find("long")
        threads = [threading.Thread(target=lambda: found.append(_size(opened, run))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened._connections) == 5
    assert found == [POINTS] * 4


def _size(store: Store, run: StoredRun) -> int:
    return sum(len(store.series(run, "mine").steps) for _ in range(5)) // 5


def test_a_store_opened_for_reading_is_never_written(tmp_path: Path, store: str) -> None:
    trained(tmp_path, store, "one")
    trained(tmp_path, "none", "unknown")
    with Store(store, home=tmp_path, read_only=True) as found:
        assert [run.name for run in found.runs()] == ["one"]
        with pytest.raises(StoreError), found._database.translated_errors():
            found._database.execute("DELETE FROM runs")
        trained(tmp_path, store, "two")
        assert sorted(run.name for run in found.runs()) == ["one", "two"]
    if store.startswith("sqlite"):
        with pytest.raises(StoreError, match="there is no store"):
            Store(tmp_path / "missing.db", home=tmp_path, read_only=True)
        assert not (tmp_path / "missing.db").exists()
