"""Routes of series, comparisons and exports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hotloop.server.models import series as models
from hotloop.server.problems import ProblemError
from hotloop.server.responses import json_response
from hotloop.server.routes_runs import group_runs
from hotloop.server.services import Services, services
from hotloop.tracking.change_points import ChangePoint, change_points, is_clock
from hotloop.tracking.chart_series import ChartSeries, Window, group_series, interval, run_series
from hotloop.tracking.groups import find_differences, group_seeds, label_groups
from hotloop.tracking.parquet import parquet_chunks
from hotloop.tracking.points import iter_points
from hotloop.tracking.row_pages import row_page
from hotloop.tracking.run_comparison import first_difference, probability_above, rank_differences

if TYPE_CHECKING:
    from hotloop.tracking.store import StoredRun

router = APIRouter()

MOST_SERIES: Final = 200
MAIN_METRIC: Final = "return_recent"
_MOST_CHANGES: Final = 40
_BUCKET: Final = ("first", "last", "low", "high", "mean")
_MEDIA: Final = {"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet"}
RunTexts = Annotated[list[Annotated[str, Query(max_length=500)]], Query(min_length=1, max_length=50)]


@router.get("/series", response_model=models.SeriesAnswer)
async def get_series(request: Request, query: Annotated[models.SeriesQuery, Query()]) -> Response:
    """Metrics of runs or groups in buckets: one request for a page of charts."""
    return await _series(request, query)


@router.post("/series", response_model=models.SeriesAnswer)
async def post_series(request: Request, query: models.SeriesQuery) -> Response:
    """As `GET /series`, with the parameters as a body."""
    return await _series(request, query)


async def _series(request: Request, query: models.SeriesQuery) -> Response:
    if len(query.run) * len(query.metric) > MOST_SERIES:
        raise ProblemError(
            400, f"{len(query.run)} runs x {len(query.metric)} metrics: at most {MOST_SERIES} series in one request"
        )
    found = services(request)
    return json_response(request, {"x": query.x, "series": await found.access.run(make_series, found, query)})


def make_series(found: Services, query: models.SeriesQuery) -> list[dict[str, Any]]:
    """The series that a query asks for; metrics that a run does not have are left out."""
    runs = found.store.find_all(query.run)
    groups = [[run] for run in runs] if query.group is None else group_runs(found.store, runs, query.group)
    labels = label_groups(groups) if query.group is not None else [run.name for run in runs]
    window = Window(query.x, query.low, query.high, query.points, query.smooth)
    result = []
    for members, label in zip(groups, labels, strict=True):
        for metric in query.metric:
            series = _cached(found, members, metric, window, query)
            if series is not None:
                result.append(series_entry(members, label, metric, series, is_group=query.group is not None))
    return result


def _cached(
    found: Services, members: Sequence[StoredRun], metric: str, window: Window, query: models.SeriesQuery
) -> ChartSeries | None:
    def make() -> tuple[ChartSeries | None, int]:
        if query.group is None:
            series = run_series(found.store, members[0], metric, window)
        else:
            series = group_series(found.store, members, metric, window, query.stat, query.band)
        return series, 200 if series is None else 500 + 56 * len(series.buckets.first)

    versions = tuple((run.id, found.store.position(run)) for run in members)
    how = () if query.group is None else (query.stat, query.band)
    series: ChartSeries | None = found.series.get(("series", versions, metric, window, how), make)
    return series


def series_entry(
    members: Sequence[StoredRun], label: str, metric: str, series: ChartSeries, *, is_group: bool
) -> dict[str, Any]:
    """A series as the API shows it."""
    buckets = series.buckets
    return {
        "run": None if is_group else members[0].id,
        "runs": [run.id for run in members],
        "label": label,
        "metric": metric,
        "raw": series.raw,
        "total": series.total,
        **{name: np.ascontiguousarray(getattr(buckets, name)) for name in ("first", "last", "low", "high", "mean")},
        "count": np.ascontiguousarray(buckets.count),
        "smooth": None if series.smooth is None else np.ascontiguousarray(series.smooth),
        "n": None if series.members is None else np.ascontiguousarray(series.members),
        "joined": series.joined,
    }


@router.get("/compare", response_model=models.Comparison)
async def compare(
    request: Request,
    run: RunTexts,
    low: Annotated[float | None, Query(alias="from", allow_inf_nan=False)] = None,
    high: Annotated[float | None, Query(alias="to", allow_inf_nan=False)] = None,
    metric: Annotated[str, Query(max_length=500)] = MAIN_METRIC,
) -> Response:
    """Differences between runs; for one run, changes in a window of steps, the clearest first."""
    found = services(request)
    return json_response(request, await found.access.run(make_comparison, found, run, low, high, metric))


def make_comparison(
    found: Services, texts: Sequence[str], low: float | None, high: float | None, metric: str
) -> dict[str, Any]:
    """The comparison of runs."""
    store = found.store
    runs = store.find_all(texts)
    settings = find_differences(runs)
    keys = list(settings[0]) if settings else []
    groups = group_seeds(runs)
    results, probabilities = _results(groups)
    first = None
    changes: list[tuple[str, ChangePoint]] = []
    if len(runs) == 1:
        low, high = _window(found, runs[0], low, high)
        names = [name for name in store.metric_names(runs[0]) if not is_clock(name)]
        ranked = change_points(store, runs[0], names, low=low, high=high, main=metric)
        changes = [(runs[0].id, change) for change in ranked]
    elif len(runs) == 2:
        first = first_difference(store, *runs)
        ranked = rank_differences(store, *runs, low=low, high=high, first=first.step)
        changes = [(runs[1].id, change) for change in ranked] if first.step is not None else []
    return {
        "runs": [{"id": run.id, "name": run.name} for run in runs],
        "settings": [{"key": key, "values": [one[key] for one in settings]} for key in keys],
        "results": results,
        "probabilities": probabilities,
        "first_difference": None
        if first is None
        else {
            "step": first.step,
            "metrics": [{"name": name, "values": [a, b]} for name, a, b in first.metrics],
        },
        "changes": [{**vars(change), "run": run_id} for run_id, change in changes[:_MOST_CHANGES]],
        "events": [event for run in runs for event in _events(found, run, low, high)],
    }


def _window(
    found: Services, run: StoredRun, low: float | None, high: float | None
) -> tuple[float | None, float | None]:
    """The given window, or the steps around the last collapse of the return."""
    if low is not None or high is not None:
        return low, high
    rows = row_page(found.store, "events", run, limit=100_000).rows
    collapses = [row["step"] for row in rows if row["kind"] == "return-collapsed"]
    if not collapses:
        return None, None
    return 0.5 * collapses[-1], min(1.25 * collapses[-1], max(run.steps, collapses[-1]))


def _events(found: Services, run: StoredRun, low: float | None, high: float | None) -> Iterator[dict[str, Any]]:
    for row in row_page(found.store, "events", run, limit=1000).rows:
        if (low is None or row["step"] >= low) and (high is None or row["step"] <= high):
            yield {**row, "run": run.id}


def _results(groups: Sequence[Sequence[StoredRun]]) -> tuple[list[dict[str, Any]], list[list[float | None]]]:
    labels = label_groups(groups)
    known = [{run.id: run.best for run in members if run.best is not None} for members in groups]
    results = []
    for members, label, best in zip(groups, labels, known, strict=True):
        low, high = interval(list(best.values()), ids=list(best)) if best else (None, None)
        mean = float(np.mean(list(best.values()))) if best else None
        ids = [run.id for run in members]
        results.append({"label": label, "runs": ids, "mean": mean, "low": low, "high": high, "n": len(best)})
    probabilities = [
        [
            None if row == column else probability_above(list(a.values()), list(b.values()), seed=len(known))
            for column, b in enumerate(known)
        ]
        for row, a in enumerate(known)
    ]
    return results, probabilities


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {media: {} for media in _MEDIA.values()}, "description": "The points, streamed."}},
)
async def export(
    request: Request,
    run: RunTexts,
    kind: Annotated[Literal["csv", "json", "parquet"], Query(alias="format")] = "csv",
    what: Literal["points", "shown"] = "points",
    metric: Annotated[list[Annotated[str, Query(max_length=500)]], Query(max_length=200)] = [],  # noqa: B006
    points: Annotated[int, Query(ge=50, le=4000)] = 600,
) -> Response:
    """Stream every point of runs, or the buckets that a chart shows; nothing is left out."""
    found = services(request)
    runs = await found.access.run(found.store.find_all, run)
    if what == "shown":
        if not metric:
            raise ProblemError(400, "what=shown needs the metrics of the chart: metric=NAME")
        query = models.SeriesQuery(run=[one.id for one in runs], metric=metric, points=points)
        rows: Iterator[Sequence[Any]] = _shown(await found.access.run(make_series, found, query))
        columns: dict[str, type] = {"run": str, "metric": str, **dict.fromkeys(_BUCKET, float), "count": int}
    else:
        columns = {"run": str, "name": str, "key": str, "step": int, "time": float, "value": float}
        rows = ((one.id, one.name, *point) for one in runs for point in iter_points(found.store, one, metric or None))
    chunks: Iterator[str | bytes]
    match kind:
        case "csv":
            chunks = _csv(list(columns), rows)
        case "json":
            chunks = _json(list(columns), rows)
        case "parquet":
            chunks = parquet_chunks(columns, rows)
    headers = {"Content-Disposition": f'attachment; filename="hotloop.{kind}"', "Cache-Control": "no-store"}

    async def stream() -> Any:
        # The store is read in its own threads, some thousand rows at a time.
        while (part := await found.access.run(next, chunks, None)) is not None:
            yield part

    return StreamingResponse(stream(), media_type=_MEDIA[kind], headers=headers)


def _shown(series: Sequence[dict[str, Any]]) -> Iterator[Sequence[Any]]:
    for entry in series:
        columns = [entry[name].tolist() for name in (*_BUCKET, "count")]
        for values in zip(*columns, strict=True):
            yield entry["label"], entry["metric"], *values


_AT_ONCE: Final = 2000
# Characters at which a spreadsheet would take a cell for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _csv(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    for number, row in enumerate(rows, 1):
        writer.writerow(map(_cell, row))
        if number % _AT_ONCE == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _json(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> Iterator[str]:
    parts = [f'{{"columns": {json.dumps(list(names))}, "rows": [']
    for number, row in enumerate(rows):
        parts.append(f"{',' if number else ''}\n{json.dumps(row)}")
        if number % _AT_ONCE == 0:
            yield "".join(parts)
            parts = []
    yield "".join([*parts, "\n]}\n"])
