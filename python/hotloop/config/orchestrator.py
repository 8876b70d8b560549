"""Settings of the orchestrator. They are not part of a run's config: any orchestrator gives a run the same result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from hotloop.config.loader import ORCHESTRATOR as SECTION
from hotloop.config.loader import parse_overrides, read_yaml
from hotloop.config.models import Part
from hotloop.errors import ConfigError


class OrchestratorConfig(Part):
    """Limits of the jobs that run at a time, and how they adapt."""

    base_limit: int = Field(default=8, ge=1, description="Jobs that may run at a time when the orchestrator starts.")
    min_limit: int = Field(default=1, ge=1, description="Lower bound of the adaptive limit.")
    max_limit: int = Field(default=32, ge=1, description="Upper bound of the adaptive limit.")
    increase_step: int = Field(
        default=2, ge=1, description="Step of a probe upwards; 1 while jobs wait for cores more than 5 % of their time."
    )
    decrease_step: int = Field(default=1, ge=1, description="Step of a probe downwards.")
    queue_high_watermark: float = Field(
        default=0.8,
        ge=0,
        description="The limit is raised only while running and queued jobs exceed this fraction of it.",
    )
    gpu_wait_high: float = Field(
        default=5.0, ge=0, description="The limit is not raised while jobs wait longer for a GPU, in seconds (mean)."
    )
    error_rate_high: float = Field(
        default=0.1, ge=0, le=1, description="A larger fraction of deaths in the last 20 attempts halves the limit."
    )
    adaptation_interval: float = Field(default=30.0, gt=0, description="Seconds between decisions about the limit.")
    rl_task_priority: int = Field(
        default=10, description="Priority of `train` and `sweep` jobs without one of their own; that of others is 0."
    )
    batch_size: int = Field(default=64, ge=1, description="Most jobs that are started in one transaction.")
    max_concurrent_tasks: int = Field(
        default=16, ge=1, description="Upper bound of the adaptive limit besides max_limit; the lower one counts."
    )


def load_settings(file: Path | None = None, overrides: Sequence[str] = ()) -> OrchestratorConfig:
    """Return the settings of a YAML file (section `orchestrator`) and of `orchestrator.KEY=VALUE` overrides.

    >>> load_settings(overrides=["orchestrator.max_limit=4", "orchestrator.base_limit=2"]).max_limit
    4
    """
    parts: dict[str, Any] = {} if file is None else dict(read_yaml(file).get(SECTION) or {})
    given = parse_overrides(overrides)
    if others := [section for section in given if section != SECTION]:
        raise ConfigError(f"{others[0]} is not a setting of the orchestrator: expected orchestrator.KEY=VALUE")
    return build_settings(parts | given.get(SECTION, {}))


def build_settings(values: Mapping[str, Any]) -> OrchestratorConfig:
    """Return checked settings."""
    from difflib import get_close_matches

    known = list(OrchestratorConfig.model_fields)
    for key in values:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {SECTION}.{near[0]}?" if near else f": expected one of {', '.join(known)}"
            raise ConfigError(f"there is no setting {SECTION}.{key}{hint}")
    try:
        settings = OrchestratorConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{SECTION}.{first['loc'][0]} is {first['input']!r}: {first['msg'].lower()}") from None
    if not settings.min_limit <= settings.base_limit <= settings.max_limit:
        raise ConfigError(
            f"{SECTION}.base_limit is {settings.base_limit}: expected a number from min_limit "
            f"({settings.min_limit}) to max_limit ({settings.max_limit})"
        )
    return settings
