"""`hotloop eval`: how well a run's policy does, on fresh episodes."""

from __future__ import annotations

from typing import Annotated

import typer

from hotloop.cli.output import UserError, emit


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a name, the beginning of one, or 'last'.")],
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 100,
    seed: Annotated[int, typer.Option(help="Which episodes; training and its evaluations use others.")] = 0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Draw actions, as in training.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Play fresh episodes with a run's best policy, and give the mean return.

    \b
      hotloop eval last
      hotloop eval cartpole-20 --episodes 1000 --json | jq .mean
      hotloop eval runs/mine/checkpoints/000000131072

    The interval has the true mean inside it 95 times of 100.
    """
    if episodes < 1:
        raise UserError(f"--episodes is {episodes}: expected 1 or more")
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed is {seed}: expected 0 to 2**64 - 1")

    from hotloop.cli import naming
    from hotloop.policies.agent import load
    from hotloop.text import measured
    from hotloop.training import TrainingError
    from hotloop.training import evaluate as play
    from hotloop.training.recorder import plain

    path = naming.find(run)
    try:
        agent = load(path)
    except TrainingError as error:
        raise UserError(str(error)) from None
    found = play(agent.learner, agent.env, agent.options, episodes=episodes, seed=seed, deterministic=not stochastic)
    if as_json:
        emit("end", run=path.name, path=str(agent.path), env=agent.env, steps=agent.steps, **plain(vars(found)))
        return
    print(
        f"{agent.env} at step {agent.steps}: mean return {measured(found.mean)} over {found.episodes} episodes "
        f"(95 %: {measured(found.low)} to {measured(found.high)})"
    )
    for name, value in found.metrics.items():
        print(f"{name} {measured(value)}")
