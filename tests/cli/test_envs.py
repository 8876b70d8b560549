"""`hotloop envs` lists every env, shows one in full, and gives the same as JSON."""

import dataclasses
import json

import pytest

import hotloop
from hotloop.envs.registry import EnvEntry
from tests.cli.command import complaint, hotloop_json
from tests.cli.command import hotloop as command

ENVS = hotloop.list_envs()


def test_every_env_is_listed_with_its_spaces() -> None:
    done = command("envs")
    assert done.returncode == 0
    assert done.stderr == ""
    for env in ENVS:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{env.name} ")]
        assert env.observation in line
        assert env.action in line


def test_json_gives_an_object_per_env() -> None:
    *events, end = hotloop_json("envs")
    assert end == {"event": "end", "envs": len(ENVS)}
    as_listed = json.loads(json.dumps([dataclasses.asdict(env) for env in ENVS]))
    assert [event for event in events if event["event"] == "env"] == [{"event": "env", **env} for env in as_listed]
    adapters = {event["prefix"]: event["installed"] for event in events if event["event"] == "adapter"}
    assert adapters["gymnasium:"] is adapters[""] is True


def test_json_of_one_env() -> None:
    env, end = hotloop_json("envs", "tag")
    assert env["name"] == "tag"
    assert env["options"]
    assert end["envs"] == 1


@pytest.mark.parametrize("env", ENVS, ids=lambda env: env.name)
def test_one_env_is_shown_in_full(env: EnvEntry) -> None:
    shown = " ".join(command("envs", env.name).stdout.split())
    for word in (env.gymnasium_id, *env.terms, *env.metrics, *env.infos, *env.state):
        assert word in shown
    for option in env.options:
        assert f" {option.name} " in shown
        assert all(word in shown for word in option.choices or ())


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_an_unknown_env_suggests_the_nearest(extra: list[str]) -> None:
    assert complaint("envs", "cartpol", *extra) == "hotloop: there is no env 'cartpol'; did you mean 'cartpole'?"


def test_an_env_like_no_other_points_to_the_list() -> None:
    assert complaint("envs", "zzz") == "hotloop: there is no env 'zzz'; 'hotloop envs' lists them"
