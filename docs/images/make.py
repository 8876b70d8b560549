"""Make the pictures of the README: the live view of a run, and the policy that it trained.

    python docs/images/make.py      # writes live.svg and pendulum.gif beside this file, in seconds

Needs `pip install 'hotloop[video]'`.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import hotloop
from hotloop.cli.live import LiveView
from hotloop.training.callbacks import ProgressReport

FOLDER = Path(__file__).parent
STEPS = 400_000
WIDTH = 96


class Pictured(LiveView):
    """A live view that keeps the panel as it was in the second half of the run."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), force_terminal=True, width=WIDTH))
        self.panel = None

    def progress(self, report: ProgressReport) -> None:
        """Draw, and keep the first panel after 60 %."""
        super().progress(report)
        if self.panel is None and report.fraction > 0.6 and self._record is not None:
            self.panel = self._live.get_renderable()


def main() -> None:
    """Train, draw and film."""
    with tempfile.TemporaryDirectory() as home:
        with Pictured() as view:
            run = hotloop.train(
                "pendulum", steps=STEPS, until="none", name="pendulum", home=home, progress=False, callbacks=[view]
            )
        paper = Console(file=io.StringIO(), record=True, width=WIDTH)
        paper.print(view.panel)
        paper.save_svg(str(FOLDER / "live.svg"), title="hotloop train pendulum")
        command = [sys.executable, "-m", "hotloop", "play", str(run.path), "--seed", "3"]
        subprocess.run([*command, "--video", str(FOLDER / "pendulum.gif")], check=True)


if __name__ == "__main__":
    main()
