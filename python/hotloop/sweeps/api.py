"""`hotloop.sweep`: define a sweep from arguments, or find one, and run it to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from hotloop.sweeps.definition import Definition
    from hotloop.sweeps.samplers import Observation
    from hotloop.sweeps.sweep import Listener, Sweep
    from hotloop.training.interrupts import Interrupts


def sweep(
    env: str | Callable[..., Any] | None = None,
    space: Mapping[str, Any] | Sequence[str] = (),
    *,
    trials: int | None = None,
    sampler: str | None = None,
    steps: int | None = None,
    seed: int | None = None,
    config: Mapping[str, object] | Sequence[str] | str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    slots: int | None = None,
    name: str | None = None,
    resume: str | Path | None = None,
    prior: str | Path | None = None,
    home: str | Path | None = None,
    store: str | Path | None = None,
    trust: bool = False,
    progress: bool = True,
) -> Sweep:
    """Search for the best settings of an env, and return the sweep with its trials and its confirmed winner.

    A sweep is a function of its definition: slots, speed and interruptions do not change it. One that was interrupted
    or killed goes on with `resume`, and ends with the same trials.

    Args:
        env: The name of an env, or something of a module to call for one.
        space: Distributions by config key, such as `{"ppo.learning_rate": "log(1e-4, 1e-2)"}`; a packaged space by
            default.
        trials: Number of trials.
        sampler: `random`, `sobol`, `grid`, `tpe`, `cma-es`, `gp`, `nsga-ii`, `pbt`, or `module:Class`.
        steps: Steps of each trial (`train.steps`).
        seed: Key of all draws and training seeds.
        config: Fixed settings by config key, or the path of a sweep file.
        options: Further settings of the sweep, such as `{"prune": "halving", "confirm": {"top": 3}}`.
        slots: Trials at once; by default one per core.
        name: The sweep's name; made up of env and date by default.
        resume: Sweep to go on with: its path, its name or the beginning of it, or `last`.
        prior: Sweep whose trials the sampler knows from the start.
        home: Where sweeps and runs are kept; `HOTLOOP_HOME` or `~/.hotloop` by default.
        store: Where sweeps and runs are listed, as for `train`.
        trust: Whether to execute code that a sweep given by `resume` names although it was not made here.
        progress: Whether to print progress.

    >>> found = sweep("cartpole", {"ppo.learning_rate": "log(1e-3, 1e-2)"}, trials=3, sampler="sobol", steps=2048,
    ...               options={"confirm": {"top": 1, "seeds": 2}, "keep": 0},
    ...               home=getfixture("tmp_path"), progress=False)
    >>> len(found.trials)
    3
    """
    from hotloop.sweeps.display import PlainLines, Silent
    from hotloop.training.interrupts import Interrupts

    given = {"trials": trials, "sampler": sampler, "seed": seed}
    found = open_sweep(
        env,
        space=space,
        config=config,
        fixed={} if steps is None else {"train.steps": steps},
        options={**(options or {}), **{key: value for key, value in given.items() if value is not None}},
        name=name,
        resume=resume,
        prior=prior,
        home=home,
        slots=slots,
        trust=trust,
    )
    with Interrupts() as interrupts:
        if not finish(found, slots, PlainLines() if progress else Silent(), interrupts, store):
            raise KeyboardInterrupt
    return found


def open_sweep(
    env: str | Callable[..., Any] | None,
    *,
    space: Mapping[str, Any] | Sequence[str] = (),
    config: Mapping[str, object] | Sequence[str] | str | Path | None = None,
    fixed: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    resume: str | Path | None = None,
    prior: str | Path | None = None,
    home: str | Path | None = None,
    slots: int | None = None,
    trust: bool = False,
    note: Callable[[str], object] = lambda text: None,
) -> Sweep:
    """Return a new sweep in a folder of its own, or an existing one; a definition given with `resume` must be its."""
    from hotloop.envs.loader import load_env, name_of
    from hotloop.sweeps.definition import define, entry_pairs
    from hotloop.sweeps.journal import SweepFolder, find_sweep
    from hotloop.sweeps.sweep import Sweep

    if env is not None and not isinstance(env, str):
        env = name_of(env)
    entries, file = [*entry_pairs(space), *(fixed or {}).items()], None
    if isinstance(config, str | Path):
        file = Path(config)
    else:
        entries += entry_pairs(config or ())
    if resume is None:
        notes: list[str] = []
        definition = define(env, entries=entries, file=file, options=options, note=notes.append)
        _check_slots(definition, slots)
        for text in notes:
            note(text)
        known = _prior(prior, home, note)
        fitting = [each for each in known if definition.space.has(each.settings)]
        if known:
            note(f"{len(fitting)} of {len(known)} trials of {prior} lie in this space and are known from the start")
            if definition.sampler in ("random", "sobol", "grid", "pbt"):
                raise ConfigError(f"the sampler {definition.sampler} makes no use of another sweep's trials: take tpe")
        return Sweep(SweepFolder.create(definition, name=name, given_home=home, prior=fitting), trust=True)
    if prior is not None or name is not None:
        raise TrainingError("a sweep that is resumed keeps its name and its prior trials: leave them out")
    folder = find_sweep(resume, home)
    found = Sweep(folder, trust=trust)
    _check_slots(found.definition, slots)
    load_env(found.definition.env)
    if env is not None or entries or file is not None or options:
        again = define(env or found.definition.env, entries=entries, file=file, options=options)
        if again.fingerprint != found.definition.fingerprint:
            from hotloop.training.runs import differences

            changed = differences(found.definition.to_json(), again.to_json())
            raise TrainingError(
                f"the sweep {found.name!r} has another definition: {'; '.join(changed[:3])}. Resume it without one, "
                "or begin a new sweep"
            )
    return found


def _check_slots(definition: Definition, slots: int | None) -> None:
    lag = definition.sweep.lag
    if slots is not None and not 1 <= slots <= lag:
        raise ConfigError(
            f"slots is {slots}: expected 1 to {lag}, the sweep's lag, which bounds the trials that run at once"
        )


def finish(
    sweep: Sweep, slots: int | None, listener: Listener, interrupts: Interrupts, store: str | Path | None = None
) -> bool:
    """Run a sweep to its end, and bring its rows to the store; return False if it was interrupted."""
    from hotloop.sweeps.store_sync import StoreSync
    from hotloop.sweeps.sweep import home_of_sweep, run_sweep
    from hotloop.training.runs import find_store

    with StoreSync(sweep, find_store(store, home_of_sweep(sweep.path))) as sync:
        is_done = run_sweep(sweep, slots=slots, listener=listener, interrupts=interrupts, store=store)
    if sync.failure is not None:
        listener.note(f"the store does not have the newest trials: {sync.failure}")
    return is_done


def _prior(name: str | Path | None, home: str | Path | None, note: Callable[[str], object]) -> list[Observation]:
    if name is None:
        return []
    from dataclasses import replace

    from hotloop.sweeps.journal import find_sweep
    from hotloop.sweeps.sweep import Sweep

    other = Sweep(find_sweep(name, home), trust=True)
    with_cost = other.definition.sweep.has_cost
    found = [trial.observation(with_cost=with_cost) for trial in other.trials]
    return [replace(each, index=number - len(found)) for number, each in enumerate(found)]
