"""The folder of a job: order, lock, progress, log."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.orchestrator.folder import LOG_LIMIT, JobFolder, LockedError, Progress, write_progress
from hotloop.orchestrator.processes import Identity


def test_an_order_is_for_one_attempt_and_can_be_withdrawn(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "1")
    with folder.locked():
        folder.place_order({"attempt": 2})
    assert folder.read_order(2) == {"attempt": 2}
    assert folder.read_order(1) is None
    with folder.locked():
        folder.withdraw_order()
    assert folder.read_order(2) is None


def test_a_new_order_forgets_the_attempt_before(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "1")
    with folder.locked() as handle:
        folder.place_order({"attempt": 1})
        folder.write_process(handle)
        folder.write_outcome({"code": 0})
        folder.ask_threads(3)
    assert folder.read_process() == Identity.own()
    with folder.locked():
        folder.place_order({"attempt": 2})
    assert (folder.read_process(), folder.read_outcome(), folder.asked_threads()) == (None, None, None)


def test_the_lock_is_held_until_its_process_is_gone(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    program = (
        "import sys\nfrom pathlib import Path\nfrom hotloop.orchestrator.folder import JobFolder\n"
        f"with JobFolder(Path({str(tmp_path)!r})).locked():\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LockedError), folder.locked():
            pass
        process.kill()
        process.wait()
        with folder.locked():
            pass


def test_progress_and_threads_are_read_as_written(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert (folder.read_progress(), folder.asked_threads()) == (None, None)
    handle = folder.open_progress()
    write_progress(handle, Progress(10, 2, 0.5, 0.25))
    os.close(handle)
    folder.ask_threads(4)
    assert (folder.read_progress(), folder.asked_threads()) == (Progress(10, 2, 0.5, 0.25), 4)


def test_a_long_log_is_moved_aside_and_appended_to(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    writer = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(writer, b"x" * (LOG_LIMIT + 1))
    folder.rotate_log()
    os.write(writer, b"after")
    os.close(writer)
    assert (folder.log.read_text(), (tmp_path / "job.log.1").stat().st_size) == ("after", LOG_LIMIT + 1)
    assert folder.read_log(3) == "ter"


def test_an_identity_is_alive_only_with_its_start_time_and_boot() -> None:
    own = Identity.own()
    assert own.is_alive
    assert not own._replace(born=own.born + 1).is_alive
    assert not own._replace(boot="another").is_alive
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not Identity(process.pid, 1, own.boot).is_alive
