"""Ray Tune and Optuna, running the trials of the suite `sweep` as their users do."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotloop.bench.ppo import usable_cores
from hotloop.bench.sweep import train_one
from hotloop.sweeps.definition import Definition


def run_optuna(definition: Definition, settings: Sequence[dict[str, Any]]) -> float:
    """Run `study.optimize` in one joblib process per core, over a journal file that they share."""
    import joblib
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    workers = usable_cores()
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as folder:
        file = str(Path(folder) / "journal.log")
        storage = optuna.storages.JournalStorage(JournalFileBackend(file))
        optuna.create_study(study_name="bench", storage=storage, direction="maximize")
        start = time.perf_counter()
        share = -(-len(settings) // workers)
        joblib.Parallel(n_jobs=workers)(
            joblib.delayed(_optimize)(definition.to_json(), file, settings[number * share : (number + 1) * share])
            for number in range(workers)
        )
        return time.perf_counter() - start


def _optimize(stored: dict[str, Any], file: str, settings: Sequence[dict[str, Any]]) -> None:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    definition = Definition.from_json(stored)
    storage = optuna.storages.JournalStorage(JournalFileBackend(file))
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.load_study(study_name="bench", storage=storage, sampler=sampler)
    waiting = list(settings)

    def objective(trial: optuna.Trial) -> float:
        for name in definition.entries:
            trial.suggest_float(name, 0.0, 1.0)
        return train_one(definition, waiting.pop())

    study.optimize(objective, n_trials=len(settings))


def run_ray(definition: Definition, settings: Sequence[dict[str, Any]]) -> float:
    """Run Tune with an actor per trial, its default."""
    return _tune(definition, settings, reuse=False)


def run_ray_reusing(definition: Definition, settings: Sequence[dict[str, Any]]) -> float:
    """Run Tune with `reuse_actors`."""
    return _tune(definition, settings, reuse=True)


def _tune(definition: Definition, settings: Sequence[dict[str, Any]], *, reuse: bool) -> float:
    # Before the import: no usage reports, no callbacks that write files of every trial.
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0", RAY_DEDUP_LOGS="0"
    )
    import ray
    from ray import tune

    stored = definition.to_json()

    class Trainable(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.definition, self.settings = Definition.from_json(stored), config["settings"]

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.settings = new_config["settings"]
            return True

        def step(self) -> dict[str, Any]:
            return {"value": train_one(self.definition, self.settings), "done": True}

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            pass

        def load_checkpoint(self, checkpoint: Any) -> None:
            pass

    if not ray.is_initialized():
        ray.init(num_cpus=usable_cores(), log_to_driver=False, include_dashboard=False, logging_level=40)
    with tempfile.TemporaryDirectory(prefix="hotloop-bench-") as folder:
        start = time.perf_counter()
        tune.run(
            Trainable,
            config={"settings": tune.grid_search(list(settings))},
            reuse_actors=reuse,
            storage_path=folder,
            verbose=0,
        )
        return time.perf_counter() - start


def end_ray() -> None:
    """Stop Ray's processes, if they were started."""
    import sys

    if "ray" in sys.modules:
        import ray

        ray.shutdown()
