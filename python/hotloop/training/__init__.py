"""The trainer: collect, learn, report; everything else listens to it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.errors import TrainingError
    from hotloop.training.api import train
    from hotloop.training.callbacks import Callback
    from hotloop.training.evaluation import Evaluation, evaluate
    from hotloop.training.runs import Run
    from hotloop.training.verification import Verification, verify

__all__ = ["Callback", "Evaluation", "Run", "TrainingError", "Verification", "evaluate", "train", "verify"]

_HOMES = {
    "Callback": "callbacks",
    "Evaluation": "evaluation",
    "Run": "runs",
    "TrainingError": "errors",
    "Verification": "verification",
    "evaluate": "evaluation",
    "train": "api",
    "verify": "verification",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
