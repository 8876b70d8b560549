"""LSTM and GRU as the native learner has them: the same arrays, gates and order; a loop over time, none over rows."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

GATES: Final = {"lstm": 4, "gru": 3}
KEPT: Final = {"lstm": 2, "gru": 1}


class Weights(nn.Module):
    """Weights, and a bias where asked for, under names of their own."""

    def __init__(self, outputs: int, inputs: int, *, bias: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        if bias:
            self.bias = nn.Parameter(torch.empty(bias))


class Cell(nn.Module):
    """One layer of memory: gates i, f, g, o (LSTM) or r, z, n (GRU) of `size` units each."""

    def __init__(self, kind: str, inputs: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.is_lstm = kind == "lstm"
        gates = GATES[kind] * size
        self.input = Weights(gates, inputs)
        self.hidden = Weights(gates, size, bias=0 if self.is_lstm else size)
        self.bias = nn.Parameter(torch.empty(gates))

    def project(self, x: Tensor) -> Tensor:
        """Contribution of the input to the gates, for all steps at once."""
        return functional.linear(x, self.input.weight, self.bias)

    def step(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: what is put out, and the state after it."""
        return self._lstm(projected, state) if self.is_lstm else self._gru(projected, state)

    def _lstm(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = state.split(self.size, -1)
        gates = torch.addmm(projected, hidden, self.hidden.weight.t())
        i_f, g, o = gates.split((2 * self.size, self.size, self.size), -1)
        i, f = i_f.sigmoid().chunk(2, -1)
        cell = torch.addcmul(f * cell, i, g.tanh())
        hidden = o.sigmoid() * cell.tanh()
        return hidden, torch.cat((hidden, cell), -1)

    def _gru(self, projected: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        own = functional.linear(state, self.hidden.weight)
        split = (2 * self.size, self.size)
        (rz_in, n_in), (rz_own, n_own) = projected.split(split, -1), own.split(split, -1)
        r, z = (rz_in + rz_own).sigmoid().chunk(2, -1)
        n = torch.addcmul(n_in, r, n_own + self.hidden.bias).tanh()
        hidden = torch.lerp(n, state, z)
        return hidden, hidden


class Memory(nn.Module):
    """Layers of memory, one on top of the other. A row's state is one vector, layer after layer."""

    def __init__(self, kind: str, inputs: int, size: int, layers: int) -> None:
        super().__init__()
        self.per_layer = KEPT[kind] * size
        self.length = layers * self.per_layer
        self.size = size
        for k in range(layers):
            self.add_module(str(k), Cell(kind, inputs if k == 0 else size, size))

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of every row."""
        after = []
        for cell, own in zip(self.children(), state.split(self.per_layer, -1), strict=True):
            assert isinstance(cell, Cell)
            x, own = cell.step(cell.project(x), own)
            after.append(own)
        return x, torch.cat(after, -1) if len(after) > 1 else after[0]

    def sequence(self, x: Tensor, state: Tensor, keeps: Tensor, moves: Tensor | None) -> Tensor:
        """All steps `[time, rows, ...]`, in order.

        Where `keeps[t]` is 0 a row begins step `t` with an empty memory; where `moves[t]` is false it leaves the step
        with the memory it came with, since others decided.
        """
        for cell, own in zip(self.children(), state.split(self.per_layer, -1), strict=True):
            assert isinstance(cell, Cell)
            out = []
            for t, (projected, keep) in enumerate(zip(cell.project(x).unbind(0), keeps.unbind(0), strict=True)):
                before = own * keep
                hidden, own = cell.step(projected, before)
                if moves is not None:
                    own = torch.where(moves[t], own, before)
                out.append(hidden)
            x = torch.stack(out)
        return x
