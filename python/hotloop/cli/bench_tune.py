"""`hotloop bench tune`: find workers, envs per worker and batch size for a Python env."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotloop.cli.bench_common import look_at_machine
from hotloop.cli.output import UserError, emit
from hotloop.envs.registry import is_native


def tune(
    env: Annotated[str, typer.Argument(metavar="ENV", help="gymnasium:ID, MODULE:FACTORY or another Python env.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="env.KEY=VALUE", help="Env options.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Config file to write.")] = Path(
        "tuned.yaml"
    ),
    seconds: Annotated[float, typer.Option(metavar="N", help="Duration of a measurement.")] = 1.0,
    max_workers: Annotated[int, typer.Option(metavar="N", help="Maximum number of worker processes.")] = 64,
    worker_python: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Python interpreter for worker processes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Find workers, envs per worker and batch size for a Python env on this machine.

    \b
      hotloop bench tune gymnasium:CartPole-v1
      hotloop bench tune mine:make_env env.level=3 -o mine.yaml
      hotloop train mine:make_env --config mine.yaml

    Envs are stepped with random legal actions, groups as they come back. One
    number is doubled at a time, as long as that gives 5 % more.
    """
    if is_native(env):
        raise UserError(f"{env} is a native env, whose threads need no tuning: 'hotloop bench envs {env}' measures it")
    if not 0 < seconds < float("inf"):
        raise UserError(f"--seconds is {seconds:g}: expected more than 0")
    if max_workers < 1:
        raise UserError(f"--max-workers is {max_workers}: expected 1 or more")

    from hotloop.bench.tune import tune as search
    from hotloop.cli.progress import PartsProgress
    from hotloop.config import load_config
    from hotloop.config.loader import parse_overrides
    from hotloop.errors import ConfigError, EnvError
    from hotloop.text import short

    try:
        options = load_config(env, overrides=parse_overrides(overrides or [])).env.options
    except ConfigError as error:
        raise UserError(str(error)) from None
    python = None if worker_python is None else str(worker_python)
    machine = look_at_machine([], as_json)
    with PartsProgress(1) as progress:
        try:
            found = search(
                env,
                options,
                cores=machine.usable_cores,
                most_workers=max_workers,
                seconds=seconds,
                worker_python=python,
                progress=lambda shape: progress.at(env, str(shape), 0.0),
            )
        except (EnvError, OSError, TypeError) as error:
            raise UserError(f"{env}: {error}") from None
        progress.finish_part(f"{env}: {len(found.trials)} shapes measured")
    settings: dict[str, object] = dict(found.best.shape.config())
    if python is not None:
        settings["worker_python"] = python
    parts: dict[str, dict[str, object]] = {"runner": settings}
    usual = load_config(env).ppo
    if found.best.shape.num_envs * usual.horizon < usual.minibatch_size:
        # So few envs fill no minibatch of the usual size.
        parts["ppo"] = {"minibatch_size": found.best.shape.num_envs * usual.horizon}
    _write(output, env, machine.usable_cores, found.reasons, parts)
    if as_json:
        rows = [
            {
                "name": str(trial.shape),
                "value": trial.rate,
                "unit": "steps/s",
                "spread": None,
                "ratio": {"best": trial.rate / found.best.rate},
                **trial.shape.config(),
            }
            for trial in found.trials
        ]
        emit("end", rows=rows, best=settings, reasons=found.reasons, config=str(output), machine=vars(machine))
        return
    for trial in found.trials:
        mark = "*" if trial is found.best else " "
        print(f"{mark} {short(trial.rate):>8} steps/s  {trial.shape}")
    print()
    for reason in found.reasons:
        print(f"- {reason}")
    print(f"\nwritten to {output}: hotloop train {env} --config {output}")


def _write(path: Path, env: str, cores: int, reasons: list[str], parts: dict[str, dict[str, object]]) -> None:
    import yaml

    from hotloop.files import output_file

    head = [f"# Found by 'hotloop bench tune {env}' on {cores} cores:", *(f"# - {reason}" for reason in reasons)]
    try:
        with output_file(path) as part:
            part.write_text("\n".join(head) + "\n" + yaml.safe_dump(parts, sort_keys=False))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
