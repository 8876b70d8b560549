"""What a benchmark's numbers depend on besides the code: the machine, how busy it is, and the versions involved."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """Facts that belong beside every measured number."""

    cpu: str
    cores: int
    usable_cores: int
    isa: str
    load: float
    system: str
    versions: dict[str, str]

    @property
    def is_busy(self) -> bool:
        """Whether other work takes a noticeable part of the cores."""
        return self.load > 0.25 * self.usable_cores


def inspect_machine(peer_versions: dict[str, str]) -> Machine:
    """Look at this machine; the versions of Hotloop, Python and NumPy are added to those of the peers."""
    import numpy

    from hotloop import _core

    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        usable_cores=_core.usable_cores(),
        isa=_core.isa(),
        load=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.machine()}",
        versions={
            "hotloop": _core.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            **peer_versions,
        },
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
