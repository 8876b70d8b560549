"""The definition of a sweep: its file, checked before anything starts, and the config of each of its trials.

Everything that decides a sweep is here, so that a definition with the same fingerprint is the same sweep.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from hotloop.config import Config
from hotloop.config.loader import (
    PACKAGED,
    build,
    explain_invalid,
    given_keys,
    known_keys,
    load_config,
    parse_override,
    parse_overrides,
    read_yaml,
    with_changes,
)
from hotloop.envs.registry import is_native
from hotloop.errors import ConfigError
from hotloop.sweeps.samplers import BUILT_IN, default_sampler, random_settings
from hotloop.sweeps.settings import PBT, SweepSettings
from hotloop.sweeps.space import Settings, Space, is_distribution, parse_space, whole_entry
from hotloop.training.settings import fit_minibatch, settle

_TRIALS: Final = 200
# Draws that show whether a space has any trial that can run.
_CHECKED: Final = 64
# Settings that may change between the generations of a member: no array's shape depends on them.
_FORKABLE: Final = (
    "ppo.epochs",
    "ppo.minibatch_size",
    "ppo.learning_rate",
    "ppo.gamma",
    "ppo.gae_lambda",
    "ppo.clip",
    "ppo.value_clip",
    "ppo.value_weight",
    "ppo.entropy",
    "ppo.max_gradient_norm",
    "ppo.target_kl",
    "ppo.reward_scale",
    "ppo.reward_clip",
    "ppo.beta1",
    "ppo.beta2",
    "ppo.epsilon",
    "tabular.learning_rate",
    "tabular.exploration",
    "tabular.gamma",
)


Entries = Mapping[str, Any] | Sequence[str | tuple[str, Any]]
"""Keys with distributions or fixed values: a mapping, `key=value` texts, or pairs."""


@dataclass(frozen=True)
class Definition:
    """A sweep before its first trial."""

    base: Config
    """The settled config of all trials, without their settings."""
    sweep: SweepSettings
    entries: dict[str, Any]
    """The space as written."""

    @cached_property
    def space(self) -> Space:
        """The search space."""
        dump = self.base.model_dump()

        def fixed(key: str) -> Any:
            part, _, name = key.partition(".")
            return dump.get(part, {}).get(name)

        return parse_space(self.entries, known_keys(self.base.env.name), fixed)

    @property
    def env(self) -> str:
        """The env's name."""
        return self.base.env.name

    @cached_property
    def sampler(self) -> str:
        """Name of the sampler."""
        assert self.sweep.sampler is not None
        return self.sweep.sampler

    @cached_property
    def trials(self) -> int:
        """Number of trials, of PBT the population."""
        if self.sampler == PBT:
            return self.sweep.pbt.population
        if self.sampler == "grid":
            size = len(self.space.grid(self.sweep.grid))
            return size if self.sweep.trials is None else min(size, self.sweep.trials)
        return self.sweep.trials or _TRIALS

    @cached_property
    def seats(self) -> int:
        """Agents per env, where that is known without making one."""
        if not is_native(self.env):
            return 1
        from hotloop.envs.spec import native_spec

        return native_spec(self.env, self.base.env.options).seats

    @cached_property
    def promise(self) -> str:
        """What the sweep promises about bits."""
        native = is_native(self.env) and (self.base.train.algorithm != "ppo" or self.base.train.learner != "torch")
        if not native:
            return "repeats exactly as far as the Python env and torch do; trials that do not are reported by verify"
        if self.sampler in BUILT_IN or self.sampler == PBT:
            return "repeats bit for bit on any machine"
        return (
            f"repeats bit for bit on CPUs of one kind ({self.sampler} computes with NumPy); its trials on any machine"
        )

    def config(self, settings: Settings, seed: int) -> Config:
        """Return the config of a trial; a `ConfigError` says why it cannot run."""
        changes = parse_overrides(settings)
        changes.setdefault("train", {})["seed"] = seed
        config = with_changes(self.base, changes)
        if config.train.algorithm == "ppo":
            config = fit_minibatch(config, self.seats, lambda note: None)
        return config

    def to_json(self) -> dict[str, Any]:
        """Return the definition as it is stored beside the sweep's journal."""
        return {
            "config": self.base.model_dump(mode="json"),
            "given": sorted(given_keys(self.base)),
            "sweep": self.sweep.model_dump(mode="json"),
            "space": self.entries,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return a stored definition."""
        try:
            base = build(stored["config"], given=stored["given"])
            return cls(base, SweepSettings.model_validate(stored["sweep"]), dict(stored["space"]))
        except (KeyError, TypeError, ValidationError) as error:
            raise ConfigError(f"the sweep's definition is damaged: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides the sweep."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def define(
    env: str | None = None,
    *,
    entries: Entries = (),
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    note: Any = lambda text: None,
) -> Definition:
    """Return the checked definition of a sweep.

    Args:
        env: The env's name; the file may name it instead.
        entries: Distributions of the space, and fixed values, by dotted key.
        file: A sweep's YAML file.
        options: Settings of the sweep itself, such as `trials`.
        note: Called with choices that were made for the user.
    """
    # For a definition that can be used: an error stands alone.
    notes: list[str] = []
    given = {} if file is None else read_yaml(file)
    section = given.pop("env", None)
    named = section if isinstance(section, str) else (section or {}).get("name")
    if env is None and named is None:
        raise ConfigError("no env: name one, or give a sweep file with 'env: NAME'")
    if env is not None and named is not None and env != named:
        raise ConfigError(f"env is {named!r} in {file}, but the sweep was asked for {env!r}: leave one of them out")
    env = env or str(named)
    layers: list[dict[str, Any]] = [_section(given, "sweep"), dict(options or {})]
    space = _section(given, "space")
    fixed: dict[str, Any] = {**given, **({"env": section} if isinstance(section, dict) else {})}
    overrides: dict[str, Any] = {}
    for key, value in entry_pairs(entries):
        if key.startswith("sweep."):
            layers.append(_nested(key.split(".")[1:], value))
        elif is_distribution(value) or (isinstance(value, Mapping) and "is" in value):
            space[key] = value
        else:
            overrides[key] = value
    if not space:
        preset = packaged_space(env, {**fixed, **overrides})
        space, layers = _section(preset, "space"), [_section(preset, "sweep"), *layers]
        notes.append(f"space: {', '.join(space)} (packaged)")
        for part, values in preset.items():
            fixed[part] = {**values, **fixed.get(part, {})}
    merged = parse_overrides(fixed, env=env)
    for part, values in parse_overrides(overrides, env=env).items():
        merged.setdefault(part, {}).update(values)
    for key in (part.strip() for name in space for part in str(name).split(",")):
        part, _, name = key.partition(".")
        if name in merged.get(part, {}):
            raise ConfigError(f"{key} is both fixed and searched: leave one of them out")
    space = {key: whole_entry(entry) for key, entry in space.items()}
    settings = _settings(layers)
    if "train.steps" not in space and "steps" not in merged.get("train", {}) and settings.metric != "steps":
        # A run's limit is generous; trials are compared long before it.
        steps = packaged_space(env, merged).get("train", {}).get("steps")
        if steps is not None:
            merged.setdefault("train", {})["steps"] = steps
            notes.append(f"train.steps: {steps} (packaged)")
    try:
        config = load_config(env, overrides=merged)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    parse_space(space, known_keys(config.env.name), lambda key: None)
    definition = Definition(_base(settle(config, notes.append), settings), settings, space)
    check(definition, notes.append)
    for text in notes:
        note(text)
    return definition


def packaged_space(env: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the packaged sweep of an env, or the one for its algorithm."""
    from hotloop.envs.registry import native_name

    try:
        config = load_config(env, overrides=parse_overrides(fixed, env=env))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    folder = PACKAGED / "sweeps"
    tabular = config.train.algorithm != "ppo"
    own = folder / f"{native_name(env)}.yaml" if is_native(env) and ":" not in env else None
    if own is not None and own.exists() and not tabular:
        return read_yaml(own)
    return read_yaml(folder / "general" / ("tabular.yaml" if tabular else "ppo.yaml"))


def entry_pairs(entries: Entries) -> list[tuple[str, Any]]:
    """Return keys and values; distributions stay as they are written."""
    if isinstance(entries, Mapping):
        return list(entries.items())
    pairs: list[tuple[str, Any]] = []
    for entry in entries:
        if isinstance(entry, str):
            key, equals, value = entry.partition("=")
            is_drawn = equals and is_distribution(value)
            entry = (key.strip(), value) if is_drawn else parse_override(entry)
        pairs.append(entry)
    return pairs


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    return {path[0]: value if len(path) == 1 else _nested(path[1:], value)}


def _section(parts: dict[str, Any], name: str) -> dict[str, Any]:
    found = parts.pop(name, None)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{name} is {found!r}: expected keys with values")
    return dict(found)


def _settings(layers: Sequence[Mapping[str, Any]]) -> SweepSettings:
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
                merged[key] = {**merged[key], **value}
            else:
                merged[key] = value
    merged["sampler"] = merged.get("sampler") or default_sampler()
    unknown = [key for key in merged if key not in SweepSettings.model_fields]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], SweepSettings.model_fields, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(SweepSettings.model_fields)}"
        raise ConfigError(f"there is no sweep setting {unknown[0]!r}. {hint}")
    try:
        settings = SweepSettings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(f"sweep: {explain_invalid(error)}") from None
    settings.check()
    return settings


def _base(config: Config, settings: SweepSettings) -> Config:
    """Return the config with what a trial does not need switched off."""
    for key in ("episodes", "minutes"):
        if getattr(config.train, key) is not None:
            raise ConfigError(f"train.{key} cannot limit trials, they are compared by steps: set train.steps instead")
    if config.control.schedules or config.control.stages:
        raise ConfigError("trials train without controllers: leave control out")
    if config.opponents.policies:
        raise ConfigError("trials train without frozen opponents: leave opponents out")
    if not config.train.evaluate_episodes:
        raise ConfigError("train.evaluate_episodes is 0: trials are judged by evaluations, set it to 1 or more")
    if settings.metric == "steps" and config.train.until is None:
        raise ConfigError("the objective steps needs a goal: set train.until")
    if config.train.algorithm != "ppo" and config.tabular.runtime != "one":
        raise ConfigError(f"tabular.runtime is {config.tabular.runtime}: trials run on one thread each, leave it out")
    changes: dict[str, dict[str, Any]] = {
        "runner": {"num_threads": 1},
        "train": {"evaluate_every": 0},
        "track": {"trackers": []},
    }
    if settings.metric != "steps":
        changes["train"]["until"] = None
    if config.torch.num_threads is None:
        changes["torch"] = {"num_threads": 1}
    return with_changes(config, changes, given=())


def check(definition: Definition, note: Any) -> None:
    """Raise a `ConfigError` that names the place unless the sweep can run."""
    base, sweep, space = definition.base, definition.sweep, definition.space
    searched = {key for dimension in space.dimensions for key in dimension.keys}
    if base.train.steps is None and "train.steps" not in searched:
        raise ConfigError("no stopping condition: set train.steps (--steps), or search it")
    if "train.steps" in searched and sweep.prune.waits:
        raise ConfigError(
            "space.train.steps: halving-sync compares trials of one length: leave it out, or take halving"
        )
    for dimension in space.dimensions:
        distribution = dimension.distribution
        ends = distribution.options if distribution.kind == "choice" else (distribution.low, distribution.high)
        for value in ends:
            for key, one in dimension.settings(value).items():
                _check_value(base, key, one, f"space.{dimension.name}")
    if definition.sampler == PBT:
        for key in sorted(searched - set(_FORKABLE)):
            raise ConfigError(
                f"space.{key}: a copy of a member cannot change it. PBT searches settings such as "
                f"{', '.join(_FORKABLE[2:5])}"
            )
        if "linear" in (base.ppo.learning_rate_schedule, base.ppo.entropy_schedule):
            raise ConfigError("PBT finds schedules itself: leave ppo.learning_rate_schedule and entropy_schedule out")
    refused = []
    for index in range(_CHECKED):
        settings = random_settings(space, sweep.seed, index)
        try:
            definition.config(settings, 0)
        except ConfigError as error:
            refused.append(f"{settings}: {error}")
    if len(refused) == _CHECKED:
        raise ConfigError(f"space: every trial would be refused, such as {refused[0]}")
    if refused:
        share = len(refused) / _CHECKED
        note(f"space: about {share:.0%} of its points cannot run and are skipped, such as {refused[0]}")


def _check_value(base: Config, key: str, value: Any, place: str) -> None:
    """Check one setting by itself; whether settings fit each other is checked trial by trial."""
    part, _, name = key.partition(".")
    if part == "env":
        try:
            with_changes(base, {"env": {name: value}})
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
        return
    try:
        type(getattr(base, part)).model_validate({name: value})
    except ValidationError as error:
        raise ConfigError(f"{place}: {part}.{explain_invalid(error)}") from None
