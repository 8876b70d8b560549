"""`hotloop.train`: build the config from the arguments, and run the trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hotloop.errors import TrainingError

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.envs.compiled import CompiledEnv
    from hotloop.training.callbacks import Callback
    from hotloop.training.control import Controller
    from hotloop.training.runs import Run


def train(
    env: str | Callable[..., Any] | CompiledEnv | None = None,
    *,
    steps: int | None = None,
    episodes: int | None = None,
    minutes: float | None = None,
    until: float | Literal["none"] | None = None,
    seed: int | None = None,
    config: Config | Mapping[str, object] | Sequence[str] | str | Path | None = None,
    preset: str | None = None,
    resume: str | Path | None = None,
    init_from: str | Path | None = None,
    restart: bool = False,
    debug: bool = False,
    trust: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    controllers: Sequence[Controller] = (),
    name: str | None = None,
    home: str | Path | None = None,
    store: str | Path | None = None,
) -> Run:
    """Train a policy on an env and return the run; its folder has checkpoints, config and metrics.

    Ctrl-C (or SIGTERM) ends it cleanly with a checkpoint, a second one at once. `resume` continues a run that was
    interrupted or killed at any moment, and ends with exactly the weights of an uninterrupted run.

    Args:
        env: The name of an env, or something of a module to call for one, or a class with `hotloop.compiled`; may be
            left out with `resume`.
        steps: End after this many steps. This and the next three stand for `train.steps` and so on of the config.
        episodes: End after this many finished episodes.
        minutes: End after this many minutes.
        until: End when this mean return is reached, and confirmed by an evaluation; `"none"` removes that limit.
        seed: Decides everything random; the config's, 0 if it says none, by default.
        config: Changes to the env's packaged defaults: `{"ppo.epochs": 4}`, `["ppo.epochs=4"]`, the path of a
            YAML file, or a whole `Config`.
        preset: The name of a packaged preset.
        resume: Run to continue: its path, its name or the beginning of it, or `last`. Only limits can be changed, and
            by `config` the learner: `train.learner` and what is under `torch.`
        init_from: Run or checkpoint whose weights are the initial ones, given as for `resume`.
        restart: With `resume`: begin the run again; its checkpoints are set aside (`checkpoints.old-1`).
        debug: One thread, every array checked for non-finite numbers, a record of each iteration.
        trust: Whether to execute code that a run given by `resume` or `init_from` names although it was not made here.
        progress: Whether to show progress: a bar in a notebook, otherwise lines on standard error.
        callbacks: Listeners of the run; one that returns `False` ends it.
        controllers: Controllers besides those of `control` in the config; they change env options, reward weights,
            opponents or rates between iterations. Pass the same ones with `resume`.
        name: The run's name; made up of env and date by default.
        home: Where runs are kept; `HOTLOOP_HOME` or `~/.hotloop` by default.
        store: Where runs are listed: a file, `postgresql://HOST/DATABASE`, or `none`; `HOTLOOP_STORE`, or a file in
            the home, by default.

    >>> run = train("cartpole", steps=2048, home=getfixture("tmp_path"))
    >>> run.steps >= 2048
    True
    """
    from functools import partial

    from hotloop.envs.loader import name_of
    from hotloop.training import start
    from hotloop.training.lookup import find_run
    from hotloop.training.trust import stored_config

    if env is not None and not isinstance(env, str):
        env = name_of(env)
    limits = {"steps": steps, "episodes": episodes, "minutes": minutes, "until": until}
    limits = {key: value for key, value in limits.items() if value is not None}
    if until == "none":
        limits["until"] = None
    if progress:
        from hotloop.training.display import default_view

        callbacks = [*callbacks, default_view()]
    if resume is not None:
        learner = _learner_changes(config)
        _refuse_with_resume(
            resume, seed=seed, config=None if learner else config, preset=preset, init_from=init_from, name=name
        )
        started = partial(
            start.resume,
            resume,
            env=env,
            limits=limits,
            learner=learner,
            home=home,
            store=store,
            debug=debug,
            callbacks=callbacks,
            controllers=controllers,
            trust=trust,
            restart=restart,
        )
        resolved, own = stored_config(find_run(resume, home), trust=trust), None
    else:
        if restart:
            raise TrainingError("restart needs a run to resume: give resume, too")
        if env is None:
            raise TrainingError("no env: name one, or a run to resume")
        if seed is not None:
            limits["seed"] = seed
        resolved = own = resolve(env, limits, config, preset)
        started = partial(
            start.begin,
            resolved,
            init_from=init_from,
            name=name,
            home=home,
            store=store,
            debug=debug,
            callbacks=callbacks,
            controllers=controllers,
            trust=trust,
        )
    if resolved.train.algorithm != "ppo" and resolved.tabular.runtime == "mpi":
        from hotloop.tabular.mpi import together

        return together(own, lambda: started().run())
    return started().run()


def resolve(
    env: str,
    train: Mapping[str, Any],
    config: Config | Mapping[str, object] | Sequence[str] | str | Path | None,
    preset: str | None,
) -> Config:
    """The config that these arguments of `train` stand for; `train` holds keys of that part."""
    from hotloop.config import Config, load_config
    from hotloop.config.loader import with_changes

    own = {f"train.{key}": value for key, value in train.items()}
    match config:
        case Config():
            from hotloop.envs.loader import load_env

            if preset is not None or config.env.name != load_env(env):
                raise TrainingError("a whole config allows no preset and no other env")
            return with_changes(config, {"train": train})
        case str() | Path():
            return load_config(env, file=Path(config), preset=preset, overrides=own)
        case None:
            return load_config(env, preset=preset, overrides=own)
        case _:
            from hotloop.config.loader import parse_overrides

            parts = parse_overrides(config)
            parts.setdefault("train", {}).update(train)
            return load_config(env, preset=preset, overrides=parts)


def _learner_changes(config: object) -> dict[str, dict[str, Any]]:
    """Return the changes to the learner and its hardware, which a resumed run allows; nothing if others are given."""
    from hotloop.config.loader import parse_overrides

    if config is None or not isinstance(config, Mapping | list | tuple):
        return {}
    parts = parse_overrides(config)
    asked = {f"{part}.{key}" for part, keys in parts.items() for key in keys}
    allowed = all(key == "train.learner" or key.startswith("torch.") for key in asked)
    return parts if allowed else {}


def _refuse_with_resume(run: str | Path, **given: object) -> None:
    for what, value in given.items():
        if value is None:
            continue
        changed = what
        if what == "config" and isinstance(value, Mapping | list | tuple):
            from hotloop.config.loader import parse_overrides

            changed = ", ".join(f"{part}.{key}" for part, keys in parse_overrides(value).items() for key in keys)
        raise TrainingError(
            f"{changed} cannot be given with resume: a resumed run keeps all settings but its limits. For other "
            f"settings begin a new run from its weights: --init-from {run} instead of --resume (init_from in Python)"
        )
