"""Config of a run: one documented model per section, built from YAML files and `key=value` overrides."""

from hotloop.config.errors import ConfigError
from hotloop.config.loader import load_config, packaged_names, presets
from hotloop.config.models import (
    Config,
    EnvConfig,
    PolicyConfig,
    PPOConfig,
    RunnerConfig,
    TabularConfig,
    TorchConfig,
    TrackConfig,
    TrainConfig,
)

__all__ = [
    "Config",
    "ConfigError",
    "EnvConfig",
    "PPOConfig",
    "PolicyConfig",
    "RunnerConfig",
    "TabularConfig",
    "TorchConfig",
    "TrackConfig",
    "TrainConfig",
    "load_config",
    "packaged_names",
    "presets",
]
