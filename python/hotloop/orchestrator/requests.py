"""Requests for jobs: from a config or a command, with the key that makes submission idempotent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop import _core
from hotloop.errors import ConfigError, JobError
from hotloop.orchestrator.job import CHOSEN, KINDS, Kind, Request

if TYPE_CHECKING:
    from hotloop.config import Config

# Sections and keys of a config that change neither the result nor the work.
_IRRELEVANT: Final = (("runner", "num_threads"), ("track", "trackers"))


def train_request(
    config: Config,
    *,
    home: Path,
    init_from: str | Path | None = None,
    name: str | None = None,
    trust: bool = False,
    key: str | None = None,
    **options: Any,
) -> Request:
    """Return the request for a training run; errors of the config come up here, before anything starts.

    `options` are further fields of `Request`: priority, group, and so on.
    """
    from hotloop.config.loader import given_keys
    from hotloop.envs.loader import short_name
    from hotloop.envs.registry import is_native
    from hotloop.training.opponents import find_policy
    from hotloop.training.settings import settle
    from hotloop.training.start import check_ending
    from hotloop.training.trust import code_in_config

    train = config.train
    check_ending(config)
    if train.algorithm != "ppo" and config.tabular.runtime == "mpi":
        raise JobError("tabular.runtime is mpi: MPI starts its own processes, so such a run cannot be queued")
    if is_native(config.env.name):
        config = settle(config, lambda note: None)
    exact = is_exact(config)
    policy = None if init_from is None else find_policy(init_from, home, trust=trust, warn=lambda note: None)
    weights = None if policy is None else hashlib.sha256(policy.policy_bytes()).hexdigest()
    parts = config.model_dump(mode="json")
    code = [*code_in_config(config), *([] if policy is None else _code_of(policy.manifest))]
    chosen = None if name is None else {"name": name}
    return Request(
        kind="train",
        spec={
            "config": parts,
            "given": sorted(given_keys(config)),
            "init_from": None if policy is None else str(policy.path.absolute()),
            "name": name,
            "trust": trust,
            "cwd": str(Path.cwd()),
            "minutes": train.minutes,
        },
        key=CHOSEN + key if key is not None else train_key(parts, _core.__version__, weights, chosen),
        name=f"{short_name(config.env.name)} seed {train.seed}" if name is None else name,
        shape=_digest(["train", work_of(parts, with_seed=False)]),
        exact=exact,
        code=code,
        answer=None,
        **options,
    )


def command_request(kind: str, arguments: Sequence[str], *, key: str | None = None, **options: Any) -> Request:
    """Return the request for a command such as `eval` or `bench`, given its arguments."""
    if kind not in KINDS or kind == "train":
        raise JobError(f"jobs of kind {kind!r} cannot be queued: expected {', '.join(KINDS)}")
    known: Kind = kind
    cwd = str(Path.cwd())
    digest = _digest([_core.__version__, kind, list(arguments), cwd])
    return Request(
        kind=known,
        spec={"arguments": list(arguments), "cwd": cwd},
        key=digest if key is None else CHOSEN + key,
        name=" ".join([kind, *arguments])[:80],
        shape=digest,
        # A command's arguments may name code, in more ways than can be recognised here.
        code=[" ".join([kind, *arguments])],
        **options,
    )


def is_exact(config: Config) -> bool:
    """Return whether the config alone decides every bit: a native env and learner, and no limit of time."""
    from hotloop.envs.registry import is_native
    from hotloop.envs.spec import native_spec
    from hotloop.ppo.learners import choose

    if config.train.algorithm != "ppo" or config.train.minutes is not None or not is_native(config.env.name):
        return False
    try:
        return choose(config, native_spec(config.env.name, config.env.options)).name == "native"
    except ValueError as error:
        raise ConfigError(f"env: {error}") from None


def work_of(config: Mapping[str, Mapping[str, Any]], *, with_seed: bool = True) -> dict[str, dict[str, Any]]:
    """Return the part of a config that decides the result."""
    parts = {section: dict(values) for section, values in config.items() if section != "orchestrator"}
    for section, key in (*_IRRELEVANT, *(() if with_seed else (("train", "seed"),))):
        parts.get(section, {}).pop(key, None)
    return parts


def train_key(
    config: Mapping[str, Mapping[str, Any]],
    version: str,
    weights: str | None = None,
    chosen: Mapping[str, str] | None = None,
) -> str:
    """Return the identity of a training run: version, config with its seed, hash of the initial weights."""
    return _digest([version, "train", work_of(config), weights, *([] if chosen is None else [chosen])])


def _code_of(manifest: Mapping[str, Any]) -> list[str]:
    from hotloop.training.trust import code_in_manifest

    return code_in_manifest(manifest)


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
