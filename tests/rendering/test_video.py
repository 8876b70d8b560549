"""Videos hold the pictures they were given, at the pace that was asked for."""

import sys
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hotloop.errors import RenderError
from hotloop.rendering.video import check_video, write_video


def pictures() -> list[NDArray[np.uint8]]:
    """Grey ones, from dark to light."""
    return [np.full((64, 96, 3), 20 * i, np.uint8) for i in range(10)]


def test_an_mp4_shows_every_picture_and_holds_the_last(tmp_path: Path) -> None:
    path = tmp_path / "it.mp4"
    assert write_video(path, pictures(), 5.0) == 10
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        assert stream.average_rate == 5
        shades = [float(frame.to_ndarray(format="rgb24").mean()) for frame in file.decode(video=0)]
    assert shades == pytest.approx([20 * i for i in range(10)] + [180] * 5, abs=3)
    assert list(tmp_path.iterdir()) == [path]


def test_a_gif_shows_every_picture(tmp_path: Path) -> None:
    path = tmp_path / "it.gif"
    assert write_video(path, pictures(), 5.0) == 10
    with Image.open(path) as image:
        shades = []
        for frame in range(10):
            image.seek(frame)
            shades.append(float(np.asarray(image.convert("RGB")).mean()))
            assert image.info["duration"] >= 200
        assert image.info["loop"] == 0
    assert shades == [20.0 * i for i in range(10)]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield from pictures()
        raise RuntimeError("the env broke")

    for name in ("it.mp4", "it.gif"):
        with pytest.raises(RuntimeError, match="the env broke"):
            write_video(tmp_path / name, broken(), 5.0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RenderError, match=r"must end in \.mp4 or \.gif"):
        check_video(tmp_path / "it.avi")
    with pytest.raises(RenderError, match="there is no folder"):
        check_video(tmp_path / "no" / "it.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RenderError, match=r"\.mp4 videos need av: pip install 'hotloop\[video\]'"):
        check_video(tmp_path / "it.mp4")
    check_video(tmp_path / "it.gif")
