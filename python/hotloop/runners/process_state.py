"""Snapshots of Python envs: arrays and a header under one checksum. Reading one never executes code."""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.runners.seeds import episode_seed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hotloop.envs.spec import EnvSpec
    from hotloop.runners.worker_pool import WorkerPool

_MAGIC: Final = b"hotloop python envs 1\n"
_ROWS: Final = ("obs", "valid", "policy", "next_policy", "mask", "number", "over", "key", "seed")


def pack(pool: WorkerPool, name: str) -> bytes:
    """Return the state of every env that offers it, and the observations of all rows."""
    arrays = {f"rows.{key}": pool.views[key] for key in _ROWS if key in pool.views}
    offered = []
    for worker in range(len(pool.plan.workers)):
        # The workers of a broken pool cannot be called any more; their envs start new episodes when restored.
        states = {} if pool.faults.broken else pool.call(worker, "get_state")
        for env, (state, total, length) in states.items():
            if state is not None:
                offered.append(env)
                arrays |= {f"env.{env}.{key}": np.asarray(value) for key, value in state.items()}
                arrays |= {f"total.{env}": np.asarray(total), f"length.{env}": np.asarray(length)}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    header = {"env": name, "envs": pool.plan.envs, "described": _header(pool.spec), "offered": offered}
    header["configured"] = pool.configured
    body = json.dumps(header, default=_as_list).encode() + b"\n" + file.getvalue()
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(pool: WorkerPool, name: str, state: bytes) -> NDArray[np.bool_]:
    """Restore envs; return which ones must start new episodes, because they do not offer their state."""
    start = len(_MAGIC)
    body = state[start + 32 :]
    if state[:start] != _MAGIC or hashlib.sha256(body).digest() != state[start : start + 32]:
        raise ValueError("this is no snapshot of Python envs, or it is damaged")
    header_line, _, packed = body.partition(b"\n")
    header = json.loads(header_line)
    if header["env"] != name or header["envs"] != pool.plan.envs or header["described"] != _header(pool.spec):
        raise ValueError(
            f"the snapshot is of {header['envs']} envs {header['env']!r}, this runner has {pool.plan.envs} of "
            f"{name!r}, or their spaces differ"
        )
    pool.configure({int(env): options for env, options in header.get("configured", {}).items()})
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        restarted = np.ones(pool.plan.envs, np.bool_)
        restarted[header["offered"]] = False
        for worker in range(len(pool.plan.workers)):
            states = {
                env: (_state_of(arrays, env), arrays[f"total.{env}"][()], arrays[f"length.{env}"][()])
                for env in pool.plan.envs_of(worker)
                if not restarted[env]
            }
            if states:
                pool.call(worker, "set_state", states)
        # The rows come last: a worker that was lost meanwhile has reset its envs.
        pool.ensure_ready()
        for key in _ROWS:
            if key in pool.views:
                pool.views[key][...] = arrays[f"rows.{key}"]
    views = pool.views
    for env in np.flatnonzero(restarted):
        views["seed"][env] = episode_seed(int(views["key"][env]), int(views["number"][env]) + 1)
        views["seeded"][env] = True
    return restarted


def fields(pool: WorkerPool) -> dict[str, NDArray[Any]]:
    """Return the fields of the envs' state, an entry per env."""
    states = _offered(pool)
    envs = range(pool.plan.envs)
    found = {name: np.stack([states[env][0][name] for env in envs]) for name in states[0][0] if _own(name)}
    return {**found, "elapsed_steps": np.stack([states[env][2].max() for env in envs])}


def put_fields(pool: WorkerPool, given: Mapping[str, ArrayLike], envs: Sequence[int]) -> None:
    """Replace fields of some envs' state."""
    states = _offered(pool)
    known = [name for name in states[0][0] if _own(name)]
    changed = {}
    arrays = {name: np.asarray(values) for name, values in given.items()}
    for name, values in arrays.items():
        if name not in known:
            raise ValueError(f"the envs' state has no field {name!r}; it has: {', '.join(known)}")
        if values.shape[:1] != (len(envs),):
            raise ValueError(f"{name} has shape {list(values.shape)}: expected an entry for each of {len(envs)} envs")
    for i, env in enumerate(envs):
        state, total, length = states[env]
        changed[env] = ({**state, **{name: values[i] for name, values in arrays.items()}}, total, length)
    for worker in range(len(pool.plan.workers)):
        own = {env: changed[env] for env in pool.plan.envs_of(worker) if env in changed}
        if own:
            pool.call(worker, "show_state", own)


def _own(name: str) -> bool:
    """Return whether a field is the env's own, not one that its adapter adds."""
    return not name.startswith("hotloop: ")


def _offered(pool: WorkerPool) -> dict[int, Any]:
    states: dict[int, Any] = {}
    for worker in range(len(pool.plan.workers)):
        states |= pool.call(worker, "get_state")
    if any(state is None for state, _, _ in states.values()):
        raise RuntimeError("the envs do not offer their state: give them get_state() and set_state(dict)")
    return states


def _state_of(arrays: Any, env: int) -> dict[str, NDArray[Any]]:
    prefix = f"env.{env}."
    return {key[len(prefix) :]: arrays[key] for key in arrays.files if key.startswith(prefix)}


def _as_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a configured option is {value!r}: a snapshot keeps only numbers, texts, lists and dicts")


def _header(spec: EnvSpec) -> dict[str, Any]:
    """Return the part of a spec that decides whether a snapshot fits."""
    header = {key: value for key, value in spec.to_json().items() if key != "own_spaces"}
    return {**header, "apart": True} if spec.independent_rows else header
