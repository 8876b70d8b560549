"""A policy's parameters as one flat vector, and Adam (Kingma and Ba 2015) over it.

One vector makes the norm of the gradient, its clipping and Adam's step a few operations however many arrays there are.
A gradient that is not finite moves nothing: the device itself decides, so nobody waits for its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Arrays = dict[str, NDArray[Any]]
# Arrays begin on whole cache lines, where kernels read fastest and always alike.
_LINE: Final = 16
# For float16: what the loss is multiplied with at first, and how many steps without overflow double it.
_FIRST_SCALE: Final = 2.0**14
_PATIENCE: Final = 2000


class Parameters:
    """The policy's arrays by name; they are views of the flat vector, and their gradients are views of its gradient."""

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
        self.scale = torch.tensor(_FIRST_SCALE, device=device) if scales else None
        self.calm = torch.zeros((), device=device)
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
        """The loss as it goes backward."""
        return loss if self.scale is None else loss * self.scale

    def step(self, settings: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Moves along the gradient; gives its norm (0 if it is not finite) and whether the step counts as dropped."""
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
            # Too large a scale is no fault of the policy: only at scale 1 does an overflow count.
            dropped = dropped & (self.scale <= 1)
            self.calm = torch.where(finite, self.calm + 1, 0)
            grown = torch.where(self.calm >= _PATIENCE, self.scale * 2, self.scale)
            self.calm = torch.where(self.calm >= _PATIENCE, 0, self.calm)
            self.scale = torch.where(finite, grown, (self.scale / 2).clamp(min=1))
        return norm.where(finite, 0), dropped

    def arrays(self) -> Arrays:
        """Copies of all arrays."""
        return {name: _copy(array) for name, array in {**self.named, **self.fixed}.items()}

    def gradients(self) -> Arrays:
        """Copies of all gradients."""
        return {name: _copy(array) for name, array in self._named(self.gradient).items()}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replaces all arrays, or none if one does not fit."""
        put({**self.named, **self.fixed}, arrays)

    def state(self) -> Arrays:
        """Adam's moments, as the native learner names them."""
        told = {f"adam.mean.{name}": _copy(array) for name, array in self._named(self.mean).items()}
        told |= {f"adam.square.{name}": _copy(array) for name, array in self._named(self.square).items()}
        told["adam.steps"] = np.array([int(self.steps)], np.uint64)
        if self.scale is not None:
            told["amp.scale"] = np.array([float(self.scale), float(self.calm)], np.float32)
        return told

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replaces the moments, if the state has any."""
        if "adam.steps" not in state:
            return
        put(
            {
                **{f"adam.mean.{name}": array for name, array in self._named(self.mean).items()},
                **{f"adam.square.{name}": array for name, array in self._named(self.square).items()},
            },
            state,
        )
        self.steps.fill_(float(state["adam.steps"][0]))
        if self.scale is not None and "amp.scale" in state:
            self.scale, self.calm = torch.from_numpy(state["amp.scale"]).to(self.scale.device).unbind()


def _copy(array: Tensor) -> NDArray[Any]:
    return array.detach().cpu().numpy().copy()


def put(own: Mapping[str, Tensor], given: Mapping[str, NDArray[Any]]) -> None:
    """Replaces all of one's own tensors by the arrays of their names, or none if one does not fit."""
    for name, array in own.items():
        if name not in given:
            raise ValueError(f'the array "{name}" is missing')
        if given[name].shape != tuple(array.shape):
            found, expected = list(given[name].shape), list(array.shape)
            raise ValueError(f'the array "{name}" has shape {found}: expected {expected}')
    with torch.no_grad():
        for name, array in own.items():
            array.copy_(torch.from_numpy(np.ascontiguousarray(given[name])))
