"""Ways into the trainer: begin a new run, or resume one from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.envs.loader import load_env, whole_name
from hotloop.errors import TrainingError
from hotloop.training import checkpoint as checkpoints
from hotloop.training.opponents import find_policy, keep, kept, named_code
from hotloop.training.runs import RunFolder, find_run, find_store, home_of
from hotloop.training.trainer import Trainer
from hotloop.training.trust import must_be_trusted, named_in, remember

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.training.callbacks import Callback
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller
    from hotloop.training.plan import Repetition

_DEBUG_SETTINGS: Final = {"track": {"interval": 1}, "runner": {"num_threads": 1}}


def begin(
    config: Config,
    *,
    init_from: str | Path | None = None,
    name: str | None = None,
    home: str | Path | None = None,
    store: str | Path | None = None,
    debug: bool = False,
    callbacks: Sequence[Callback] = (),
    repeated: Repetition | None = None,
    first: tuple[Arrays, Arrays] | None = None,
    opponents: Sequence[Checkpoint] | None = None,
    controllers: Sequence[Controller] = (),
    recorded: bool = True,
    trainer: type[Trainer] = Trainer,
) -> Trainer:
    """Return the trainer of a new run.

    Args:
        config: The run's config.
        init_from: Run or checkpoint whose weights are the initial ones.
        name: Name of the run and its folder.
        home: Folder that holds all runs.
        store: Store that lists the run.
        debug: Whether to run iterations in parts on one thread and check every array.
        callbacks: Listeners.
        repeated: Recorded schedule to follow, for `verify`.
        first: Initial weights, if they are already loaded.
        opponents: Frozen opponents, if they are already loaded; those that the config names by default.
        controllers: Controllers besides those of the config.
        recorded: Whether to write a journal.
        trainer: The class to build.
    """
    train = config.train
    if repeated is None and (train.steps, train.episodes, train.minutes, train.until) == (None,) * 4:
        raise TrainingError("no stopping condition: set train.steps, train.episodes, train.minutes or train.until")
    if train.until is not None and train.evaluate_episodes == 0:
        raise TrainingError("train.until is confirmed by an evaluation: set train.evaluate_episodes above 0")
    if debug:
        config = _with(config, _DEBUG_SETTINGS)
    url = find_store(store, home, trackers=config.track.trackers)
    source = None if init_from is None else find_policy(init_from, home)
    if opponents is None:
        opponents = [find_policy(name, home) for name in config.opponents.policies]
        for opponent in opponents:
            must_be_trusted(opponent.path.parent.parent, named_code([opponent]), trust=False)
    folder = RunFolder.create(config, name=name, given_home=home)
    try:
        if source is not None:
            # A copy: the run can be repeated after the other one was deleted.
            checkpoints.keep_first(folder.path, source)
            first = source.policy()
        keep(folder.path, opponents)
        remember(folder.path, named_code(opponents))
        return trainer(
            config,
            folder,
            first=first,
            opponents=kept(folder.path, config),
            controllers=controllers,
            debug=debug,
            callbacks=callbacks,
            store=url,
            repeated=repeated,
            recorded=recorded,
        )
    except BaseException:
        folder.abandon()
        raise


def resume(
    run: str | Path,
    *,
    env: str | None = None,
    limits: Mapping[str, Any] | None = None,
    learner: Mapping[str, Mapping[str, Any]] | None = None,
    home: str | Path | None = None,
    store: str | Path | None = None,
    debug: bool = False,
    callbacks: Sequence[Callback] = (),
    controllers: Sequence[Controller] = (),
    trust: bool = False,
) -> Trainer:
    """Return the trainer of an existing run, at its newest usable checkpoint, or at its start if it has none."""
    from hotloop.config.loader import stored_config

    path = find_run(run, home)
    config = stored_config(path / "config.yaml")
    url = find_store(store, home_of(path, home), trackers=config.track.trackers)
    if env is not None and whole_name(env) != config.env.name:
        raise TrainingError(f"the run {path.name!r} trains {config.env.name!r}, not {env!r}")
    folder = RunFolder(path)
    try:
        changed = {key: value for key, value in (limits or {}).items() if value != getattr(config.train, key)}
        if changed:
            _refuse_other_schedule(config, changed)
            config = _with(config, {"train": changed})
            folder.write_config(config)
        opponents = kept(path, config)
        must_be_trusted(path, [*named_in(config), *named_code(opponents)], trust=trust)
        load_env(config.env.name)
        if learner:
            # Named by whoever resumes, so its code is trusted; the run keeps the change.
            config = _with(config, learner)
            folder.write_config(config)
            remember(path, named_in(config))
        if debug:
            # For this session only: the stored config stays as it is.
            config = _with(config, _DEBUG_SETTINGS)
        first = checkpoints.kept_first(path)
        trainer = Trainer(
            config,
            folder,
            first=first,
            opponents=opponents,
            controllers=controllers,
            debug=debug,
            callbacks=callbacks,
            store=url,
        )
        trainer.restore_newest()
    except BaseException:
        folder.release()
        raise
    if changed:
        trainer.session.counters.solved = False
        trainer.session.counters.control.conditions.stop = None
    return trainer


def _with(config: Config, changes: Mapping[str, Mapping[str, Any]]) -> Config:
    from hotloop.config.loader import build

    parts = config.model_dump()
    for part, values in changes.items():
        parts[part] |= values
    return build(parts)


def _refuse_other_schedule(config: Config, changed: Mapping[str, Any]) -> None:
    if "steps" in changed and "linear" in (config.ppo.learning_rate_schedule, config.ppo.entropy_schedule):
        raise TrainingError(
            f"train.steps is {config.train.steps} and cannot change: a linear schedule ends there. "
            "Begin a new run from this one's weights instead (init_from)"
        )
