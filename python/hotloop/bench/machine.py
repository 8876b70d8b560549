"""Facts that benchmark results depend on: the machine, its load, and package versions."""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """Facts reported with every measurement."""

    cpu: str
    cores: int
    usable_cores: int
    isa: str
    busy_cores: float | None
    """Cores busy with other work; None outside Linux."""
    system: str
    versions: dict[str, str]

    @property
    def is_busy(self) -> bool:
        """Whether other work takes a noticeable part of a core."""
        return self.busy_cores is not None and self.busy_cores > 0.2


def inspect_machine(peer_versions: dict[str, str]) -> Machine:
    """Inspect this machine; adds the versions of Hotloop, Python and NumPy."""
    import numpy

    from hotloop import _core

    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        usable_cores=_core.usable_cores(),
        isa=_core.isa(),
        busy_cores=_busy_cores(),
        system=f"{platform.system()} {platform.machine()}",
        versions={
            "hotloop": _core.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            **peer_versions,
        },
    )


def _cpu_model() -> str:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _busy_cores() -> float | None:
    """Measure the load while idle for a moment. The load average would still contain earlier benchmarks."""
    before = _ticks()
    time.sleep(0.2)
    after = _ticks()
    if not before or not after:
        return None
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    idle = spent[3] + spent[4]
    return round((1 - idle / max(1, sum(spent))) * (os.cpu_count() or 1), 2)


def _ticks() -> list[int]:
    """Clock ticks of all cores together: user, nice, system, idle, waiting for disks, interrupts, stolen."""
    lines = _lines("/proc/stat")
    return [int(ticks) for ticks in lines[0].split()[1:9]] if lines else []


def _lines(path: str) -> list[str]:
    """Return a file's lines; none if it does not exist, as on other systems."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
