"""Progress of `hotloop.train` in scripts and notebooks: real processes, and a real kernel."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import hotloop
from hotloop.training.callbacks import ProgressReport
from hotloop.training.display import progress_line

SCRIPT = "import hotloop; print(hotloop.train('cartpole', steps=20000, until='none', home={home!r}{more}).ended)"


def run_script(home: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    code = SCRIPT.format(home=str(home), more=more)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_a_script_shows_lines_on_standard_error_and_its_own_output_stays_clean(tmp_path: Path) -> None:
    done = run_script(tmp_path)
    assert done.stdout == "steps\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("run cartpole-")
    assert any(line.startswith("evaluation at step ") for line in lines)
    assert lines[-2].startswith("limit of steps reached after ")


def test_progress_can_be_turned_off(tmp_path: Path) -> None:
    assert run_script(tmp_path, ", progress=False").stderr == ""


def test_a_line_needs_no_record() -> None:
    report = ProgressReport(2048, 1, 0, 61.0, 33.4, 0.25)
    assert progress_line(report, None) == "step 2.05 k (25%), 1:01, 33.4 steps/s"


def test_a_notebook_shows_one_bar_that_ends_full_a_short_repr_and_a_picture(tmp_path: Path) -> None:
    cells = [
        f"import hotloop\nrun = hotloop.train('cartpole', steps=20000, until='none', home={str(tmp_path)!r})\nrun",
        "run.plot()",
    ]
    make: Any = nbformat.v4
    book = make.new_notebook(cells=[make.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    bars = [out for out in book.cells[0].outputs if "text/html" in out.get("data", {})]
    assert len(bars) == 1
    assert '<progress value="1.0000"' in bars[0].data["text/html"]
    assert "limit of steps reached after 20.5 k steps" in bars[0].data["text/plain"]
    assert book.cells[0].outputs[-1].data["text/plain"].startswith("Run('cartpole-")
    assert "image/png" in book.cells[1].outputs[-1].data


def test_a_run_is_shown_in_one_short_line(tmp_path: Path) -> None:
    run = hotloop.train("cartpole", steps=2048, home=tmp_path, name="mine", config={"train.evaluate_episodes": 2})
    assert run.evaluation is not None
    returns = f"return {run.return_mean:.4g}, evaluation {run.evaluation.mean:.4g}"
    assert repr(run) == f"Run('mine': steps after 2.05 k steps, {returns})"
