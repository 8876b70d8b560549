"""`run.metrics()` and `run.plot()` have what the journal has."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop.errors import QueryError
from hotloop.training import Callback
from hotloop.training.callbacks import IterationReport
from hotloop.training.runs import Run


class Doubled(Callback):
    """Logs a value of its own with every record."""

    def __init__(self) -> None:
        self.returns: dict[int, float] = {}

    def iteration(self, report: IterationReport) -> None:
        self.returns[report.steps] = report.return_recent
        self.log({"doubled": 2 * report.steps})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Doubled]:
    callback = Doubled()
    config = {"train.until": None, "track.interval": 4, "train.evaluate_episodes": 3}
    home = tmp_path_factory.mktemp("home")
    return hotloop.train("cartpole", steps=40_000, config=config, home=home, callbacks=[callback]), callback


def test_metrics_are_a_table_by_step(trained: tuple[Run, Doubled]) -> None:
    run, callback = trained
    table = run.metrics()
    assert table.index.name == "steps"
    recent = table["return_recent"].dropna()
    assert recent.index.tolist() == list(callback.returns)
    assert recent.tolist() == pytest.approx(list(callback.returns.values()))
    assert (table["doubled"].dropna() == 2 * table["doubled"].dropna().index).all()
    assert run.evaluation is not None
    assert table["evaluation.mean"].dropna().tolist() == [pytest.approx(run.evaluation.mean)]


def test_without_pandas_they_are_arrays(trained: tuple[Run, Doubled], monkeypatch: pytest.MonkeyPatch) -> None:
    run, callback = trained
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = run.metrics()
    assert table["steps"].tolist() == list(callback.returns)
    np.testing.assert_allclose(table["return_recent"], list(callback.returns.values()))


def test_a_plot_is_a_picture(trained: tuple[Run, Doubled], tmp_path: Path) -> None:
    run, _ = trained
    picture = run.plot("doubled", smooth=0.5)
    picture.save(tmp_path / "plot.png")
    assert picture.size == (1080, 600)
    assert len(picture.getcolors(1 << 20)) > 10
    with pytest.raises(QueryError, match="no metric 'dubled'; did you mean 'doubled'"):
        run.plot("dubled")
    with pytest.raises(ValueError, match=r"smooth is 1: expected"):
        run.plot(smooth=1.0)


def test_logged_values_are_in_the_store_like_any_metric(trained: tuple[Run, Doubled]) -> None:
    from hotloop.tracking.store import Store

    run, callback = trained
    with Store(home=run.path.parent.parent) as store:
        series = store.series(store.find(run.name), "doubled")
        assert series.steps.tolist() == list(callback.returns)
        assert series.values.tolist() == [2 * step for step in callback.returns]


def test_a_logged_value_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="a logged value has no name"):
        Callback().log({"": 1.0})
