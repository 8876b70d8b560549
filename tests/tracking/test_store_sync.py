"""Synchronisation of the store with journals: after kills, and with journals that were damaged."""

import json
import subprocess
import sys
from pathlib import Path

KILLED_RUNS = Path(__file__).with_name("killed_runs.py")


def test_a_run_killed_before_any_file_operation_leaves_the_rows_of_an_undisturbed_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, KILLED_RUNS, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["differences"] == []
    # Events, checkpoints with their files, and the files of the folder: fewer would mean that kills are not counted.
    assert found["kills"] > 100
