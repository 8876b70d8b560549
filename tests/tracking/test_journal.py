"""The journal: appended to by a thread, read in whole lines, and void from where a run goes back to."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tracking import journal
from hotloop.tracking.journal import Event, Journal


def start(resumed_at: int | None = None) -> Event:
    return {"event": "start", "id": "abc", "steps": resumed_at or 0, "resumed_at": resumed_at}


def record(steps: int) -> Event:
    return {"event": "iteration", "steps": steps}


def test_events_are_written_in_the_order_they_were_told(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    told = Journal(path)
    for steps in range(1000):
        told.append(lambda steps=steps: record(steps))  # type: ignore[misc]
    told.close()
    events, end = journal.read(path)
    assert [event["steps"] for event in events] == list(range(1000))
    assert end == path.stat().st_size


def test_what_was_flushed_is_with_the_system(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    told = Journal(path)
    told.append(lambda: record(7))
    told.flush()
    assert [event["steps"] for event in journal.read_all(path)] == [7]
    told.close()


def test_a_disk_that_refuses_is_told_to_who_writes_next(tmp_path: Path) -> None:
    told = Journal(Path("/dev/full"))
    told.append(lambda: record(1))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        told.flush()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        told.append(lambda: record(2))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        told.close()


def test_a_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    journal.append_one(path, record(1))
    with path.open("ab") as file:
        file.write(b'{"event":"iteration","ste')
    assert [event["steps"] for event in journal.read_all(path)] == [1]
    journal.append_one(path, record(3))
    assert [event["steps"] for event in journal.read_all(path)] == [1, 3]


@given(st.lists(st.one_of(st.integers(1, 9).map(record), st.none() | st.integers(0, 9)), max_size=30), st.data())
def test_reading_in_pieces_gives_what_reading_at_once_gives(
    told: list[Event | int | None], data: st.DataObject
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / journal.NAME
        path.touch()
        for entry in told:
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
