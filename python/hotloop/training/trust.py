"""The gate between a run's folder and code: what a run names is executed only if the run was made here.

Everything that a run says is read through `stored_config` and `check_trust`, which refuse a run from elsewhere that
names code, an interpreter or a service, unless its user trusts it. A run that is made here leaves a mark outside its
folder, so that a folder from elsewhere cannot bring one along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import TrainingError

if TYPE_CHECKING:
    from hotloop.config import Config

# Envs of Gymnasium that import whatever their options name.
_IMPORTING: Final = ("GymV21Environment", "GymV26Environment")
# Trackers that send a run's data to a server.
_SERVICES: Final = ("wandb", "mlflow")
_CONFIG_LIMIT: Final = 1 << 20


def code_in_env(env: str, options: Mapping[str, Any]) -> list[str]:
    """Return the code that playing an env with these options would execute, beside Hotloop's and Gymnasium's own."""
    from hotloop.envs.loader import names_code

    if ":" not in env:
        return []
    if names_code(env) or env.removeprefix("gymnasium:").startswith(_IMPORTING):
        return [env]
    return [f"{env} with {text}" for text in _texts(options) if ":" in text]


def code_in_manifest(manifest: Mapping[str, Any]) -> list[str]:
    """Return the code that a checkpoint's manifest names: a policy's module, and that of its env."""
    module = manifest.get("policy", {}).get("module")
    return [*([] if module is None else [str(module)]), *code_in_env(manifest["env"], manifest["options"])]


def code_in_config(config: Config) -> list[str]:
    """Return the code, interpreters and services that a config names."""
    named = [config.policy.module, *config.torch.losses, config.runner.worker_python]
    services = [name for name in config.track.trackers if name in _SERVICES]
    return [*(name for name in named if name is not None), *services, *code_in_env(config.env.name, config.env.options)]


def stored_config(run: Path, *, trust: bool) -> Config:
    """Return the config of a run's folder; refuse one from elsewhere that names code, unless it is trusted."""
    from hotloop.config.loader import build, read_yaml
    from hotloop.errors import ConfigError
    from hotloop.files import UnreadableFileError, read_bytes

    path = run / "config.yaml"
    try:
        read_bytes(path, _CONFIG_LIMIT)
        parts = read_yaml(path)
    except UnreadableFileError as error:
        raise ConfigError(f"the run {run} is damaged: {error}") from None
    try:
        config = build(parts)
    except ConfigError as error:
        raise ConfigError(f"{path} cannot be used: {error}") from None
    check_trust(run, code_in_config(config), trust=trust)
    return config


def check_trust(run: Path, names: Sequence[str], *, trust: bool) -> None:
    """Raise an error if a run names code, was not made here and is not trusted."""
    foreign = [] if trust else [name for name in names if not _mark(run, name).exists()]
    if foreign:
        raise TrainingError(
            f"{run} names code to be loaded ({', '.join(foreign)}), and was not made here: "
            "review that code, then pass --trust (trust=True)"
        )


def remember(run: Path, names: Sequence[str]) -> None:
    """Mark code that a run made here names, so that it may be executed again."""
    for name in names:
        mark = _mark(run, name)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def forget(run: Path, names: Sequence[str]) -> None:
    """Remove the marks of a run that was not made after all."""
    for name in names:
        _mark(run, name).unlink(missing_ok=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _mark(run: Path, name: str) -> Path:
    from hotloop.training.runs import home

    key = hashlib.sha256(f"{run.resolve()}\n{name}".encode(errors="surrogatepass")).hexdigest()
    return home() / "trusted" / key
