"""Policies as ONNX models, written node by node from the policy's spec, without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop import _core
from hotloop.errors import ExportError
from hotloop.export.blueprint import Blueprint, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Old enough for the runtimes in use.
_OPSET: Final = 17
_IR_VERSION: Final = 8
_BATCH: Final = "batch"
MISSING: Final = "ONNX models need onnx: pip install 'hotloop[onnx]'"


class Graph:
    """A graph under construction: `Operations` whose values are names of tensors."""

    def __init__(self) -> None:
        try:
            import onnx
        except ModuleNotFoundError:
            raise ExportError(MISSING) from None
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """Add a constant, once per name."""
        if name not in self.constants:
            self.constants[name] = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def _node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self._onnx.helper.make_node(kind, inputs, names, **attributes))
        return names

    def _one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self._node(kind, *inputs, **attributes)[0]

    def _whole(self, values: Sequence[int]) -> str:
        return self.weight("shape." + ".".join(map(str, values)), np.array(values, np.int64))

    def real(self, x: str) -> str:
        """Convert whole numbers to floats."""
        return self._one("Cast", x, to=self._onnx.TensorProto.FLOAT)

    def flat(self, x: str) -> str:
        """Flatten all axes after the first."""
        return self._one("Flatten", x, axis=1)

    def permuted(self, x: str, axes: Sequence[int]) -> str:
        """Permute the axes."""
        return self._one("Transpose", x, perm=list(axes))

    def shaped(self, x: str, shape: Sequence[int]) -> str:
        """Reshape the axes after the first."""
        return self._one("Reshape", x, self._whole([-1, *shape]))

    def picked(self, table: str, rows: str) -> str:
        """Look up rows of a table."""
        return self._one("Gather", table, rows, axis=0)

    def dense(self, x: str, weight: str) -> str:
        """Multiply by the transposed weights."""
        return self._one("Gemm", x, weight, transB=1)

    def convolution(self, x: str, weight: str, bias: str, stride: int, pad: int) -> str:
        """Apply a two-dimensional convolution."""
        return self._one("Conv", x, weight, bias, strides=[stride] * 2, pads=[pad] * 4)

    def add(self, x: str, y: str) -> str:
        """Add elementwise."""
        return self._one("Add", x, y)

    def subtract(self, x: str, y: str) -> str:
        """Subtract elementwise."""
        return self._one("Sub", x, y)

    def multiply(self, x: str, y: str) -> str:
        """Multiply elementwise."""
        return self._one("Mul", x, y)

    def tanh(self, x: str) -> str:
        """Apply tanh elementwise."""
        return self._one("Tanh", x)

    def sigmoid(self, x: str) -> str:
        """Apply the sigmoid elementwise."""
        return self._one("Sigmoid", x)

    def relu(self, x: str) -> str:
        """Apply ReLU elementwise."""
        return self._one("Relu", x)

    def clipped(self, x: str, low: str, high: str) -> str:
        """Clip elementwise to bounds; ONNX's `Clip` takes scalar bounds only."""
        return self._one("Min", self._one("Max", x, low), high)

    def where(self, mask: str, x: str, y: str) -> str:
        """Select elementwise by a mask."""
        return self._one("Where", mask, x, y)

    def split(self, x: str, sizes: Sequence[int]) -> list[str]:
        """Split the last axis."""
        if len(sizes) == 1:
            return [x]
        return self._node("Split", x, self._whole(sizes), outputs=len(sizes), axis=-1)

    def joined(self, parts: Sequence[str]) -> str:
        """Concatenate along the last axis."""
        return parts[0] if len(parts) == 1 else self._one("Concat", *parts, axis=-1)

    def best(self, x: str) -> str:
        """Return the argmax over the last axis; the first of equals."""
        return self._one("ArgMax", x, axis=-1, keepdims=1)

    def single(self, x: str) -> str:
        """Remove the last axis."""
        return self._one("Squeeze", x, self._whole([-1]))

    def like_rows(self, x: str, rows: str) -> str:
        """Repeat a constant vector for every row."""
        return self._one("Expand", x, self._one("Shape", rows))

    def named(self, x: str, name: str) -> None:
        """Give a value an output's name."""
        self.nodes.append(self._onnx.helper.make_node("Identity", [x], [name]))


def write_onnx(path: Path, blueprint: Blueprint) -> None:
    """Write the model; a failure leaves no file."""
    write_whole(path, onnx_model(blueprint).SerializeToString())


def onnx_model(blueprint: Blueprint) -> Any:
    """Return the model.

    Inputs are `observation`, `action_mask` (true is allowed) where the env has masks, and `memory` (zeros where an
    episode begins) where the policy has one. Outputs are `action`, `value`, `logits` and/or `mean` and `log_std`,
    and `next_memory`. The first axis of each is the batch.
    """
    graph = Graph()
    import onnx
    from onnx import TensorProto, helper

    kinds = {"discrete": TensorProto.INT64, "bytes": TensorProto.UINT8}
    seen_kind = kinds.get(blueprint.observation.kind, TensorProto.FLOAT)

    def tensor(name: str, kind: int, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, kind, [_BATCH, *shape])

    real, memory_len = TensorProto.FLOAT, blueprint.memory_len
    inputs = [tensor("observation", seen_kind, *blueprint.observation.shape)]
    if blueprint.masked:
        inputs.append(tensor("action_mask", TensorProto.BOOL, sum(blueprint.sets)))
    if memory_len:
        inputs.append(tensor("memory", real, memory_len))
    given = [info.name for info in inputs]
    found = blueprint.forward(
        graph,
        "observation",
        "action_mask" if "action_mask" in given else None,
        "memory" if "memory" in given else None,
    )
    action_kind = real if blueprint.dims else TensorProto.INT64
    outputs = [tensor("action", action_kind, *blueprint.action.shape), tensor("value", real)]
    graph.named(found.action, "action")
    graph.named(found.value, "value")
    dims = blueprint.dims
    named = (
        ("logits", found.logits, sum(blueprint.sets)),
        ("mean", found.mean, dims),
        ("log_std", found.log_std, dims),
    )
    for name, value, size in named:
        if value is not None:
            graph.named(value, name)
            outputs.append(tensor(name, real, size))
    if found.memory is not None:
        graph.named(found.memory, "next_memory")
        outputs.append(tensor("next_memory", real, memory_len))
    made = helper.make_graph(graph.nodes, "policy", inputs, outputs, list(graph.constants.values()))
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="hotloop",
        producer_version=_core.__version__,
    )
    facts = {"env": blueprint.env, "options": json.dumps(dict(blueprint.options)), "steps": str(blueprint.steps)}
    helper.set_model_props(model, facts)
    onnx.checker.check_model(model, full_check=True)
    return model
