"""Policies as plain torch programs (`torch.export`), which load without Hotloop."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import ExportError
from hotloop.export.blueprint import Blueprint, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from numpy.typing import NDArray
    from torch import Tensor

MISSING: Final = "torch programs need torch: pip install torch"


def import_torch() -> Any:
    """Import torch; raise an error that says how to install it."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ExportError(MISSING) from None
    return torch


class Computation:
    """`Operations` by torch; weights are buffers of a module."""

    def __init__(self, weight: Callable[[str, NDArray[Any]], Tensor]) -> None:
        self._torch = import_torch()
        self.weight = weight

    def real(self, x: Tensor) -> Tensor:
        """Convert whole numbers to floats."""
        return x.float()

    def flat(self, x: Tensor) -> Tensor:
        """Flatten all axes after the first."""
        return x.flatten(1)

    def permuted(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Permute the axes."""
        return x.permute(*axes)

    def shaped(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape the axes after the first."""
        return x.reshape(-1, *shape)

    def picked(self, table: Tensor, rows: Tensor) -> Tensor:
        """Look up rows of a table."""
        found: Tensor = self._torch.nn.functional.embedding(rows, table)
        return found

    def dense(self, x: Tensor, weight: Tensor) -> Tensor:
        """Multiply by the transposed weights."""
        found: Tensor = self._torch.nn.functional.linear(x, weight)
        return found

    def convolution(self, x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: int) -> Tensor:
        """Apply a two-dimensional convolution."""
        found: Tensor = self._torch.nn.functional.conv2d(x, weight, bias, stride, pad)
        return found

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Add elementwise."""
        return x + y

    def subtract(self, x: Tensor, y: Tensor) -> Tensor:
        """Subtract elementwise."""
        return x - y

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply elementwise."""
        return x * y

    def tanh(self, x: Tensor) -> Tensor:
        """Apply tanh elementwise."""
        return x.tanh()

    def sigmoid(self, x: Tensor) -> Tensor:
        """Apply the sigmoid elementwise."""
        return x.sigmoid()

    def relu(self, x: Tensor) -> Tensor:
        """Apply ReLU elementwise."""
        return x.relu()

    def clipped(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Clip elementwise to bounds."""
        return x.clamp(low, high)

    def where(self, mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Select elementwise by a mask."""
        return x.where(mask, y)

    def split(self, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Split the last axis."""
        return list(self._torch.split(x, list(sizes), -1))

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate along the last axis."""
        found: Tensor = self._torch.cat(list(parts), -1)
        return found

    def best(self, x: Tensor) -> Tensor:
        """Return the argmax over the last axis."""
        return x.argmax(-1, keepdim=True)

    def single(self, x: Tensor) -> Tensor:
        """Remove the last axis."""
        return x.squeeze(-1)

    def like_rows(self, x: Tensor, rows: Tensor) -> Tensor:
        """Repeat a constant vector for every row; not as a view, which programs cannot return."""
        found: Tensor = x + self._torch.zeros_like(rows)
        return found


def torch_module(blueprint: Blueprint) -> torch.nn.Module:
    """Return the policy as a module from observation, action mask and memory (those it uses) to a dict."""
    torch = import_torch()

    class Policy(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            # One forward pass registers all arrays before the module is traced.
            self.forward(*_examples(blueprint, 2))

        def _weight(self, name: str, array: NDArray[Any]) -> Tensor:
            plain = name.replace(".", "_").replace("-", "minus_")
            if not hasattr(self, plain):
                self.register_buffer(plain, torch.tensor(array))
            found: Tensor = getattr(self, plain)
            return found

        def forward(self, observation: Tensor, *rest: Tensor) -> dict[str, Tensor]:
            given = list(rest)
            mask = given.pop(0) if blueprint.masked else None
            memory = given.pop(0) if blueprint.memory_len else None
            found = blueprint.forward(Computation(self._weight), observation, mask, memory)
            outputs = {
                "action": found.action,
                "value": found.value,
                "logits": found.logits,
                "mean": found.mean,
                "log_std": found.log_std,
                "next_memory": found.memory,
            }
            return {name: value.clone() for name, value in outputs.items() if value is not None}

    return Policy()


def write_program(path: Path, blueprint: Blueprint) -> None:
    """Write the program; a failure leaves no file."""
    torch = import_torch()
    module = torch_module(blueprint).eval()
    examples = _examples(blueprint, 2)
    batch = torch.export.Dim("batch", min=1)
    rest = tuple({0: batch} for _ in examples[1:])
    shapes: tuple[Any, ...] = ({0: batch}, rest) if rest else ({0: batch},)
    program = torch.export.export(module, tuple(examples), dynamic_shapes=shapes)
    # Through memory: torch crashes when the disk is full.
    data = io.BytesIO()
    torch.export.save(program, data)
    write_whole(path, data.getvalue())


def _examples(blueprint: Blueprint, rows: int) -> list[Tensor]:
    torch = import_torch()
    observation = blueprint.observation
    dtype = {"discrete": torch.int64, "bytes": torch.uint8}.get(observation.kind, torch.float32)
    found = [torch.zeros((rows, *observation.shape), dtype=dtype)]
    if blueprint.masked:
        found.append(torch.ones((rows, sum(blueprint.sets)), dtype=torch.bool))
    if blueprint.memory_len:
        found.append(torch.zeros((rows, blueprint.memory_len)))
    return found
