"""Loading of configs: packaged defaults, presets, files and overrides, merged and checked."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.errors import unknown_key
from hotloop.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from hotloop.config.models import Config

Overrides = Mapping[str, object] | Iterable[str]
# Section of settings that are not part of a run's config.
ORCHESTRATOR: Final = "orchestrator"
# Limits of a YAML document, far above any config.
_DEEPEST: Final = 50
_MOST_VALUES: Final = 100_000
# Inside the package, so that wheels contain it; `configs` in the source's root is a link to it.
PACKAGED = Path(__file__).resolve().parent.parent / "configs"


def load_config(
    env: str,
    *,
    file: Path | None = None,
    preset: str | None = None,
    overrides: Overrides = (),
) -> Config:
    """Return the config for an env: packaged defaults, preset, file and overrides, each overriding the one before.

    For an env without packaged defaults, PPO settings that are not given here are chosen when a run begins, by the
    kind of env (`hotloop.training.settings`).

    Args:
        env: The env's name; an env with code of its own (`native:PATH`) is loaded.
        file: A YAML file with any keys of the config.
        preset: The name of a packaged preset; `hotloop.config.presets()` lists them.
        overrides: `{"ppo.epochs": 4}` or `["ppo.epochs=4"]`. Keys are the config's dotted names; options of
            the env start with `env.`. Values of the second form are parsed as YAML.

    >>> load_config("cartpole", overrides=["ppo.horizon=128"]).ppo.horizon
    128
    """
    from hotloop.envs.loader import load_env, whole_name

    env = load_env(env)
    given = [] if preset is None else [_preset(preset)]
    if file is not None:
        given.append(read_yaml(file))
    given.append(parse_overrides(overrides, env=env))
    for layer in given:
        if ORCHESTRATOR in layer:
            # A file may be shared with `hotloop jobs work`; runs are the same under any orchestrator.
            from hotloop.config.orchestrator import build_settings

            build_settings(layer.pop(ORCHESTRATOR) or {})
    merged: dict[str, dict[str, Any]] = {}
    for layer in (_packaged_layer(env, given), *given):
        _merge(merged, layer)
    named = merged.setdefault("env", {}).setdefault("name", env)
    if not isinstance(named, str) or whole_name(named) != env:
        raise ConfigError(f"env.name is {named!r}, but the config was asked for {env!r}: leave one of them out")
    merged["env"]["name"] = env
    return build(merged, given={key for layer in given for key in _leaves(layer)})


def build(parts: Mapping[str, Any], *, given: Collection[str] | None = None) -> Config:
    """Return the checked config of nested sections.

    `given` has the dotted names of the settings that the user chose (default: all of `parts`). The sections'
    `model_fields_set` keeps them; the others may be adapted to them when a run begins.
    """
    from pydantic import ValidationError

    from hotloop.config.checks import check
    from hotloop.config.models import Config, dotted_names

    known = dotted_names()
    for key in _leaves(parts):
        if not key.startswith("env.") and key not in known:
            section = parts.get("env")
            raise unknown_key(key, known_keys(section.get("name") if isinstance(section, Mapping) else None))
    try:
        config = Config.model_validate(parts)
    except ValidationError as error:
        raise ConfigError(explain_invalid(error)) from None
    if given is not None:
        config = _mark_given(config, given)
    check(config)
    return config


def with_changes(
    config: Config, changes: Mapping[str, Mapping[str, Any]], *, given: Collection[str] | None = None
) -> Config:
    """Return the config with changed sections; by default the changes count as given by the user."""
    parts = config.model_dump()
    for part, values in changes.items():
        parts[part] |= values
    return build(parts, given={*given_keys(config), *(_leaves(changes) if given is None else given)})


def given_keys(config: Config) -> set[str]:
    """Return the dotted names of the settings that the user chose."""
    return {f"{part}.{key}" for part, section in config for key in section.model_fields_set}


def _mark_given(config: Config, given: Collection[str]) -> Config:
    from hotloop.config.models import Config

    sections: dict[str, Any] = {"env": config.env}
    for part, section in config:
        if part != "env":
            keys = {key for key in type(section).model_fields if f"{part}.{key}" in given}
            sections[part] = type(section).model_construct(_fields_set=keys, **dict(section))
    return Config.model_construct(**sections)


# Fields with entries of their own: `train.evaluate_env.KEY=VALUE`.
_DICTS: Final = ("train.evaluate_env", "policy.module_options")


def parse_overrides(overrides: Overrides, *, env: str | None = None) -> dict[str, dict[str, Any]]:
    """Return nested sections from dotted keys; the env is for suggestions where a key has no section."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides is {overrides!r}: expected a list of 'key=value' strings, or a dict")
    pairs: Iterable[tuple[str, object]]
    pairs = overrides.items() if isinstance(overrides, Mapping) else map(parse_override, overrides)
    parts: dict[str, dict[str, Any]] = {}
    for key, value in pairs:
        if isinstance(value, Mapping) and "." not in key:
            _merge(parts, {key: value})
            continue
        part, dot, name = key.partition(".")
        if not dot or not name:
            raise unknown_key(key, known_keys(env))
        section = parts.setdefault(part, {})
        field, dot, entry = name.partition(".")
        if dot and entry and f"{part}.{field}" in _DICTS:
            section[field] = {**section.get(field, {}), entry: value}
        else:
            section[name] = value
    return parts


def known_keys(env: object) -> list[str]:
    """Return all config keys; those of the env's options are known for native envs only."""
    from hotloop import _core
    from hotloop.config.models import dotted_names

    names = dotted_names()
    if isinstance(env, str) and _core.has_env(env):
        names += [f"env.{option['name']}" for option in _core.env_entry(env)["options"]]
    return names


def parse_override(text: str) -> tuple[str, object]:
    """Return key and value of `key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{text!r} is not an override: expected key=value, for example ppo.epochs=4")
    return key.strip(), _yaml_value(key, value)


def _yaml_value(key: str, text: str) -> object:
    try:
        value = parse_yaml(text)
    except ValueError:
        raise ConfigError(f"{key}={text[:200]}: the value is not valid YAML; quote it if it is text") from None
    if isinstance(value, str):
        # YAML 1.1 reads 1e-3 as a string.
        try:
            return float(value)
        except ValueError:
            return value
    return value


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the nested sections of a YAML file; an empty file has none."""
    try:
        content = parse_yaml(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"the config {path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"the config {path} holds {type(content).__name__}: expected sections, such as 'ppo:' with its keys below"
        )
    return content


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML document; a `ValueError` if it has none, as for a date in a 13th month."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        # The loader recurses, and the one in C has no limit to that.
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
        content = yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    # A few aliases of aliases can stand for billions of values, or contain themselves.
    waiting, count = [content], 0
    while waiting:
        value = waiting.pop()
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | set) else ()
        count += len(parts)
        if count > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES} values")
        waiting += parts
    return content


def packaged_names() -> list[str]:
    """Return the envs that have packaged defaults."""
    return sorted(path.stem for path in PACKAGED.glob("*.yaml"))


def presets() -> list[str]:
    """Return the names of the packaged presets."""
    return sorted(path.stem for path in (PACKAGED / "presets").glob("*.yaml"))


def _packaged_layer(env: str, given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the packaged settings of an env for the algorithm that the user names, else for the one they name."""
    options: dict[str, Any] = {}
    for layer in given:
        if isinstance(layer.get("env"), Mapping):
            options |= layer["env"]
    asked = _algorithm(given)
    found = packaged_defaults(env, asked or "ppo", options) or {}
    own = _algorithm([found])
    if asked is None and own not in (None, "ppo"):
        found = packaged_defaults(env, own, options) or {}
        _merge(found, {"train": {"algorithm": own}})
    return found


def _algorithm(layers: Iterable[Mapping[str, Any]]) -> object:
    """Return the algorithm that the last of the layers names, if any does."""
    named = [layer["train"].get("algorithm") for layer in layers if isinstance(layer.get("train"), Mapping)]
    return next((name for name in reversed(named) if name is not None), None)


def packaged_defaults(env: str, algorithm: object, options: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the packaged settings of an env, if it has any; some of its options may change them."""
    from hotloop.envs.registry import is_native, native_name

    # Settings for networks do not suit tables.
    folder = PACKAGED if algorithm == "ppo" else PACKAGED / "tabular"
    if not is_native(env) or not (path := folder / f"{native_name(env)}.yaml").exists():
        return None
    found = read_yaml(path)
    for option, value in (options or {}).items():
        variant = folder / "variants" / f"{path.stem}.{option}={value}.yaml"
        if isinstance(value, str) and variant.parent == folder / "variants" and variant.is_file():
            _merge(found, read_yaml(variant))
    return found


def general_settings(kind: str) -> dict[str, Any]:
    """Return the packaged settings for a kind of env, such as `continuous`."""
    return read_yaml(PACKAGED / "general" / f"{kind}.yaml")


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
            raise ConfigError(
                f"the config section {part!r} is {values!r}: expected keys with values, such as {part}.KEY=VALUE"
            )
        into.setdefault(part, {}).update(values)


def _leaves(parts: Mapping[str, Any]) -> Iterable[str]:
    for part, values in parts.items():
        if isinstance(values, Mapping):
            yield from (f"{part}.{name}" for name in values)
        else:
            yield part


def explain_invalid(error: ValidationError) -> str:
    """Return every validation error with its key, the value, and the expected one."""
    lines = []
    for found in error.errors():
        key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found["loc"]).removeprefix(".")
        message = found["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        lines.append(f"{key} is {found['input']!r}: expected {_EXPECTED.get(found['type'], message)}")
    return "; ".join(lines)


_EXPECTED: Final = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list, such as [64, 64]",
    "dict_type": "keys with values",
}
