"""`hotloop train`: trains a policy on an env, shows how it goes, and leaves a run that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.training.runs import Run


def train(
    env: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="What to train on; 'hotloop envs' lists them.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What differs from the env's config.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="End after this many steps.")] = None,
    episodes: Annotated[int | None, typer.Option(help="End after this many finished episodes.")] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this many minutes.")] = None,
    until: Annotated[float | None, typer.Option(metavar="RETURN", help="End when this mean return is reached.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A YAML file with any part of a config.")] = None,
    preset: Annotated[str | None, typer.Option(help="baseline, fast or ultra-fast.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with this run, exactly.")] = None,
    init_from: Annotated[str | None, typer.Option(metavar="RUN", help="Begin with this run's weights.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="One thread, all arrays checked, every detail.")] = False,
    name: Annotated[str | None, typer.Option(help="The run's name; made of env and date if not said.")] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Where runs are listed: a file, postgresql://..., or none.")
    ] = None,
    worker_python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The interpreter that Python envs run in.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import code that a run made elsewhere names.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Train a policy on an env with PPO, or a table with Q-learning.

    \b
      hotloop train cartpole                        until solved, with settings that solve it
      hotloop train pendulum --until -150 --seed 3
      hotloop train cartpole ppo.epochs=2 runner.num_envs=512 --steps 1000000
      hotloop train cartpole --preset ultra-fast
      hotloop train tictactoe train.algorithm=q-learning
      hotloop train gymnasium:CartPole-v1 --steps 200000   any Python env
      hotloop train --resume last                   go on where a run was ended or killed
      hotloop train cartpole --json | tail -1       what came of it

    Keys are the config's dotted names; env.KEY sets an option of the env.
    Ctrl-C writes a checkpoint and ends with exit code 130; a second one ends
    at once. A RUN is a path, a name, the beginning of one, or 'last'.
    """
    if env is not None and "=" in env:
        overrides = [env, *(overrides or [])]
        env = None
    if env is not None:
        _check_env(env)
    elif resume is None:
        raise UserError("train what? Name an env ('hotloop envs' lists them), or a run with --resume")

    from hotloop.cli import run_lookup
    from hotloop.cli.signals import INTERRUPTED, SecondSignalEnds
    from hotloop.cli.view import choose_view, launched_rank
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.training import train as start

    if worker_python is not None:
        overrides = [*(overrides or []), f"runner.worker_python={worker_python}"]
    limits: dict[str, Any] = {"steps": steps, "episodes": episodes, "minutes": minutes, "until": until}
    view = choose_view(as_json=as_json, detailed=debug)
    try:
        with SecondSignalEnds(), view:
            if resume is not None:
                run = start(
                    env,
                    **limits,
                    seed=seed,
                    config=config or overrides or None,
                    preset=preset,
                    resume=run_lookup.find(resume),
                    init_from=init_from,
                    debug=debug,
                    name=name,
                    store=store,
                    trust=trust,
                    callbacks=[view],
                )
            else:
                assert env is not None
                run = start(
                    env,
                    config=_resolve(env, overrides or [], config, preset, {**limits, "seed": seed}),
                    init_from=None if init_from is None else run_lookup.find(init_from),
                    debug=debug,
                    name=name,
                    store=store,
                    callbacks=[view],
                )
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if run.ended == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if run.config.train.until is not None and not run.solved and not launched_rank():
        _say_what_was_missed(run)


def _check_env(env: str) -> None:
    from hotloop.envs.loader import load_env, whole_name
    from hotloop.envs.registry import is_native, native_name

    if not is_native(whole_name(env)):
        return
    try:
        native_name(load_env(env))
    except ValueError as error:
        raise UserError(str(error)) from None


def _resolve(env: str, overrides: list[str], file: Path | None, preset: str | None, options: dict[str, Any]) -> Config:
    """The config; what was said by option comes last."""
    from hotloop.config import load_config
    from hotloop.config.loader import parse_overrides

    parts = parse_overrides(overrides, env=env)
    said = {key: value for key, value in options.items() if value is not None}
    if said:
        parts.setdefault("train", {}).update(said)
    return load_config(env, file=file, preset=preset, overrides=parts)


def _say_what_was_missed(run: Run) -> None:
    from hotloop.cli.output import tell

    tell(
        f"It ended by its limit of {run.ended} before a return of {run.config.train.until:g} was confirmed; "
        f"'hotloop train --resume {run.name}' with a higher limit goes on."
    )
