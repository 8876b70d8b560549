"""`hotloop train`: train a policy on an env, with live progress, as a run that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hotloop.cli.output import UserError, count
from hotloop.text import parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.config import Config
    from hotloop.training.runs import Run


def train(
    context: typer.Context,
    env: Annotated[
        str | None, typer.Argument(metavar="ENV", help="Env to train on; 'hotloop envs' lists them.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides of the env's config.")
    ] = None,
    steps: Annotated[int | None, typer.Option(parser=count, metavar="N", help="Stop after N steps (1e6, 2M).")] = None,
    episodes: Annotated[int | None, typer.Option(parser=count, metavar="N", help="Stop after N episodes.")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="N", help="Stop after N minutes.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="RETURN", help="Stop at this mean return; 'none': at other limits only.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Random seed of the whole run.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="One run per seed, such as 0-4 or 1,5,7, and a summary.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="YAML file with any part of a config.")] = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help="baseline, fast or ultra-fast.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Resume this run, exactly.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="With --resume: begin again; old checkpoints are set aside.")
    ] = False,
    init_from: Annotated[str | None, typer.Option(metavar="RUN", help="Start from this run's weights.")] = None,
    best_of: Annotated[str | None, typer.Option(metavar="SWEEP", help="Take the best settings of a sweep.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="One thread, all arrays checked, all details.")] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run (default: env and date).")] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Store of runs: a file, postgresql://..., or none.")
    ] = None,
    worker_python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Python interpreter for worker processes.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Allow code named by a run made elsewhere.")] = False,
    queue: Annotated[bool, typer.Option("--queue", help="Queue it as a job for 'hotloop jobs work'.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Open a dashboard beside the run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Train a policy on an env with PPO, or a table with Q-learning.

    \b
      hotloop train cartpole                until solved, packaged settings
      hotloop train pendulum --until -150 --seed 3
      hotloop train cartpole ppo.epochs=2 runner.num_envs=512 --steps 1M
      hotloop train cartpole --preset ultra-fast
      hotloop train tictactoe train.algorithm=q-learning
      hotloop train gymnasium:CartPole-v1 --steps 200k   any Python env
      hotloop train cartpole --seeds 0-4    five runs, mean and interval
      hotloop train --resume last           continue a run, exactly
      hotloop train cartpole --best-of last the winner of a sweep
      hotloop train cartpole --json | tail -1   the result, for scripts

    Keys are the config's dotted names; env.KEY sets an option of the env.
    Ctrl-C writes a checkpoint and exits with code 130; a second one exits
    at once. A RUN is a path, a name, the beginning of one, or 'last'.
    """
    if queue:
        from hotloop.cli.jobs_submit import queue_training

        queue_training(context.params)
        return
    if env is not None and "=" in env:
        overrides = [env, *(overrides or [])]
        env = None
    if env is not None:
        _check_env(env)
    elif resume is None:
        raise UserError("nothing to train: name an env ('hotloop envs' lists them), or a run with --resume")

    from hotloop.cli.serve import run_beside
    from hotloop.cli.signals import INTERRUPTED, SecondSignalEnds
    from hotloop.cli.streams import make_output_optional
    from hotloop.cli.view import choose_view
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.training import train as start
    from hotloop.training.display import launched_rank

    if best_of is not None:
        if env is None or resume is not None or preset is not None:
            raise UserError("--best-of starts a new run: name its env, and leave out --resume and --preset")
        best = best_settings(best_of, env)
    else:
        best = {}
    if worker_python is not None:
        overrides = [*(overrides or []), f"runner.worker_python={worker_python}"]
    limits: dict[str, Any] = {"steps": steps, "episodes": episodes, "minutes": minutes, "until": parse_goal(until)}
    make_output_optional()
    if seeds is not None and (resume is not None or seed is not None):
        raise UserError("--seeds starts new runs: leave out --seed and --resume")

    def start_new(seed: int | None, name: str | None) -> Run:
        assert env is not None
        with choose_view(as_json=as_json, detailed=debug, is_last=seeds is None) as view:
            return start(
                env,
                config=resolve(env, best, overrides or [], config, preset, {**limits, "seed": seed}),
                init_from=init_from,
                restart=restart,
                trust=trust,
                debug=debug,
                name=name,
                store=store,
                callbacks=[view],
                progress=False,
            )

    def resume_run(run: str) -> Run:
        with choose_view(as_json=as_json, detailed=debug) as view:
            return start(
                env,
                **limits,
                seed=seed,
                config=config or overrides or None,
                preset=preset,
                resume=run,
                init_from=init_from,
                restart=restart,
                debug=debug,
                name=name,
                store=store,
                trust=trust,
                callbacks=[view],
                progress=False,
            )

    with run_beside(store, wanted=serve) as server:
        try:
            with SecondSignalEnds():
                if resume is not None:
                    runs = [resume_run(resume)]
                elif seeds is not None:
                    from hotloop.cli.seeds import parse_seeds, train_seeds

                    runs = train_seeds(
                        parse_seeds(seeds),
                        lambda seed: start_new(seed, None if name is None else f"{name}-{seed}"),
                        as_json=as_json,
                    )
                else:
                    runs = [start_new(seed, name)]
        except (ConfigError, TrainingError) as error:
            raise UserError(str(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        if runs[-1].ended == "interrupted":
            raise typer.Exit(INTERRUPTED)
        missed = [run for run in runs if run.config.train.until is not None and not run.solved]
        if missed and not launched_rank():
            _report_missed_goal(missed, len(runs))
        server.wait()


def parse_goal(text: str | None) -> float | Literal["none"] | None:
    """Parse a mean return, or `none`.

    >>> parse_goal("-200"), parse_goal("none")
    (-200, 'none')
    """
    if text is None or text.lower() == "none":
        return None if text is None else "none"
    value = parse_number(text)
    if isinstance(value, str):
        raise UserError(f"--until is {text!r}: expected a mean return, or none")
    return value


def _check_env(env: str) -> None:
    from hotloop.envs.loader import load_env, whole_name
    from hotloop.envs.registry import is_native, native_name

    if not is_native(whole_name(env)):
        return
    try:
        native_name(load_env(env))
    except ValueError as error:
        raise UserError(str(error)) from None


def best_settings(name: str, env: str) -> dict[str, Any]:
    """Return the overrides with which a sweep's winner was trained."""
    from hotloop.cli.sweep import opened
    from hotloop.envs.loader import whole_name
    from hotloop.errors import TrainingError

    sweep = opened(name)
    if sweep.definition.env != whole_name(env):
        raise UserError(f"the sweep {sweep.name!r} is for {sweep.definition.env}, not for {env}")
    try:
        return sweep.overrides()
    except TrainingError as error:
        raise UserError(str(error)) from None


def resolve(
    env: str,
    best: dict[str, Any],
    overrides: list[str],
    file: Path | None,
    preset: str | None,
    options: dict[str, Any],
) -> Config:
    """Build the config; command-line options override everything else, a sweep's settings only the packaged ones."""
    from hotloop.config import load_config
    from hotloop.config.loader import parse_overrides, read_yaml

    parts = parse_overrides(best, env=env)
    for layer in ({} if file is None or not best else read_yaml(file), parse_overrides(overrides, env=env)):
        for part, values in layer.items():
            parts.setdefault(part, {}).update(values)
    given = {key: value for key, value in options.items() if value is not None}
    if given.get("until") == "none":
        given["until"] = None
    if given:
        parts.setdefault("train", {}).update(given)
    return load_config(env, file=None if best else file, preset=preset, overrides=parts)


def _report_missed_goal(missed: Sequence[Run], count: int) -> None:
    from hotloop.cli.output import tell

    run, which = missed[0], "" if count == 1 else f" in {len(missed)} of {count} runs"
    tell(
        f"The limit of {run.ended} was reached before a return of {run.config.train.until:g} was confirmed{which}; "
        f"continue with a higher limit: hotloop train --resume {run.name} --{run.ended} N"
    )
