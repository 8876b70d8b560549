"""Plain text tables with minimal column widths, fast enough for thousands of lines."""

from __future__ import annotations

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Format rows as lines of text; columns in `right` are right-aligned.

    >>> table(["run", "steps"], [["a", "1000"], ["other", "5"]], right=[1])
    ['run    steps', 'a       1000', 'other      5']
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = []
    for row in (headings, *rows):
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return lines
