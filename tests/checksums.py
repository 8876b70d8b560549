"""Trajectories that every machine, vector width and version must repeat, as checksums in `tests/data/checksums.json`.

python -m tests.checksums            print what this build gives
python -m tests.checksums --write    keep it: only when an env's rules were changed on purpose
"""

import json
import sys
from pathlib import Path

import hotloop
from tests.trajectories import VARIANTS, label, play

KEPT = Path(__file__).parent / "data" / "checksums.json"
# Whole vectors and a rest, for every width.
ENVS = 45
STEPS = 400


def compute() -> dict[str, str]:
    """The checksum of every variant under `same_step`, which also shows final observations."""
    sums = {}
    for name, options in VARIANTS:
        with hotloop.make_vec(name, ENVS, options=options, num_threads=1, autoreset_mode="same_step") as envs:
            sums[label((name, options))] = play(envs, STEPS, seed=2**40 + 7)
    return sums


if __name__ == "__main__":
    text = json.dumps(compute(), indent=2) + "\n"
    if "--write" in sys.argv:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(text)
    print(text, end="")
