"""Making runners: by name, and as Gymnasium's `make_vec` asks for them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from gymnasium.vector import AutoresetMode

from hotloop.envs.loader import COMPILED, load_env
from hotloop.envs.registry import is_native, native_name
from hotloop.rendering.pool import PoolRenderer
from hotloop.runners.base import Runner
from hotloop.runners.health import Limits
from hotloop.runners.threads import ThreadRunner

if TYPE_CHECKING:
    import gymnasium

    from hotloop.envs.compiled import CompiledEnv


def make_vec(
    env: str | Callable[..., Any] | CompiledEnv | gymnasium.Env[Any, Any],
    num_envs: int = 1,
    *,
    num_threads: int | None = None,
    num_groups: int | None = None,
    groups_per_batch: int = 1,
    options: Mapping[str, Any] | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    infos: Sequence[str] = (),
    first_env: int = 0,
    pin_threads: bool = False,
    action_repeat: int = 1,
    render_mode: str | None = None,
    num_workers: int | None = None,
    groups_per_worker: int = 2,
    limits: Limits | None = None,
    worker_python: str | os.PathLike[str] | None = None,
    wrap: Mapping[str, Any] | None = None,
) -> Runner:
    """Many envs as one `gymnasium.vector.VectorEnv`.

    Args:
        env: The name of a native env (`hotloop.list_envs()` lists them), `gymnasium:ID` or another adapter's name
            (`hotloop envs` lists those), `module:factory`, a callable that returns an env, or an env, which is copied.
            All but native envs, and those that bring native code (`native:PATH`, `hotloop.compiled`), are stepped by
            worker processes.
        num_envs: How many envs. The attribute `num_envs` of the result counts rows; they differ where an env has
            several seats.
        num_threads: How many threads step the envs, the calling one among them. Left out: as many as this process has
            cores, as far as that pays. Results never depend on it.
        num_groups: Into how many groups the envs are cut, each of which `send` moves as a unit. Left out: as many as
            pay for `step`. Results never depend on it.
        groups_per_batch: How many groups `recv` waits for.
        options: The env's options that differ from their defaults.
        autoreset_mode: When a finished env starts again: `"next_step"`, `"same_step"`, `"disabled"`, or one of
            `gymnasium.vector.AutoresetMode`.
        infos: Names of the env's info arrays to include in `info`.
        first_env: The index of the first env among all envs of a run; envs draw their randomness by index, so runners
            on several machines can share one seed.
        pin_threads: Whether to tie each thread to a core.
        action_repeat: Ticks that a step spans: the action is repeated, rewards add up, and the end of an episode ends
            the step. `max_steps` counts ticks. For envs that forbid no actions.
        render_mode: Result of `render` for each env: `"ansi"` for text, `"rgb_array"` for pictures (which need the
            extra `video`).
        num_workers: How many processes step Python envs; left out: one per core. 0 steps them in this one, where
            exceptions come through and a debugger works.
        groups_per_worker: Into how many groups a process's envs are cut.
        limits: What a process may take before it is replaced: time, memory, cores, faults (`hotloop.runners.health`).
        worker_python: The interpreter of the processes, if another than this one has what the envs need. It needs
            NumPy, and none of this package.
        wrap: Wrappers of Gymnasium envs by the names of the config's section `wrap`, such as `{"frame_stack": 4}`;
            `{"scale_actions": True}` takes continuous actions in [-1, 1].

    >>> envs = make_vec("cartpole", num_envs=3)
    >>> obs, info = envs.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = envs.step([0, 1, 0])
    >>> reward
    array([1., 1., 1.], dtype=float32)
    >>> envs.close()
    """
    if isinstance(env, str):
        env = load_env(env)
    elif _is_compiled(env):
        env = env.load()
    if not isinstance(env, str) or not is_native(env):
        from hotloop.runners.processes import ProcessRunner

        _refuse(env, num_threads=num_threads, num_groups=num_groups, render_mode=render_mode)
        if pin_threads or action_repeat != 1:
            raise ValueError("pin_threads and action_repeat are for native envs")
        return ProcessRunner(
            env,
            num_envs,
            num_workers=num_workers,
            groups_per_worker=groups_per_worker,
            groups_per_batch=groups_per_batch,
            options=options,
            autoreset_mode=autoreset_mode,
            infos=infos,
            first_env=first_env,
            limits=limits,
            worker_python=worker_python,
            wrap=check_wrappers(wrap or {}),
        )
    _refuse(env, wrap=wrap or None, num_workers=num_workers, limits=limits, worker_python=worker_python)
    return _thread_runner(env)(
        native_name(env),
        num_envs,
        num_threads=num_threads,
        num_groups=num_groups,
        groups_per_batch=groups_per_batch,
        options=options,
        autoreset_mode=autoreset_mode,
        infos=infos,
        first_env=first_env,
        pin_threads=pin_threads,
        action_repeat=action_repeat,
        renderer=PoolRenderer(env, render_mode),
    )


def check_wrappers(wrap: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of wrappers; an error names one that is unknown or has a wrong value."""
    from pydantic import ValidationError

    from hotloop.config.models import WrapConfig

    try:
        WrapConfig.model_validate(dict(wrap))
    except ValidationError as error:
        found = error.errors()[0]
        raise ValueError(f"wrap[{'.'.join(map(str, found['loc']))!r}]: {found['msg']}") from None
    return dict(wrap)


def _is_compiled(env: object) -> TypeGuard[CompiledEnv]:
    """Return whether `hotloop.compiled` made it; if its module was never imported, it did not."""
    module = sys.modules.get("hotloop.envs.compiled")
    return module is not None and isinstance(env, module.CompiledEnv)


def _thread_runner(env: str) -> type[ThreadRunner]:
    """The native runner, or one in which exceptions come through where Python itself runs a compiled env."""
    if env.startswith(COMPILED):
        from hotloop.envs.compiled import loaded

        found = loaded(env)
        if found is not None and found.failures is not None:
            from hotloop.runners.uncompiled import UncompiledRunner

            return type("UncompiledRunner", (UncompiledRunner,), {"failures": found.failures})
    return ThreadRunner


def _refuse(env: object, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            kind = "native" if isinstance(env, str) and is_native(env) else "Python"
            raise ValueError(f"{name} was given, but {env} is a {kind} env, which has none")


_OF_RUNNER = set(inspect.signature(make_vec).parameters) - {"env", "num_envs", "options"}


def make_gymnasium_vec(num_envs: int, native_name: str, **keywords: Any) -> Runner:
    """Entry point of `gymnasium.make_vec("hotloop/...")`: keywords that are not the runner's are options of the env."""
    of_runner = {name: keywords.pop(name) for name in _OF_RUNNER & keywords.keys()}
    options = {**keywords.pop("options", {}), **keywords}
    if "max_episode_steps" in options:
        options["max_steps"] = options.pop("max_episode_steps")
    return make_vec(native_name, num_envs, options=options, **of_runner)
