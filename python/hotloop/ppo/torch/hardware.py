"""Device, threads, precision and compilation of the torch learner."""

from __future__ import annotations

import contextlib
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop import _core
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hotloop.config import TorchConfig

_DTYPES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
# A layer forward and backward: some CPUs, virtual ones above all, crash on instructions that they advertise.
_TRIAL: Final = """
import torch
weight = torch.ones(64, 64, requires_grad=True)
with torch.autocast("cpu", torch.{amp}):
    out = torch.nn.functional.linear(torch.ones(256, 64), weight)
out.float().sum().backward()
"""
# Multiply-adds of a minibatch below which more torch threads cost more than they bring.
_WORTH_SHARING: Final = 1 << 24


@dataclass
class Hardware:
    """Device, threads, precision and compilation; `notes` are remarks for the user."""

    device: torch.device
    num_threads: int
    dtype: torch.dtype | None = None
    compiles: bool = False
    notes: list[str] = field(default_factory=list)

    @classmethod
    def choose(cls, config: TorchConfig, *, num_threads: int | None, products: int) -> Hardware:
        """Apply the config; the default number of threads depends on `products`, the multiply-adds of a minibatch."""
        threads = config.num_threads or num_threads or (_core.usable_cores() if products >= _WORTH_SHARING else 1)
        found = cls(find_device(config.device), threads, _DTYPES.get(config.amp), config.compile)
        if found.dtype is not None and found.device.type == "cpu":
            check_amp(config.amp)
        if config.interop_threads is not None and torch.get_num_interop_threads() != config.interop_threads:
            try:
                torch.set_num_interop_threads(config.interop_threads)
            except RuntimeError:
                now = torch.get_num_interop_threads()
                found.notes.append(f"torch.interop_threads stays {now}: torch has been at work in this process already")
        if config.memory_fraction is not None:
            if found.device.type == "cuda":
                torch.cuda.set_per_process_memory_fraction(config.memory_fraction, found.device)
            else:
                found.notes.append(f"torch.memory_fraction does nothing on {found.device}: it is for CUDA devices")
        if config.pin_memory and found.device.type != "cuda":
            found.notes.append(f"torch.pin_memory does nothing on {found.device}: it is for CUDA devices")
        return found

    def use_threads(self) -> None:
        """Set the number of torch threads, which other code in this process may have changed."""
        if torch.get_num_threads() != self.num_threads:
            torch.set_num_threads(self.num_threads)

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """Return the autocast context of the networks."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def compiled(self, function: Callable[..., Any], try_it: Callable[[Callable[..., Any]], Any]) -> Callable[..., Any]:
        """Compile the function if configured; if a trial run fails, return it as it is and add a note."""
        if not self.compiles:
            return function
        compiled = torch.compile(function)
        try:
            try_it(compiled)
        except Exception as error:
            why = (str(error).strip().splitlines() or [""])[0]
            self.notes.append(f"torch.compile failed, so nothing is compiled: {type(error).__name__}: {why}")
            self.compiles = False
            return function
        return compiled

    def conditions(self) -> dict[str, Any]:
        """Return the conditions of bit-identical results."""
        return {
            "version": torch.__version__,
            "device": self.device.type,
            "cpu": cpu_kind() if self.device.type == "cpu" else torch.cuda.get_device_name(self.device),
            "threads": self.num_threads,
            "dtype": "float32" if self.dtype is None else str(self.dtype).removeprefix("torch."),
            "compile": self.compiles,
        }


def differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the conditions of bit-identical results that have changed."""
    return [f"{name} was {kept.get(name)}, is {value}" for name, value in now.items() if kept.get(name) != value]


def find_device(name: str) -> torch.device:
    """Return the device of that name; an unavailable one is an error."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ConfigError(
            f"torch.device is {name!r}, which cannot be used here ({why}): available are {', '.join(there)}"
        ) from None
    return device


def check_amp(amp: str) -> None:
    """Try mixed precision on the CPU in a process of its own; a crash there is an error."""
    done = subprocess.run([sys.executable, "-c", _TRIAL.format(amp=amp)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    why = done.stderr.strip().splitlines()[-1:] or ["no output"]
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else why[0]
    raise ConfigError(
        f"torch.amp is {amp}, but torch cannot compute with it on this CPU (a trial ended with {ended}): leave it off, "
        "or keep torch from instructions that fail here, say with ONEDNN_MAX_CPU_ISA=AVX512_CORE in the environment"
    )


def pin(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Register arrays as pinned memory, so that CUDA copies them asynchronously."""
    cudart = torch.cuda.cudart()
    for array in arrays.values():
        if array.nbytes:
            torch.cuda.check_error(cudart.cudaHostRegister(array.ctypes.data, array.nbytes, 0))


def cpu_kind() -> str:
    """Return the CPU's model and capability, which torch's kernels depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"
