"""Settings of the orchestrator: where they are accepted, and what is refused."""

from pathlib import Path

import pytest

from hotloop.config import load_config
from hotloop.config.orchestrator import OrchestratorConfig, load_settings
from hotloop.errors import ConfigError


def test_every_setting_is_documented_as_it_is_declared(repository: Path) -> None:
    page = (repository / "docs" / "jobs.md").read_text()
    for name, field in OrchestratorConfig.model_fields.items():
        assert f"| `orchestrator.{name}` | {field.default} | {field.description} |" in page


def test_settings_come_from_a_file_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("orchestrator: {base_limit: 2, max_limit: 6}\n")
    found = load_settings(file, ["orchestrator.max_limit=4"])
    assert (found.base_limit, found.max_limit, found.increase_step) == (2, 4, 2)


def test_a_runs_config_may_have_the_section_and_is_not_changed_by_it(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("ppo: {epochs: 2}\norchestrator: {base_limit: 2}\n")
    assert load_config("cartpole", file=file) == load_config("cartpole", overrides=["ppo.epochs=2"])
    with pytest.raises(ConfigError, match=r"no setting orchestrator.base_limt; did you mean orchestrator.base_limit"):
        load_config("cartpole", overrides=["orchestrator.base_limt=2"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("orchestrator.max_limit=4", "base_limit is 8: expected a number from min_limit"),
        ("orchestrator.adaptation_interval=0", "adaptation_interval is 0: input should be greater than 0"),
        ("ppo.epochs=3", "ppo is not a setting of the orchestrator"),
    ],
)
def test_settings_that_cannot_work_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(overrides=[override])
