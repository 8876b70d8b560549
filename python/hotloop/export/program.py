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
    """The module, or an error that says what to do."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ExportError(MISSING) from None
    return torch


class Computation:
    """`Operations` that torch computes; weights are those of a module."""

    def __init__(self, weight: Callable[[str, NDArray[Any]], Tensor]) -> None:
        self._torch = import_torch()
        self.weight = weight

    def real(self, x: Tensor) -> Tensor:
        """Bytes as real numbers."""
        return x.float()

    def flat(self, x: Tensor) -> Tensor:
        """All axes after the first as one."""
        return x.flatten(1)

    def permuted(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """With its axes in another order."""
        return x.permute(*axes)

    def shaped(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """With other axes after the first."""
        return x.reshape(-1, *shape)

    def picked(self, table: Tensor, rows: Tensor) -> Tensor:
        """Rows of a table."""
        found: Tensor = self._torch.nn.functional.embedding(rows, table)
        return found

    def dense(self, x: Tensor, weight: Tensor) -> Tensor:
        """Times the transposed weights."""
        found: Tensor = self._torch.nn.functional.linear(x, weight)
        return found

    def convolution(self, x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: int) -> Tensor:
        """In two dimensions."""
        found: Tensor = self._torch.nn.functional.conv2d(x, weight, bias, stride, pad)
        return found

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Elementwise."""
        return x + y

    def subtract(self, x: Tensor, y: Tensor) -> Tensor:
        """Elementwise."""
        return x - y

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Elementwise."""
        return x * y

    def tanh(self, x: Tensor) -> Tensor:
        """Elementwise."""
        return x.tanh()

    def sigmoid(self, x: Tensor) -> Tensor:
        """Elementwise."""
        return x.sigmoid()

    def relu(self, x: Tensor) -> Tensor:
        """Elementwise."""
        return x.relu()

    def clipped(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Elementwise, between two."""
        return x.clamp(low, high)

    def where(self, mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The one where the mask says so, else the other."""
        return x.where(mask, y)

    def split(self, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Parts of the last axis."""
        return list(self._torch.split(x, list(sizes), -1))

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Along the last axis."""
        found: Tensor = self._torch.cat(list(parts), -1)
        return found

    def best(self, x: Tensor) -> Tensor:
        """The index of the greatest entry of the last axis."""
        return x.argmax(-1, keepdim=True)

    def single(self, x: Tensor) -> Tensor:
        """Without the last axis."""
        return x.squeeze(-1)

    def like_rows(self, x: Tensor, rows: Tensor) -> Tensor:
        """A constant vector once for every row; not a view, which programs cannot give back."""
        found: Tensor = x + self._torch.zeros_like(rows)
        return found


def torch_module(blueprint: Blueprint) -> torch.nn.Module:
    """The policy as a module of `(observation, action_mask, memory)`, of which it takes those it needs, to a dict."""
    torch = import_torch()

    class Policy(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            # Once through, so that every array is there before the module is traced.
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
    """Writes the program; a failure leaves nothing behind."""
    torch = import_torch()
    module = torch_module(blueprint).eval()
    examples = _examples(blueprint, 2)
    batch = torch.export.Dim("batch", min=1)
    rest = tuple({0: batch} for _ in examples[1:])
    shapes: tuple[Any, ...] = ({0: batch}, rest) if rest else ({0: batch},)
    program = torch.export.export(module, tuple(examples), dynamic_shapes=shapes)
    # By way of memory: torch does not survive a disk that is full.
    data = io.BytesIO()
    torch.export.save(program, data)
    write_whole(path, data.getvalue())


def _examples(blueprint: Blueprint, rows: int) -> list[Tensor]:
    torch = import_torch()
    observation = blueprint.observation
    dtype = {"discrete": torch.int64, "bytes": torch.uint8}.get(observation.kind, torch.float32)
    found = [torch.zeros((rows, *observation.shape), dtype=dtype)]
    if blueprint.masked:
        found.append(torch.ones((rows, blueprint.outputs), dtype=torch.bool))
    if blueprint.memory_len:
        found.append(torch.zeros((rows, blueprint.memory_len)))
    return found
