"""`hotloop sweep`: search for the best settings of an env, repeatably; the default command of the group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hotloop.cli.output import UserError, count, tell

if TYPE_CHECKING:
    from hotloop.sweeps.sweep import Sweep

RUN = "run"


class SweepGroup(TyperGroup):
    """A group whose default command is `run`: `hotloop sweep cartpole` needs no subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command unless another one, or help, is asked for."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


app = typer.Typer(cls=SweepGroup, no_args_is_help=True)

SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="A path, a name, the beginning of one, or 'last'.")]
TrustOption = Annotated[bool, typer.Option("--trust", help="Allow code named by a sweep made elsewhere.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@app.callback()
def _sweep() -> None:
    """Search for the best settings of an env; the same trials every time.

    \b
      hotloop sweep cartpole                       a packaged space
      hotloop sweep cartpole 'ppo.learning_rate=log(1e-4,1e-2)' \\
                    'ppo.epochs=int(1,8)' --trials 200
      hotloop sweep --config my-sweep.yaml         space and settings in a file
      hotloop sweep --resume last                  continue, exactly
      hotloop sweep best last                      the confirmed winner
      hotloop train cartpole --best-of last        train with its settings

    'hotloop sweep run --help' lists the options.
    """


@app.command(RUN)
def run(
    env: Annotated[str | None, typer.Argument(metavar="ENV", help="Env; 'hotloop envs' lists them.")] = None,
    entries: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Distributions of the space, fixed settings, sweep.KEY settings."),
    ] = None,
    trials: Annotated[int | None, typer.Option(parser=count, metavar="N", help="Number of trials.")] = None,
    sampler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="random, sobol, grid, tpe, cma-es, gp, nsga-ii, pbt, module:Class."),
    ] = None,
    steps: Annotated[int | None, typer.Option(parser=count, metavar="N", help="Steps of each trial.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Key of all draws and training seeds.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Sweep file (YAML).")] = None,
    slots: Annotated[int | None, typer.Option(metavar="N", help="Trials at once (default: one per core).")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the sweep (default: env and date).")] = None,
    resume: Annotated[str | None, typer.Option(metavar="SWEEP", help="Resume this sweep, exactly.")] = None,
    prior: Annotated[
        str | None, typer.Option("--from", metavar="SWEEP", help="Let the sampler know this sweep's trials.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Store of runs: a file, postgresql://..., or none.")
    ] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a sweep: sample settings, train, prune, confirm the best.

    \b
      hotloop sweep cartpole
      hotloop sweep cartpole 'ppo.learning_rate=log(1e-4,1e-2)' --trials 50
      hotloop sweep pendulum sweep.prune=median sweep.confirm.seeds=8
      hotloop sweep cartpole --sampler pbt 'ppo.learning_rate=log(1e-3,1e-2)'

    Distributions: real(a,b) log(a,b) log1m(a,b) int(a,b) logint(a,b)
    pow2(a,b) choice(x,y,...). Trials depend on the sweep's definition and
    seed only, not on slots, speed or interruptions. Ctrl-C ends with code
    130; --resume goes on.
    """
    from hotloop.cli.signals import INTERRUPTED, SecondSignalEnds
    from hotloop.cli.sweep_view import choose_view
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.sweeps.api import finish, open_sweep
    from hotloop.training.interrupts import Interrupts

    if env is not None and ("=" in env or "(" in env):
        entries, env = [env, *(entries or [])], None
    if env is None and config is None and resume is None:
        raise UserError("nothing to search: name an env ('hotloop envs' lists them), a file, or a sweep with --resume")
    options = {"trials": trials, "sampler": sampler, "seed": seed}
    try:
        with Interrupts() as interrupts, SecondSignalEnds(_STOPPING):
            found = open_sweep(
                env,
                space=entries or [],
                config=config,
                fixed={} if steps is None else {"train.steps": steps},
                options={key: value for key, value in options.items() if value is not None},
                name=name,
                resume=resume,
                prior=prior,
                slots=slots,
                trust=trust,
                note=tell,
            )
            with choose_view(as_json=as_json) as view:
                is_done = finish(found, slots, view, interrupts, store)
                view.end(found, is_done)
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        is_done = False
    if not is_done:
        raise typer.Exit(INTERRUPTED)


_STOPPING = "Stopping; 'hotloop sweep --resume last' goes on. Press Ctrl-C again to stop at once."


def opened(name: str, *, trust: bool = False) -> Sweep:
    """Return a sweep; its errors become one-line messages."""
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.sweeps.journal import find_sweep
    from hotloop.sweeps.sweep import Sweep

    try:
        return Sweep(find_sweep(name), trust=trust)
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
