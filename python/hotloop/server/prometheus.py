"""Metrics for Prometheus: running runs and those that ended in the last minutes, alerts, the server itself.

Runs that ended long ago are left out: labels that grow for ever are the death of any Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from hotloop.errors import StoreAwayError
from hotloop.tracking.job_queries import job_counts, orchestrator_status
from hotloop.tracking.latest import alert_counts, event_counts, newest_usage

if TYPE_CHECKING:
    from hotloop.server.services import Services
    from hotloop.tracking.store import StoredRun

# Seconds for which a run that has ended is still reported.
RECENT: Final = 600.0
_LABELS: Final = ("run", "env", "seed")
_STATUSES: Final = ("running", "completed", "stopped", "failed", "gone")


def exposition(found: Services) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(found))
    return bytes(generate_latest(registry))


class _Collector:
    def __init__(self, found: Services) -> None:
        self._found = found

    def collect(self) -> Iterable[Any]:
        """Everything that is reported."""
        found = self._found
        away = GaugeMetricFamily("hotloop_store_up", "Whether the store can be used.")
        try:
            runs = found.store.runs(with_config=False)
            up = found.store.away_since is None
            if up:
                yield from self._runs(runs)
                yield from self._jobs()
        except StoreAwayError:
            up = False
        away.add_metric([], float(up))
        yield away
        yield from self._server()

    def _runs(self, runs: list[StoredRun]) -> Iterable[Any]:
        store, now = self._found.store, time.time()
        counts = GaugeMetricFamily("hotloop_runs", "Runs by status.", labels=["status"])
        for status in _STATUSES:
            counts.add_metric([status], sum(run.status == status for run in runs))
        yield counts
        alerts = CounterMetricFamily("hotloop_alerts", "Alerts by kind.", labels=["kind"])
        for kind, count in alert_counts(store).items():
            alerts.add_metric([kind], count)
        yield alerts
        recent = [run for run in runs if run.status == "running" or now - run.seen < RECENT]
        speeds = store.latest("steps_per_second")
        usage = newest_usage(store, [run.number for run in recent])
        events = event_counts(store, [run.number for run in recent])
        yield _family("steps_total", "Steps.", recent, lambda run: run.steps, counter=True)
        yield _family(
            "steps_per_second", "Steps per second in the last record.", recent, lambda r: speeds.get(r.number)
        )
        yield _family("return", "Mean return of recent episodes.", recent, lambda run: run.return_recent)
        yield _family("best", "Best evaluation.", recent, lambda run: run.best)
        yield _family("cores", "Cores in use.", recent, lambda run: usage.get(run.number, (None, None))[0])
        yield _family("memory_bytes", "Memory in use.", recent, lambda run: usage.get(run.number, (None, None))[1])
        for name, kind, about in (
            ("worker_restarts_total", "worker-restarted", "Worker processes that were replaced."),
            ("faults_total", "env-fault", "Envs that faulted and were reset."),
        ):
            yield _family(name, about, recent, lambda r, kind=kind: events.get((r.number, kind), 0), counter=True)

    def _jobs(self) -> Iterable[Any]:
        store = self._found.store
        counts = job_counts(store)
        jobs = GaugeMetricFamily("hotloop_jobs", "Jobs by state.", labels=["state"])
        for state, count in counts.items():
            jobs.add_metric([state], count)
        yield jobs
        status = orchestrator_status(store)
        facts = {} if status is None or not status["process"] else status["facts"]
        if not facts:
            return
        for name, about in (("limit", "Jobs that may run at a time."), ("running", "Jobs that run.")):
            yield GaugeMetricFamily(f"hotloop_{name}", about, value=facts[name])
        yield GaugeMetricFamily(
            "hotloop_goodput", "Work of all jobs, in threads at their best speed.", value=facts.get("goodput", 0.0)
        )
        pressure = GaugeMetricFamily("hotloop_pressure", "Percent of time that work waits.", labels=["kind"])
        for kind, value in facts.get("pressure", {}).items():
            pressure.add_metric([kind], value)
        yield pressure
        yield SummaryMetricFamily(
            "hotloop_job_wait_seconds",
            "Seconds between queued and started.",
            count_value=facts["started"],
            sum_value=facts["waited"],
        )
        retries = CounterMetricFamily("hotloop_retries", "Attempts that were repeated, by cause.", labels=["cause"])
        for cause, count in facts["retries"].items():
            retries.add_metric([cause], count)
        yield retries

    def _server(self) -> Iterable[Any]:
        found = self._found
        requests = CounterMetricFamily("hotloop_server_requests", "Answers by status.", labels=["status"])
        for status, count in sorted(found.requests.items()):
            requests.add_metric([str(status)], count)
        yield requests
        streams = GaugeMetricFamily("hotloop_server_streams", "Open event streams.")
        streams.add_metric([], found.hub.count)
        yield streams
        lag = GaugeMetricFamily("hotloop_server_poll_seconds", "Seconds that the last look at the store took.")
        lag.add_metric([], found.poller.lag or 0.0)
        yield lag


def _family(name: str, about: str, runs: list[StoredRun], value: Any, *, counter: bool = False) -> Any:
    kind = CounterMetricFamily if counter else GaugeMetricFamily
    family = kind(f"hotloop_run_{name.removesuffix('_total')}", about, labels=list(_LABELS))
    for run in runs:
        found = value(run)
        if found is not None:
            family.add_metric([run.name, run.env, str(run.seed)], float(found))
    return family
