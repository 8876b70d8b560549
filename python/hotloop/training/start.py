"""Ways into the trainer: begin a new run, or resume one from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.loader import with_changes
from hotloop.envs.loader import load_env, whole_name
from hotloop.errors import CheckpointError, TrainingError
from hotloop.training.lookup import find_run
from hotloop.training.opponents import copied, find_policy, kept
from hotloop.training.runs import Ending, RunFolder, config_changes, find_store, home_of, read_first, read_status
from hotloop.training.settings import settle
from hotloop.training.trainer import Trainer
from hotloop.training.trust import code_in_config, code_in_manifest, remember, stored_config

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
    trust: bool = False,
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
        trust: Whether code that `init_from` names is trusted.
        trainer: The class to build.
    """
    if repeated is None:
        check_ending(config)
    if debug:
        config = with_changes(config, _DEBUG_SETTINGS)
    url = find_store(store, home, trackers=config.track.trackers)
    notes: list[str] = []
    if repeated is None:
        config = settle(config, notes.append, debug=debug)
    source = None if init_from is None else find_policy(init_from, home, trust=trust, warn=notes.append)
    if opponents is None:
        opponents = [find_policy(name, home, trust=trust, warn=notes.append) for name in config.opponents.policies]
    # A copy: the run can be repeated after the other one was deleted.
    copy = None if source is None else source.policy_bytes()
    code = [name for each in opponents for name in code_in_manifest(each.manifest)]
    if repeated is None:
        code += code_in_config(config)
    folder = RunFolder.create(config, name=name, given_home=home, first=copy, opponents=copied(opponents), code=code)
    try:
        if source is not None:
            first = source.policy()
        return trainer(
            config,
            folder,
            first=first,
            opponents=kept(folder.path, config, trust=True),
            controllers=controllers,
            debug=debug,
            callbacks=callbacks,
            store=url,
            repeated=repeated,
            recorded=recorded,
            notes=notes,
        )
    except BaseException:
        folder.abandon(code)
        raise


def check_ending(config: Config) -> None:
    """Refuse a run without a limit, and a goal that nothing would confirm."""
    train = config.train
    if (train.steps, train.episodes, train.minutes, train.until) == (None,) * 4:
        raise TrainingError(
            "no stopping condition: pass --steps, --episodes, --minutes or --until (train.steps and so on in a config)"
        )
    if train.until is not None and train.evaluate_episodes == 0:
        raise TrainingError("train.until is confirmed by an evaluation: set train.evaluate_episodes above 0")


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
    restart: bool = False,
) -> Trainer:
    """Return the trainer of an existing run, at its newest checkpoint, or at its start if it has none.

    A damaged checkpoint is set aside and the one before it is taken; one that does not fit ends in an error. With
    `restart` all checkpoints are set aside, and the run begins again.
    """
    path = find_run(run, home)
    config = stored_config(path, trust=trust)
    url = find_store(store, home_of(path, home), trackers=config.track.trackers)
    if env is not None and whole_name(env) != config.env.name:
        raise TrainingError(f"the run {path.name!r} trains {config.env.name!r}, not {env!r}")
    folder = RunFolder(path)
    try:
        edits = [f"config.yaml was edited since the run began: {each}" for each in config_changes(path, config)]
        if not read_status(path):
            edits.append("run.json is missing or does not match its checksum: edits of config.yaml cannot be noticed")
        limits = dict(limits or {})
        if limits and "until" not in limits and config.train.until is not None and _is_solved(path):
            limits["until"] = None
            edits.append(f"train.until={config.train.until:g} was reached before: the run goes on without it")
        changed = {key: value for key, value in limits.items() if value != getattr(config.train, key)}
        if changed:
            _refuse_other_schedule(config, changed)
            config = with_changes(config, {"train": changed})
            folder.write_config(config)
        opponents = kept(path, config, trust=trust)
        load_env(config.env.name)
        if learner:
            # Named by whoever resumes, so its code is trusted; the run keeps the change.
            config = with_changes(config, learner)
            folder.write_config(config)
            remember(path, code_in_config(config))
        if debug:
            # For this session only: the stored config stays as it is.
            config = with_changes(config, _DEBUG_SETTINGS)
        first = read_first(path)
        trainer = Trainer(
            config,
            folder,
            first=first,
            opponents=opponents,
            controllers=controllers,
            debug=debug,
            callbacks=callbacks,
            store=url,
            notes=edits,
            trust=trust,
        )
        try:
            trainer.restore_newest(restart=restart)
        except CheckpointError as error:
            # An edit is the likely cause.
            raise type(error)("; ".join([*edits[:3], str(error)])) from None
        if not changed and (reached := trainer.ending()) is not None:
            trainer.note(_advise_finished(path.name, config, reached))
    except OSError as error:
        folder.release()
        where = error.filename2 or error.filename or path
        raise TrainingError(f"cannot resume {path.name!r}: {where}: {error.strerror or error}") from None
    except BaseException:
        folder.release()
        raise
    if changed:
        trainer.session.counters.solved = False
        trainer.session.counters.control.conditions.stop = None
    return trainer


def _is_solved(run: Path) -> bool:
    return read_status(run).get("ended") == "solved"


def _advise_finished(run: str, config: Config, reached: Ending) -> str:
    limits = {
        "solved": f"it reached train.until={config.train.until or 0:g}",
        "steps": f"it reached train.steps={config.train.steps}",
        "episodes": f"it reached train.episodes={config.train.episodes}",
        "minutes": f"it reached train.minutes={config.train.minutes}",
        "controller": "a controller ended it",
    }
    return (
        f"the run is finished: {limits[reached]}. Go on to a new limit with 'hotloop train --resume {run} --steps N', "
        f"or begin a new run from its weights with --init-from {run}"
    )


def _refuse_other_schedule(config: Config, changed: Mapping[str, Any]) -> None:
    if "steps" in changed and "linear" in (config.ppo.learning_rate_schedule, config.ppo.entropy_schedule):
        raise TrainingError(
            f"train.steps is {config.train.steps} and cannot change: a linear schedule ends there. "
            "Begin a new run from this one's weights instead (--init-from, init_from in Python)"
        )
