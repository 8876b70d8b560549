"""`hotloop eval`: how well a policy does, on fresh episodes; exactly for a table whose task can be enumerated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError, count, emit, tell

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.policies.evaluation import Evaluation
    from hotloop.policies.policy import Policy
    from hotloop.training.opponents import Opponents as RunOpponents


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a name, the beginning of one, or 'last'.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Options of the env (env.KEY) and opponents (opponents.KEY)."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="Number of episodes (default: 100).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which episodes; training and its evaluations use others.")] = 0,
    at_least: Annotated[
        float | None, typer.Option(metavar="RETURN", help="End with exit code 1 if the mean is lower.")
    ] = None,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Draw actions, as in training.")] = False,
    keep: Annotated[bool, typer.Option(help="Record the result with the run.")] = True,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the run is listed; else HOTLOOP_STORE.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import code that a run made elsewhere names.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Play fresh episodes with a run's best policy, and give the mean return.

    \b
      hotloop eval last
      hotloop eval cartpole-20 --episodes 1000 --json | jq .mean
      hotloop eval last env.length=1.0
      hotloop eval last opponents.policies=[first] opponents.seats=[1]
      hotloop eval runs/mine/checkpoints/131072

    The interval has the true mean inside it 95 times of 100. The result is
    recorded with the run; 'hotloop runs show' lists it. A task that is judged
    under several sets of options (cage2) gets a table: that many episodes of
    each, and their sum, unless options are named.

    What a table earns in a task that can be enumerated (tictactoe, frozen-lake,
    cliff-walking, taxi) is worked out exactly, with the share of states in which
    it acts optimally; --episodes or --stochastic play episodes there too.
    """
    from hotloop.config.models import MOST_EPISODES

    exactly = episodes is None and not stochastic
    episodes = 100 if episodes is None else episodes
    if not 1 <= episodes <= MOST_EPISODES:
        raise UserError(f"--episodes is {episodes}: expected 1 to {MOST_EPISODES}")
    if not 0 <= seed < 2**64:
        raise UserError(f"--seed is {seed}: expected 0 to 2**64 - 1")

    from hotloop.cli import run_lookup
    from hotloop.cli.progress import PartsProgress
    from hotloop.cli.suite_table import print_suite_result
    from hotloop.config.loader import build
    from hotloop.envs.loader import load_env
    from hotloop.envs.registry import is_native
    from hotloop.envs.suites import suite_of
    from hotloop.episodes.episode import fresh_seed
    from hotloop.errors import ConfigError, TrainingError
    from hotloop.loading import checkpoint_policy
    from hotloop.text import plain
    from hotloop.training import evaluate as play
    from hotloop.training.checkpoint import open_policy
    from hotloop.training.evaluation import LONGEST, Opponents
    from hotloop.training.opponents import find_opponents, opponents_of
    from hotloop.training.recorded_evaluation import evaluate_table
    from hotloop.training.suite_evaluation import cell_seed, evaluate_suite
    from hotloop.training.trust import stored_config

    path = run_lookup.find(run)
    try:
        agent = checkpoint_policy(open_policy(path, trust=trust, warn=tell))
        load_env(agent.env)
        run_folder = _run_folder(agent.path)
        parts = _changed_parts(changes or [])
        if "opponents" in parts:
            env = {"name": agent.env, **agent.options}
            settings = build({"env": env, "train": {"steps": 1}, "opponents": parts["opponents"]}).opponents
            against = find_opponents(settings, agent.spec, home=None, trust=trust, warn=tell)
        else:
            against = None if run_folder is None else opponents_of(run_folder, agent.spec, trust=trust)
        own = {} if run_folder is None else stored_config(run_folder, trust=trust).train.evaluate_env
    except (ConfigError, TrainingError) as error:
        raise UserError(str(error)) from None
    options = {**agent.options, **own, **_checked_options(agent, dict(parts.get("env", {})))}
    key = fresh_seed(seed)
    how = {"seed": seed, "key": key, "deterministic": not stochastic, "options": options}
    how |= {"opponents": parts["opponents"]} if "opponents" in parts else {}
    folder = _run_folder(agent.path) if keep else None
    if (suite := suite_of(agent.env)) is not None and not changes:
        judged = evaluate_suite(agent, suite, episodes=episodes, seed=key, deterministic=not stochastic)
        for cell, each in judged.cells:
            _keep(
                folder,
                store,
                agent.steps,
                each,
                {**how, "key": cell_seed(key, cell), "options": {**options, **cell.options}},
            )
        _require(print_suite_result(agent, judged, path.name, as_json), at_least)
        return
    if exactly and (known := evaluate_table(agent, options)) is not None:
        found = known
    elif is_native(agent.env):
        with PartsProgress(1) as bar:
            found = play(
                agent.learner,
                agent.env,
                options,
                episodes=episodes,
                seed=key,
                deterministic=not stochastic,
                action_repeat=agent.action_repeat,
                opponents=None if against is None else Opponents(against.players(), against.evaluation_table),
                progress=bar.episodes,
            )
    else:
        found = _play_python(agent, options, episodes, key, against, deterministic=not stochastic, trust=trust)
    _keep(folder, store, agent.steps, found, how)
    if not found.exact and found.length_max >= LONGEST:
        tell(f"Episodes that were not over after {LONGEST} steps were stopped there, and count as they stood.")
    if as_json:
        emit("end", run=path.name, path=str(agent.path), env=agent.env, steps=agent.steps, **plain(vars(found)), **how)
    else:
        for line in _format(agent, found, [*(changes or []), *(["drawn actions"] if stochastic else [])]):
            print(line)
    _require(found.mean, at_least)


def _require(mean: float, at_least: float | None) -> None:
    if at_least is not None and not mean >= at_least:
        tell(f"The mean is below {at_least:g}.")
        raise typer.Exit(1)


def _changed_parts(changes: list[str]) -> dict[str, dict[str, Any]]:
    """Return options of the env and opponents, by section of the config."""
    from hotloop.config.loader import parse_overrides

    parts = parse_overrides(changes)
    if other := [part for part in parts if part not in ("env", "opponents")]:
        raise UserError(
            f"{other[0]}... cannot be changed here: only options of the env, such as env.KEY=VALUE, and "
            "opponents.policies and opponents.seats"
        )
    if unknown := set(parts.get("opponents", ())) - {"policies", "seats"}:
        raise UserError(f"opponents.{min(unknown)} cannot be changed here: only opponents.policies and opponents.seats")
    return parts


def _checked_options(agent: Policy, changed: dict[str, Any]) -> dict[str, Any]:
    """Return the options to change; a native env's are checked, and refused if the policy would not fit."""
    from hotloop.config.loader import build
    from hotloop.envs.registry import is_native
    from hotloop.errors import ConfigError

    if not changed or not is_native(agent.env):
        return changed
    try:
        build({"env": {"name": agent.env, **agent.options, **changed}, "train": {"steps": 1}})
    except ConfigError as error:
        raise UserError(str(error)) from None
    from hotloop.envs.spec import native_spec

    before, after = (native_spec(agent.env, options) for options in (agent.options, {**agent.options, **changed}))
    for key in ("observation", "action"):
        if getattr(before, key) != getattr(after, key):
            shown = " ".join(f"env.{name}={value}" for name, value in changed.items())
            raise UserError(f"with {shown} the {key}s of {agent.env} are others than the policy knows")
    return changed


def _run_folder(checkpoint: Path) -> Path | None:
    """The run that a checkpoint belongs to, if it lies in one."""
    run = checkpoint.parent.parent
    return run if (run / "config.yaml").is_file() else None


def _keep(run: Path | None, store: str | None, steps: int, found: Evaluation, how: dict[str, Any]) -> None:
    """Notes the result in the run's journal, and brings it to the store that lists the run."""
    if run is None:
        return
    from hotloop.errors import StoreError
    from hotloop.tracking import journal
    from hotloop.tracking.database import Database
    from hotloop.tracking.store_sync import sync
    from hotloop.training.runs import find_store, home_of

    first = journal.find_start(run / journal.NAME)
    if first is None:
        return
    try:
        journal.append_one(run / journal.NAME, {"event": "eval", "steps": steps, "evaluation": vars(found), "how": how})
    except OSError as error:
        tell(f"The result could not be recorded with the run: {error.strerror or error}.")
        return
    place = find_store(store, home_of(run))
    if place is None or not (first.get("store") is None or place.is_of(first)):
        return
    try:
        with Database(place) as database:
            sync(database, run)
    except StoreError as error:
        tell(f"The result is recorded in the run's folder only: {error}")


def _play_python(
    agent: Policy,
    options: dict[str, Any],
    episodes: int,
    seed: int,
    against: RunOpponents | None,
    *,
    deterministic: bool,
    trust: bool,
) -> Evaluation:
    """Play Python envs, in processes as the run's config has them."""
    from hotloop.cli.progress import PartsProgress
    from hotloop.config.models import EnvConfig
    from hotloop.errors import ConfigError, EnvError, TrainingError
    from hotloop.training.evaluation import check_fit, evaluate_on
    from hotloop.training.sources import make_runner
    from hotloop.training.trust import stored_config

    folder = _run_folder(agent.path)
    if folder is None:
        raise UserError(f"{agent.path} lies in no run: how its Python envs are made is not known")
    try:
        config = stored_config(folder, trust=trust)
        train = config.train.model_copy(update={"evaluate_env": {}})
        config = config.model_copy(update={"env": EnvConfig(name=agent.env, **options), "train": train})
        count = min(config.runner.num_envs, episodes)
        with make_runner(config, count, evaluates=True) as runner:
            check_fit(agent.spec, runner.env_spec, config.env.name)
            if against is not None:
                runner.set_policies(against.evaluation_table(range(runner.env_count)))
            with PartsProgress(1) as bar:
                return evaluate_on(
                    agent.learner,
                    runner,
                    opponents=() if against is None else against.players(),
                    episodes=episodes,
                    seed=seed,
                    deterministic=deterministic,
                    progress=bar.episodes,
                )
    except (ConfigError, EnvError, TrainingError) as error:
        raise UserError(str(error)) from None


def _format(agent: Policy, found: Evaluation, special: list[str]) -> list[str]:
    from hotloop.text import measured

    how = f" ({', '.join(special)})" if special else ""
    what = f"{agent.env}{how} at step {agent.steps}"
    metrics = [f"{name} {measured(value)}" for name, value in found.metrics.items()]
    if found.exact:
        return [
            f"{what}: expected return {found.mean:.5f} exactly, worked out by enumeration",
            f"length: mean {measured(found.length_mean)}",
            *metrics,
        ]
    return [
        f"{what}: mean return {measured(found.mean)} over {found.episodes} episodes "
        f"(95 %: {measured(found.low)} to {measured(found.high)})",
        f"returns: deviation {measured(found.std)}, lowest {measured(found.return_min)}, "
        f"median {measured(found.return_median)}, highest {measured(found.return_max)}",
        f"lengths: mean {measured(found.length_mean)}, from {measured(found.length_min)} to "
        f"{measured(found.length_max)}",
        *metrics,
    ]
