"""Jobs to test with."""

from typing import Any

from hotloop.orchestrator.job import Job, Request


def make_job(number: int, **columns: Any) -> Job:
    defaults: dict[str, Any] = {
        "key": f"key-{number}",
        "kind": "train",
        "name": "a job",
        "shape": "",
        "exact": True,
        "state": "queued",
        "why": "",
        "wish": "",
        "paused": False,
        "priority": 0,
        "group_name": "default",
        "cores": 1,
        "memory": None,
        "gpus": 0,
        "retries": 3,
        "attempts": 0,
        "not_before": 0.0,
        "submitted": 0.0,
        "queued": 0.0,
        "started": None,
        "ended": None,
        "folder": None,
        "run": None,
        "peak": None,
    }
    return Job(number=number, **{**defaults, **columns})


def make_request(key: str, **fields: Any) -> Request:
    return Request(**{"kind": "bench", "spec": {"arguments": []}, "key": key, "name": key, **fields})
