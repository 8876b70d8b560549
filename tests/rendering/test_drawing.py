"""Drawings become pixels and dots alike: the same shapes at the same places."""

import sys

import numpy as np
import pytest

from hotloop.errors import RenderError
from hotloop.rendering.dots import dots
from hotloop.rendering.drawing import INK, PAPER, RED, Drawing, blend
from hotloop.rendering.pixels import pixels


def square() -> Drawing:
    drawing = Drawing((0.0, 0.0, 2.0, 1.0))
    drawing.box(0.0, 0.0, 1.0, 1.0, RED)
    return drawing


def test_a_box_fills_its_pixels_and_no_others() -> None:
    picture = pixels(square())
    assert picture.shape == (240, 480, 3)
    assert (picture[:, :239] == RED).all()
    assert (picture[:, 242:] == PAPER).all()


def test_up_is_up() -> None:
    drawing = Drawing((0.0, 0.0, 1.0, 1.0))
    drawing.disc((0.5, 0.9), 0.05)
    assert (pixels(drawing)[: 480 // 2] != PAPER).any()
    assert (pixels(drawing)[480 // 2 :] == PAPER).all()
    lines = dots(drawing).splitlines()
    assert any(line.strip() for line in lines[:10])
    assert not any(line.strip() for line in lines[10:])


def test_dots_fill_the_same_half() -> None:
    lines = dots(square()).splitlines()
    assert lines == ["⣿" * 30] * 15


def test_light_shapes_cover_dark_ones() -> None:
    drawing = square()
    drawing.box(0.0, 0.0, 2.0, 1.0, PAPER)
    assert dots(drawing).strip() == ""


def test_the_thinnest_line_is_seen() -> None:
    drawing = Drawing((0.0, 0.0, 1.0, 1.0))
    drawing.line((0.0, 0.3), (1.0, 0.35), width=1e-6)
    assert (pixels(drawing) != PAPER).any((0, 2)).all()
    assert all(any(line[column : column + 1].strip() for line in dots(drawing).splitlines()) for column in range(40))


def test_labels_are_written() -> None:
    drawing = Drawing((0.0, 0.0, 1.0, 1.0))
    drawing.label((0.5, 0.5), "goal", 0.2)
    assert "goal" in dots(drawing)
    dark = (pixels(drawing) != PAPER).any(-1)
    rows, columns = np.nonzero(dark)
    assert 200 < rows.mean() < 280
    assert 200 < columns.mean() < 280


def test_an_arrow_without_length_is_none() -> None:
    drawing = Drawing((0.0, 0.0, 1.0, 1.0))
    drawing.arrow((0.5, 0.5), (0.5, 0.5), 0.1)
    assert drawing.shapes == []


def test_colours_blend() -> None:
    assert blend(INK, RED, 0.0) == INK
    assert blend(INK, RED, 1.0) == RED


def test_without_pillow_pictures_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RenderError, match=r"pip install 'hotloop\[video\]'"):
        pixels(square())
