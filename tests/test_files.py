"""Files that users name: complete or absent, and never in the place of a device, a pipe or a link."""

import os
import stat
import threading
from pathlib import Path

import pytest

from hotloop import files


def write(path: Path, data: bytes = b"new", failure: Exception | None = None) -> None:
    with files.output_file(path) as part:
        part.write_bytes(data)
        if failure is not None:
            raise failure


def test_an_output_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError, match="in the middle"):
        write(path, b"half", RuntimeError("in the middle"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_bytes() == b"old"
    write(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_output_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to("elsewhere/out")
    for data in (b"one", b"two"):
        write(link, data)
        assert link.readlink() == Path("elsewhere/out")
        assert (tmp_path / "elsewhere" / "out").read_bytes() == data
    assert [entry.name for entry in (tmp_path / "elsewhere").iterdir()] == ["out"]


def test_output_to_a_pipe_goes_through_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    taken: list[bytes] = []
    reader = threading.Thread(target=lambda: taken.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join()
    assert taken == [b"new"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to make a device")
def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    device = tmp_path / "full"
    try:
        # The same device as /dev/full, under a name that may be lost.
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        device.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made here")
    with pytest.raises(OSError, match="No space left on device"):
        write(device)
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_folder_is_no_output_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with pytest.raises(IsADirectoryError):
        write(Path())
    with pytest.raises(OSError, match="File name too long"):
        write(tmp_path / ("x" * 5000))


def test_a_folder_takes_the_place_of_whatever_has_its_name(tmp_path: Path) -> None:
    target = tmp_path / "100"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    content = {"one": b"1", "nested/deep/two": b"2"}
    for link in (None, "other", "lost"):
        if link is not None:
            target.symlink_to(link)
        files.place_folder(target, content)
        assert not target.is_symlink()
        assert {name: (target / name).read_bytes() for name in content} == content
        files.remove_folder(target)
    assert (tmp_path / "other" / "kept").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_is_not_to_be_replaced_stays(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    files.place_folder(target, {"one": b"1"}, replace=False)
    with pytest.raises(OSError, match="not empty"):
        files.place_folder(target, {"two": b"2"}, replace=False)
    assert [entry.name for entry in target.iterdir()] == ["one"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_nothing_is_written_through_links_that_lie_in_wait(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f".status.{os.getpid()}").symlink_to("elsewhere/file")
    (tmp_path / f".100.{os.getpid()}").symlink_to("elsewhere")
    files.write_atomically(tmp_path / "status", b"1")
    files.place_folder(tmp_path / "100", {"one": b"1"})
    assert (tmp_path / "status").read_bytes() == (tmp_path / "100" / "one").read_bytes() == b"1"
    assert not list((tmp_path / "elsewhere").iterdir())
