"""The process of a job."""

import os
from pathlib import Path
from typing import Any

from hotloop.orchestrator.child import _sweep_arguments, run
from hotloop.orchestrator.folder import JobFolder


def order(home: Path, attempt: int, *arguments: str) -> dict[str, Any]:
    return {"home": str(home), "attempt": attempt, "run": "sweep-job-1", "spec": {"arguments": list(arguments)}}


def test_a_sweep_gets_a_name_and_is_resumed_by_it_once_it_has_begun(tmp_path: Path) -> None:
    assert _sweep_arguments(order(tmp_path, 1, "cartpole")) == ["cartpole", "--name", "sweep-job-1"]
    assert _sweep_arguments(order(tmp_path, 2, "cartpole")) == ["cartpole", "--name", "sweep-job-1"]
    (tmp_path / "sweeps" / "sweep-job-1").mkdir(parents=True)
    assert _sweep_arguments(order(tmp_path, 2, "cartpole")) == ["--resume", "sweep-job-1"]
    named = order(tmp_path, 2, "cartpole", "--name", "mine")
    assert _sweep_arguments(named) == ["cartpole", "--name", "mine"]
    (tmp_path / "sweeps" / "mine").mkdir()
    assert _sweep_arguments(named) == ["--resume", "mine"]


def test_an_attempt_that_is_not_wanted_any_more_does_nothing(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    with folder.locked():
        folder.place_order({"attempt": 2})

    def never(arguments: list[str]) -> int:
        raise AssertionError

    assert run(tmp_path, 1, never) == 0
    assert folder.read_process() is None
    assert not os.path.lexists(folder.log)
