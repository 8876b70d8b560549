"""The journal: appended to by a thread, read in whole lines, and void from where a run goes back to."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import JournalError
from hotloop.tracking import journal
from hotloop.tracking.journal import Event, Journal


def start(resumed_at: int | None = None) -> Event:
    return {"event": "start", "id": "abc", "steps": resumed_at or 0, "resumed_at": resumed_at}


def record(steps: int) -> Event:
    return {"event": "iteration", "steps": steps}


def test_events_are_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    reports = Journal(path)
    for steps in range(1000):
        reports.append(lambda steps=steps: record(steps))  # type: ignore[misc]
    reports.close()
    events, end = journal.read(path)
    assert [event["steps"] for event in events] == list(range(1000))
    assert end == path.stat().st_size


def test_what_was_flushed_is_with_the_system(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    reports = Journal(path)
    reports.append(lambda: record(7))
    reports.flush()
    assert [event["steps"] for event in journal.read_all(path)] == [7]
    reports.close()


def test_a_disk_error_is_raised_by_the_next_write(tmp_path: Path) -> None:
    reports = Journal(tmp_path / journal.NAME)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        reports.append(lambda: record(1))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            reports.flush()
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            reports.append(lambda: record(2))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            reports.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    (path.parent / "other").touch()
    path.symlink_to(path.parent / "other")


def make_device(path: Path) -> None:
    path.symlink_to("/dev/full")


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_fifo, make_link, make_device, make_folder])
def test_only_a_regular_file_is_a_journal(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / journal.NAME
    make(path)
    for use in (lambda: Journal(path), lambda: journal.append_one(path, record(1)), lambda: journal.read_all(path)):
        with pytest.raises(JournalError, match=r"metrics\.jsonl is not a regular file"):
            use()
    assert journal.find_start(path) is None


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"event":"x","at":1,"of":' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"event":"iteration","at":1,"steps":' + b"9" * 5000 + b"}",
        b'{"event":"iteration","at":NaN,"steps":1}',
        b'{"event":"iteration","at":1,"steps":"many"}',
        b'{"event":"start","at":1,"resumed_at":-3}',
        b'{"at":1}',
        b"[1]",
        b"\xff\xfe",
        b'"' + b"x" * (journal.MAX_LINE + 10) + b'"',
    ],
    ids=lambda line: line[:30].decode(errors="replace"),
)
def test_a_damaged_line_is_left_out_and_the_others_stay(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, record(1))
    with path.open("ab") as file:
        file.write(line + b"\n")
    journal.append_one(path, record(3))
    assert [event["steps"] for event in journal.read_all(path)] == [1, 3]
    (damaged,) = [line for line in journal.read_lines(path) if line.damage]
    assert journal.line_number(path, damaged.start) == 2


def test_a_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, record(1))
    with path.open("ab") as file:
        file.write(b'{"event":"iteration","ste')
    assert [event["steps"] for event in journal.read_all(path)] == [1]
    journal.append_one(path, record(3))
    assert [event["steps"] for event in journal.read_all(path)] == [1, 3]
    assert not [line for line in journal.read_lines(path) if line.damage]


def test_a_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, record(1))
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    journal.append_one(path, record(3))
    assert [event["steps"] for event in journal.read_all(path)] == [1, 3]


FILL = """
import resource, signal, sys
from pathlib import Path
from hotloop.tracking import journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, resource.RLIM_INFINITY))
try:
    journal.append_one(path, {"event": "iteration", "steps": 2, "what": "x" * 100})
except OSError as error:
    print(error.strerror)
"""


def test_a_full_disk_leaves_no_damage(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, record(1))
    done = subprocess.run([sys.executable, "-c", FILL, str(path)], capture_output=True, text=True)
    assert done.stdout == "File too large\n", done.stderr
    journal.append_one(path, record(3))
    assert [event["steps"] for event in journal.read_all(path)] == [1, 3]
    assert not [line for line in journal.read_lines(path) if line.damage]


@given(st.lists(st.one_of(st.integers(1, 9).map(record), st.none() | st.integers(0, 9)), max_size=30), st.data())
def test_reading_in_pieces_gives_what_reading_at_once_gives(
    reports: list[Event | int | None], data: st.DataObject
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / journal.NAME
        path.touch()
        for entry in reports:
            journal.append_one(path, entry if isinstance(entry, dict) else start(entry))
        whole, end = journal.read(path)
        pieces: list[Event] = []
        position = 0
        while position < end:
            some, position = journal.read(path, position, data.draw(st.integers(1, 200)))
            pieces += some
        assert pieces == whole


def test_going_on_from_a_step_makes_later_records_void(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    for event in (
        start(),
        record(1),
        record(2),
        record(3),
        start(2),
        record(4),
        {**record(1), "back_to": 1},
        record(5),
    ):
        journal.append_one(path, event)
    assert [event["steps"] for event in journal.read_all(path)] == [0, 1, 1, 5]
    journal.append_one(path, start())
    assert [event["event"] for event in journal.read_all(path)] == ["start"]


def test_going_on_from_a_position_makes_later_events_of_the_same_step_void(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    for event in (start(), record(2), {"event": "checkpoint", "steps": 2}):
        journal.append_one(path, event)
    valid = path.stat().st_size
    for event in ({"event": "evaluation", "steps": 2}, {"event": "eval", "steps": 2}, record(3)):
        journal.append_one(path, event)
    journal.append_one(path, {**start(2), "valid_bytes": valid})
    assert [event["event"] for event in journal.read_all(path)] == ["start", "iteration", "checkpoint", "eval", "start"]
    before = journal.event_before(path, valid)
    assert before is not None
    assert before["event"] == "checkpoint"


def test_an_error_while_closing_a_journal_that_was_read_is_of_no_interest(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    path.write_text('{"event": "iteration", "steps": 1}\n' * 2)
    lines = journal.read_lines(path)
    next(lines)
    (opened,) = [file for file in Path("/proc/self/fd").iterdir() if file.exists() and file.resolve() == path]
    os.close(int(opened.name))
    del lines
    assert len(list(journal.read_lines(path))) == 2
