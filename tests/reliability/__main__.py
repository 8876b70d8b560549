"""The whole attack: python -m tests.reliability --kills 200 --deaths 200 --seed 0.

A class without a count is left out; --case CLASS:INDEX repeats one case and keeps its folder.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.reliability import engine
from tests.reliability.calls import Calls
from tests.reliability.deaths import Deaths
from tests.reliability.forgeries import Forgeries
from tests.reliability.hostile import Hostile
from tests.reliability.kills import Kills
from tests.reliability.mutations import Mutations
from tests.reliability.trust import Trust

ATTACKS: dict[str, type[engine.Attack]] = {
    "kills": Kills,
    "deaths": Deaths,
    "mutations": Mutations,
    "forgeries": Forgeries,
    "trust": Trust,
    "hostile": Hostile,
    "calls": Calls,
}


def main() -> int:
    """Attack, print a table, and return the exit code: 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    for name in ATTACKS:
        parser.add_argument(f"--{name}", type=int, default=0, metavar="COUNT", help=f"how many {name}")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--case", metavar="CLASS:INDEX", help="repeat this case only")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hotloop-reliability-", dir=given.folder))
    wanted, only = {name: getattr(given, name) for name in ATTACKS}, None
    if given.case is not None:
        name, _, index = given.case.partition(":")
        wanted, only = {name: 1}, int(index)
    tallies = [
        engine.run(ATTACKS[name](), count, seed=given.seed, jobs=given.jobs, folder=folder, only=only)
        for name, count in wanted.items()
        if count
    ]
    print(engine.table(tallies))
    if any(tally.findings for tally in tallies):
        print(f"the folders of all findings are below {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
