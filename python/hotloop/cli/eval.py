"""`hotloop eval`: how well a run's policy does, on fresh episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hotloop.cli.output import UserError, emit, tell

if TYPE_CHECKING:
    from hotloop.policies.agent import Agent
    from hotloop.training.evaluation import Evaluation


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a name, the beginning of one, or 'last'.")],
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 100,
    seed: Annotated[int, typer.Option(help="Which episodes; training and its evaluations use others.")] = 0,
    at_least: Annotated[
        float | None, typer.Option(metavar="RETURN", help="End with exit code 1 if the mean is lower.")
    ] = None,
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
    from hotloop.episodes.episode import fresh_seed
    from hotloop.policies.agent import load
    from hotloop.text import plain
    from hotloop.training import TrainingError
    from hotloop.training import evaluate as play

    path = naming.find(run)
    try:
        agent = load(path)
    except TrainingError as error:
        raise UserError(str(error)) from None
    found = play(
        agent.learner,
        agent.env,
        agent.options,
        episodes=episodes,
        seed=fresh_seed(seed),
        deterministic=not stochastic,
        action_repeat=agent.action_repeat,
    )
    if as_json:
        emit("end", run=path.name, path=str(agent.path), env=agent.env, steps=agent.steps, **plain(vars(found)))
    else:
        for line in _in_words(agent, found):
            print(line)
    if at_least is not None and not found.mean >= at_least:
        tell(f"The mean is below {at_least:g}.")
        raise typer.Exit(1)


def _in_words(agent: Agent, found: Evaluation) -> list[str]:
    from hotloop.text import measured

    return [
        f"{agent.env} at step {agent.steps}: mean return {measured(found.mean)} over {found.episodes} episodes "
        f"(95 %: {measured(found.low)} to {measured(found.high)})",
        *(f"{name} {measured(value)}" for name, value in found.metrics.items()),
    ]
