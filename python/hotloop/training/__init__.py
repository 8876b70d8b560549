"""The trainer: collect, learn, report; everything else listens to it."""

from typing import TYPE_CHECKING

from hotloop.lazy import lazy_names

if TYPE_CHECKING:
    from hotloop.errors import TrainingError
    from hotloop.policies.evaluation import Evaluation
    from hotloop.training.api import train
    from hotloop.training.callbacks import Callback
    from hotloop.training.control import Controller, Decision, Situation
    from hotloop.training.evaluation import evaluate
    from hotloop.training.runs import Run
    from hotloop.training.verification import Verification, verify

__all__ = [
    "Callback",
    "Controller",
    "Decision",
    "Evaluation",
    "Run",
    "Situation",
    "TrainingError",
    "Verification",
    "evaluate",
    "train",
    "verify",
]

_HOMES = {
    "Callback": "hotloop.training.callbacks",
    "Controller": "hotloop.training.control",
    "Decision": "hotloop.training.control",
    "Evaluation": "hotloop.training.evaluation",
    "Run": "hotloop.training.runs",
    "Situation": "hotloop.training.control",
    "TrainingError": "hotloop.errors",
    "Verification": "hotloop.training.verification",
    "evaluate": "hotloop.training.evaluation",
    "train": "hotloop.training.api",
    "verify": "hotloop.training.verification",
}
__getattr__ = lazy_names(__name__, _HOMES)
