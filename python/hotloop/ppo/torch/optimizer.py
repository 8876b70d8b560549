"""A policy's parameters as one flat vector, and Adam (Kingma and Ba 2015) over it.

One vector makes gradient norm, clipping and Adam's step a few operations, however many arrays there are. A gradient
that is not finite changes nothing: the device itself decides, so the host does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Arrays = dict[str, NDArray[Any]]
# Arrays begin on cache lines, so that kernels see the same alignment every time.
_LINE: Final = 16
# For float16: the initial loss scale, and the number of steps without overflow after which it doubles.
_INITIAL_SCALE: Final = 2.0**14
_GROWTH_INTERVAL: Final = 2000


class FlatAdam:
    """Adam over a flat vector; the policy's arrays are views of it, and their gradients views of its gradient."""

    def __init__(self, policy: nn.Module, *, scales: bool) -> None:
        self.named = {name: parameter for name, parameter in policy.named_parameters() if parameter.requires_grad}
        self.fixed = {
            **{name: parameter.data for name, parameter in policy.named_parameters() if not parameter.requires_grad},
            **dict(policy.named_buffers()),
        }
        sizes = [-(-parameter.numel() // _LINE) * _LINE for parameter in self.named.values()]
        device = next(iter(self.named.values())).device
        self.flat = nn.Parameter(torch.zeros(sum(sizes), device=device))
        self.flat.grad = torch.zeros_like(self.flat)
        self.count = sum(parameter.numel() for parameter in self.named.values())
        self.optimizer = torch.optim.Adam([self.flat], fused=True)
        self.mean, self.square = torch.zeros_like(self.flat.data), torch.zeros_like(self.flat.data)
        self.steps = torch.zeros((), device=device)
        self.optimizer.state[self.flat] = {"step": self.steps, "exp_avg": self.mean, "exp_avg_sq": self.square}
        self.scale = torch.tensor(_INITIAL_SCALE, device=device) if scales else None
        self.good_steps = torch.zeros((), device=device)
        for (name, parameter), part, grad in zip(
            self.named.items(), self.flat.data.split(sizes), self.flat.grad.split(sizes), strict=True
        ):
            own = self._view(part, name)
            own.copy_(parameter.data)
            parameter.data = own
            parameter.grad = self._view(grad, name)

    def _view(self, part: Tensor, name: str) -> Tensor:
        shape = self.named[name].shape
        return part[: shape.numel()].view(shape)

    def _named(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [-(-parameter.numel() // _LINE) * _LINE for parameter in self.named.values()]
        return {name: self._view(part, name) for name, part in zip(self.named, flat.split(sizes), strict=True)}

    @property
    def gradient(self) -> Tensor:
        """The flat gradient."""
        assert self.flat.grad is not None
        return self.flat.grad

    def scaled(self, loss: Tensor) -> Tensor:
        """Scale the loss for the backward pass."""
        return loss if self.scale is None else loss * self.scale

    def step(self, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Take a gradient step; return the gradient's norm (0 if not finite) and whether the step counts as dropped."""
        norm = torch.linalg.vector_norm(self.gradient)
        if self.scale is not None:
            norm = norm / self.scale
        finite = norm.isfinite()
        group = self.optimizer.param_groups[0]
        group["lr"] = settings["learning_rate"]
        group["betas"] = (settings["beta1"], settings["beta2"])
        group["eps"] = settings["epsilon"]
        divisor = (norm / settings["max_gradient_norm"]).clamp(min=1)
        self.optimizer.grad_scale = divisor if self.scale is None else divisor * self.scale  # type: ignore[attr-defined]
        self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        dropped = ~finite
        if self.scale is not None:
            # Overflow at a larger loss scale is expected now and then: only at scale 1 does it count.
            dropped = dropped & (self.scale <= 1)
            self.good_steps = torch.where(finite, self.good_steps + 1, 0)
            grown = torch.where(self.good_steps >= _GROWTH_INTERVAL, self.scale * 2, self.scale)
            self.good_steps = torch.where(self.good_steps >= _GROWTH_INTERVAL, 0, self.good_steps)
            self.scale = torch.where(finite, grown, (self.scale / 2).clamp(min=1))
        return norm.where(finite, 0), dropped

    def arrays(self) -> Arrays:
        """Return copies of all arrays."""
        return {name: _copy(array) for name, array in {**self.named, **self.fixed}.items()}

    def gradients(self) -> Arrays:
        """Return copies of all gradients."""
        return {name: _copy(array) for name, array in self._named(self.gradient).items()}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace all arrays, or none if one does not fit."""
        load_arrays({**self.named, **self.fixed}, arrays)

    def state(self) -> Arrays:
        """Return Adam's moments under the native learner's names."""
        arrays = {f"adam.mean.{name}": _copy(array) for name, array in self._named(self.mean).items()}
        arrays |= {f"adam.square.{name}": _copy(array) for name, array in self._named(self.square).items()}
        arrays["adam.steps"] = np.array([int(self.steps)], np.uint64)
        if self.scale is not None:
            arrays["amp.scale"] = np.array([float(self.scale), float(self.good_steps)], np.float32)
        return arrays

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replace the moments, if the state has any."""
        if "adam.steps" not in state:
            return
        load_arrays(
            {
                **{f"adam.mean.{name}": array for name, array in self._named(self.mean).items()},
                **{f"adam.square.{name}": array for name, array in self._named(self.square).items()},
            },
            state,
        )
        self.steps.fill_(float(state["adam.steps"][0]))
        if self.scale is not None and "amp.scale" in state:
            self.scale, self.good_steps = torch.from_numpy(state["amp.scale"]).to(self.scale.device).unbind()


def _copy(array: Tensor) -> NDArray[Any]:
    return array.detach().cpu().numpy().copy()


def load_arrays(own: Mapping[str, Tensor], given: Mapping[str, NDArray[Any]]) -> None:
    """Copy the arrays of the same names into all tensors, or into none if one does not fit."""
    for name, array in own.items():
        if name not in given:
            raise ValueError(f'the array "{name}" is missing')
        if given[name].shape != tuple(array.shape):
            found, expected = list(given[name].shape), list(array.shape)
            raise ValueError(f'the array "{name}" has shape {found}: expected {expected}')
    with torch.no_grad():
        for name, array in own.items():
            array.copy_(torch.from_numpy(np.ascontiguousarray(given[name])))
