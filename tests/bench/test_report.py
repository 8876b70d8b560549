"""The table has a column for every peer that was measured, fits a terminal, and says what the numbers depend on."""

import io

import pytest
from rich.console import Console

from hotloop.bench.comparison import PeerResult
from hotloop.bench.envs import Row
from hotloop.bench.machine import Machine, inspect_machine
from hotloop.bench.measure import Rate
from hotloop.bench.peers import Case, every_peer
from hotloop.bench.report import notes, table

PEERS = every_peer()
ROWS = [
    Row(
        Case("mountain-car", 65536, 2),
        Rate((200e6, 210e6, 220e6)),
        {
            "envpool": PeerResult("EnvPool step", 65536, Rate((700e3,))),
            "gymnasium-sync": PeerResult("Gymnasium sync", 32, Rate((96e3,))),
            "gymnasium-async": PeerResult("Gymnasium async", 32, Rate((12e3,))),
        },
    ),
    Row(Case("recall", 1024, 2), Rate((18e6,)), {}),
]


def rendered(rows: list[Row]) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=80).print(table(rows, PEERS))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_line_per_case_and_a_column_per_measured_peer() -> None:
    assert rendered(ROWS) == [
        "                                                  Gymnasium Gymnasium",
        "env           envs threads steps/s spread EnvPool      sync     async",
        "mountain-car 65536       2   210 M     5%    300x    2,188x   17,500x",
        "recall        1024       2  18.0 M",
    ]


def test_without_peers_there_are_no_columns_for_them() -> None:
    assert rendered(ROWS[1:])[0] == "env    envs threads steps/s spread"


def test_notes_say_how_peers_were_measured_and_where() -> None:
    machine = Machine("A CPU", 8, 2, "avx2", 0.0, "Linux x86_64", {"hotloop": "1.2.3", "envpool": "4.5.6"})
    assert notes(ROWS, PEERS, machine) == [
        "EnvPool: as many envs, at most as many threads, step or send/recv: its best; 700 k steps/s at best.",
        "Gymnasium sync: at most 32 envs in one process; 96.0 k steps/s at best.",
        "Gymnasium async: at most 32 envs, each a process; 12.0 k steps/s at best.",
        "A CPU, 2 of 8 cores, avx2; hotloop 1.2.3, envpool 4.5.6.",
    ]


def test_the_machine_is_described() -> None:
    machine = inspect_machine({"envpool": "4.5.6"})
    assert machine.cpu
    assert 1 <= machine.usable_cores <= machine.cores
    assert machine.isa in {"scalar", "avx2", "avx512", "neon"}
    assert {"hotloop", "python", "numpy", "envpool"} == machine.versions.keys()
    assert machine.busy_cores is None or 0 <= machine.busy_cores <= machine.cores


@pytest.mark.parametrize(("busy_cores", "busy"), [(0.05, False), (1.5, True), (None, False)])
def test_a_machine_with_other_work_counts_as_busy(busy_cores: float | None, busy: bool) -> None:
    assert Machine("A CPU", 8, 4, "avx2", busy_cores, "Linux x86_64", {}).is_busy is busy
