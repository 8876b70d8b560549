"""Specs of envs: made from descriptions, and written as manifests keep them."""

import json
from typing import Any

import pytest

from hotloop import _core
from hotloop.envs.spec import EnvSpec, native_spec

ENVS: list[tuple[str, dict[str, Any]]] = [
    ("cartpole", {}),
    ("pendulum", {}),
    ("frozen-lake", {}),
    ("tag", {"observation": "grid"}),
    ("cage2", {}),
]


@pytest.mark.parametrize(("env", "options"), ENVS)
def test_a_spec_is_written_as_the_core_describes_it_and_read_back(env: str, options: dict[str, Any]) -> None:
    description = _core.describe(env, options)
    spec = native_spec(env, options)
    written = spec.to_json()
    assert written == {key: description[key] for key in ("seats", "observation", "action", "masked")}
    read = EnvSpec.from_json(json.loads(json.dumps(written)))
    assert (read.seats, read.observation, read.action, read.masked) == (
        spec.seats,
        spec.observation,
        spec.action,
        spec.masked,
    )


def test_a_spec_has_what_is_measured_and_the_fields_of_the_state() -> None:
    spec = native_spec("cage2")
    description = _core.describe("cage2")
    assert (list(spec.terms), list(spec.metrics), list(spec.infos)) == (
        description["terms"],
        description["metrics"],
        description["infos"],
    )
    assert spec.state_version == description["state_version"]
    assert spec.state == tuple(name for name, _, _ in description["state"])


def test_policies_fit_envs_with_equal_spaces_and_masks_only() -> None:
    assert native_spec("cartpole").fits(native_spec("cartpole"))
    assert not native_spec("cartpole").fits(native_spec("acrobot"))
    assert not native_spec("tag").fits(native_spec("tag", {"observation": "grid"}))
