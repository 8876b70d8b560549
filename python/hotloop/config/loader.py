"""From packaged defaults, presets, files and overrides to one checked config."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.config.errors import ConfigError, unknown_key

if TYPE_CHECKING:
    from pydantic import ValidationError

    from hotloop.config.models import Config

Overrides = Mapping[str, object] | Iterable[str]
# The folder stands in the package, so that an installed wheel has it; `configs` at the root of the source leads here.
PACKAGED = Path(__file__).resolve().parent.parent / "configs"


def load_config(
    env: str,
    *,
    file: Path | None = None,
    preset: str | None = None,
    overrides: Overrides = (),
) -> Config:
    """The config for an env: its packaged defaults, then the preset, the file and the overrides, each over the last.

    Args:
        env: The name of an env; one that brings its code (`native:PATH`) is loaded.
        file: A YAML file with any part of a config.
        preset: The name of a packaged preset; `hotloop.config.presets()` lists them.
        overrides: `{"ppo.epochs": 4}` or `["ppo.epochs=4"]`. Keys are the config's dotted names; `env.` leads to
            options of the env. Values of the second form are read as YAML.

    >>> load_config("cartpole", overrides=["ppo.horizon=128"]).ppo.horizon
    128
    """
    from hotloop.envs.loader import load_env, whole_name

    env = load_env(env)
    given = [] if preset is None else [_preset(preset)]
    if file is not None:
        given.append(read_yaml(file))
    given.append(parse_overrides(overrides))
    layers = [_packaged_defaults(env, _algorithm(given)), *given]
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        _merge(merged, layer)
    named = merged.setdefault("env", {}).setdefault("name", env)
    if not isinstance(named, str) or whole_name(named) != env:
        raise ConfigError(f"env.name is {named!r}, but the config was asked for {env!r}: leave one of them out")
    merged["env"]["name"] = env
    return build(merged)


def build(parts: Mapping[str, Any]) -> Config:
    """Checks nested parts and makes the config of them."""
    from pydantic import ValidationError

    from hotloop.config.checks import check
    from hotloop.config.models import Config, dotted_names

    known = dotted_names()
    for key in _leaves(parts):
        if not key.startswith("env.") and key not in known:
            raise unknown_key(key, known)
    try:
        config = Config.model_validate(parts)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None
    check(config)
    return config


def stored_config(path: Path) -> Config:
    """The config that a run wrote down."""
    return build(read_yaml(path))


def parse_overrides(overrides: Overrides) -> dict[str, dict[str, Any]]:
    """Nested parts from dotted names."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides is {overrides!r}: expected a list of 'key=value', or a dict")
    pairs: Iterable[tuple[str, object]]
    pairs = overrides.items() if isinstance(overrides, Mapping) else map(_split, overrides)
    parts: dict[str, dict[str, Any]] = {}
    for key, value in pairs:
        if isinstance(value, Mapping) and "." not in key:
            _merge(parts, {key: value})
            continue
        part, dot, name = key.partition(".")
        if not dot or not name:
            from hotloop.config.models import dotted_names

            raise unknown_key(key, dotted_names())
        parts.setdefault(part, {})[name] = value
    return parts


def _split(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{text!r} is no override: expected key=value, for example ppo.epochs=4")
    return key.strip(), _yaml_value(key, value)


def _yaml_value(key: str, text: str) -> object:
    import yaml

    try:
        value: object = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{key}={text}: the value is no YAML") from None
    if isinstance(value, str):
        # YAML 1.1 takes 1e-3 for a text, people take it for a number.
        try:
            return float(value)
        except ValueError:
            return value
    return value


def read_yaml(path: Path) -> dict[str, Any]:
    """The nested parts that a YAML file holds; an empty one holds none."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        told = yaml.load(path.read_text(), loader)
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config {path} is no YAML: {error}") from None
    if told is None:
        return {}
    if not isinstance(told, dict):
        raise ConfigError(f"the config {path} holds {type(told).__name__}: expected parts such as ppo and train")
    return told


def packaged_names() -> list[str]:
    """The envs that have packaged defaults."""
    return sorted(path.stem for path in PACKAGED.glob("*.yaml"))


def presets() -> list[str]:
    """The names of the packaged presets."""
    return sorted(path.stem for path in (PACKAGED / "presets").glob("*.yaml"))


def _algorithm(layers: Iterable[Mapping[str, Any]]) -> object:
    """What the layers say will learn."""
    said = [layer["train"].get("algorithm") for layer in layers if isinstance(layer.get("train"), Mapping)]
    return next((name for name in reversed(said) if name is not None), "ppo")


def _packaged_defaults(env: str, algorithm: object) -> dict[str, Any]:
    from hotloop.envs.registry import is_native, native_name

    # What suits a network does not suit a table.
    folder = PACKAGED if algorithm == "ppo" else PACKAGED / "tabular"
    if is_native(env) and (path := folder / f"{native_name(env)}.yaml").exists():
        return read_yaml(path)
    return read_yaml(PACKAGED / "general" / "ppo.yaml") if algorithm == "ppo" else {}


def _preset(name: str) -> dict[str, Any]:
    known = presets()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"there is no preset {name!r}.{hint} There are: {', '.join(known)}")
    return read_yaml(PACKAGED / "presets" / f"{name}.yaml")


def _merge(into: dict[str, dict[str, Any]], layer: Mapping[str, Any]) -> None:
    for part, values in layer.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"the config's part {part!r} is {values!r}: expected its keys with their values")
        into.setdefault(part, {}).update(values)


def _leaves(parts: Mapping[str, Any]) -> Iterable[str]:
    for part, values in parts.items():
        if isinstance(values, Mapping):
            yield from (f"{part}.{name}" for name in values)
        else:
            yield part


def _explain(error: ValidationError) -> str:
    """Pydantic's complaints, one after the other, each with its dotted key and the value."""
    lines = []
    for found in error.errors():
        key = ".".join(map(str, found["loc"]))
        what = found["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        lines.append(f"{key} is {found['input']!r}: expected {what}")
    return "; ".join(lines)
