"""Configs: where they come from, which one wins, and what is said about those that cannot be used."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hotloop.config import Config, ConfigError, load_config, packaged_names, presets
from hotloop.config.errors import ALIASES, unknown_key
from hotloop.config.loader import build, read_yaml
from hotloop.config.models import dotted_names
from hotloop.training.api import resolve


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("ppo: {epochs: 7, horizon: 33}\ntrain: {steps: 5}\n")
    config = load_config("cartpole", file=file, overrides=["ppo.horizon=44"])
    assert (config.ppo.epochs, config.ppo.horizon, config.train.steps) == (7, 44, 5)


def test_overrides_are_dotted_and_read_as_yaml() -> None:
    texts = ["ppo.learning_rate=3e-4", "policy.hidden=[8, 9]", "train.until=null", "env.map=8x8", "train.steps=2e4"]
    config = load_config("frozen-lake", overrides=texts)
    assert config.ppo.learning_rate == 3e-4
    assert config.policy.hidden == [8, 9]
    assert config.train.until is None
    assert config.train.steps == 20_000
    assert config.env.options["map"] == "8x8"
    same = {"ppo.learning_rate": 3e-4, "policy": {"hidden": [8, 9]}, "train.until": None, "env.map": "8x8"}
    assert load_config("frozen-lake", overrides={**same, "train.steps": 20_000}) == config


def test_numbers_may_have_exponents_and_suffixes(tmp_path: Path) -> None:
    texts = ["train.steps=2M", "ppo.minibatch_size=1e3", "ppo.horizon=0.5k", "ppo.learning_rate=3e-4"]
    config = load_config("cartpole", overrides=texts)
    assert (config.train.steps, config.ppo.minibatch_size, config.ppo.horizon) == (2_000_000, 1000, 500)
    file = tmp_path / "mine.yaml"
    file.write_text("train: {steps: 1e6}\nppo: {minibatch_size: 1k, learning_rate: 3e-4}\n")
    config = load_config("cartpole", file=file)
    assert (config.train.steps, config.ppo.minibatch_size, config.ppo.learning_rate) == (1_000_000, 1000, 3e-4)
    assert load_config("cartpole", overrides={"train.seed": str(2**64 - 1)}).train.seed == 2**64 - 1


def test_every_alias_leads_to_a_key() -> None:
    for alias in ALIASES:
        assert "Did you mean" in str(unknown_key(alias, dotted_names())), alias


def test_a_wrong_element_of_an_env_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"env\.lengths\[1\] is 'a': expected a whole number"):
        load_config("cage2", overrides=["env.lengths=[30, a]"])
    with pytest.raises(ConfigError, match=r"no config key 'red'. Did you mean 'env.red'"):
        load_config("cage2", overrides=["red=meander"])


def test_a_config_comes_back_from_its_yaml(tmp_path: Path) -> None:
    config = load_config("tag", overrides=["env.seats=3", "ppo.entropy=0.01"])
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert build(read_yaml(path)) == config
    assert set(yaml.safe_load(config.to_yaml())) == {
        "env",
        "wrap",
        "runner",
        "policy",
        "ppo",
        "tabular",
        "train",
        "torch",
        "control",
        "opponents",
        "track",
    }


def test_every_field_is_documented() -> None:
    for part, field in Config.model_fields.items():
        kind: Any = field.annotation
        for name, own in kind.model_fields.items():
            assert own.description, f"{part}.{name}"
            assert own.description.endswith("."), f"{part}.{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("runner.num_envs", "runner.num_threads", "policy.hidden", "policy.memory", "ppo.horizon", "ppo.epochs"),
        *("ppo.minibatch_size", "ppo.learning_rate", "ppo.gamma", "ppo.gae_lambda", "ppo.clip", "ppo.entropy"),
        *("ppo.reward_scale", "train.algorithm", "train.learner", "train.steps", "train.until", "track.interval"),
    ],
)
def test_names_that_scripts_rely_on_are_there(name: str) -> None:
    assert name in dotted_names()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("ppo.epoch=3", "there is no config key 'ppo.epoch'. Did you mean 'ppo.epochs'?"),
        ("learning_rate=3", "Did you mean 'ppo.learning_rate'?"),
        ("train.num_envs=3", "Did you mean 'runner.num_envs'?"),
        ("qqq=3", "keys start with one of control, env, opponents, policy, ppo, runner, tabular, torch, track, train"),
        ("env.forse=3", "there is no config key 'env.forse'. Did you mean 'env.force'?"),
        ("env.force=strong", "env: "),
        ("ppo.gamma=2", "ppo.gamma is 2: expected less than or equal to 1"),
        ("ppo.clip=.nan", "ppo.clip is nan: expected a finite number"),
        ("policy.hidden=[]", "policy.hidden is []"),
        ("policy.hidden=[0]", "policy.hidden has a layer of 0"),
        ("policy.memory=elephant", "policy.memory is 'elephant': expected 'none', 'lstm' or 'gru'"),
        ("policy.memory_size=0", "policy.memory_size is 0: expected greater than or equal to 1"),
        ("policy.memory_layers=17", "policy.memory_layers is 17: expected less than or equal to 16"),
        ("ppo.sequence_length=8", "ppo.sequence_length is 8, but the policy has no memory"),
        ("policy.activation=swish", "policy.activation is 'swish': expected 'tanh', 'relu', 'silu' or 'gelu'"),
        ("ppo.minibatch_size=1000000", "set ppo.minibatch_size to at most"),
        ("ppo.epochs", "'ppo.epochs' is not an override: expected key=value"),
        ("ppo.epochs=[", "is not valid YAML"),
        ("ppo.epochs=2001-13-01", "is not valid YAML"),
        ("ppo.epochs=" + "9" * 5000, "is not valid YAML"),
        ("ppo.epochs=" + "[" * 50_000, "is not valid YAML"),
        ("ppo=3", "there is no config key 'ppo'"),
        ("env.zzz=3", "there is no config key 'env.zzz'. The env's options are: env.max_steps"),
        ("policy.hidden=[64, a]", "policy.hidden[1] is 'a': expected a whole number"),
        ("policy.convolutions=[[16, 3]]", "policy.convolutions[0] is [16, 3]: expected"),
        ("policy.convolutions=[[16, 0, 1]]", "expected channels, kernel size and stride of 1 or more"),
        ("policy.hidden=64", "policy.hidden is 64: expected a list, such as [64, 64]"),
        ("ppo.epochs=many", "ppo.epochs is 'many': expected a whole number"),
        ("ppo.epochs=1.5", "ppo.epochs is 1.5: expected a whole number"),
        ("gravity=9", "there is no config key 'gravity'. Did you mean 'env.gravity'?"),
        ("ppo.lr=3", "there is no config key 'ppo.lr'. Did you mean 'ppo.learning_rate'?"),
        ("lr=3", "Did you mean 'ppo.learning_rate'?"),
        ("tabular.lr=3", "Did you mean 'tabular.learning_rate'?"),
        ("n_steps=3", "Did you mean 'ppo.horizon'?"),
        ("ppo.n_epochs=3", "Did you mean 'ppo.epochs'?"),
        ("ppo.batch_size=3", "Did you mean 'ppo.minibatch_size'?"),
        ("batch_size=3", "Did you mean 'ppo.minibatch_size'?"),
        ("ppo.ent_coef=3", "Did you mean 'ppo.entropy'?"),
        ("vf_coef=3", "Did you mean 'ppo.value_weight'?"),
        ("ppo.clip_range=3", "Did you mean 'ppo.clip'?"),
        ("gae_lambda=1", "Did you mean 'ppo.gae_lambda'?"),
        ("total_timesteps=3", "Did you mean 'train.steps'?"),
    ],
)
def test_mistakes_are_named_with_what_would_do(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("cartpole", overrides=[override])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ppo.sequence_length": 24}, "which does not divide ppo.horizon 64: set it to 16, or change the horizon"),
        ({"ppo.minibatch_size": 100}, "not a multiple of the sequence length 64 (ppo.sequence_length): set it to 128"),
        ({"ppo.sequence_length": 16, "ppo.minibatch_size": 40}, "sequence length 16"),
    ],
)
def test_sequences_must_fit_horizon_and_minibatches(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("cartpole", overrides={"policy.memory": "lstm", "ppo.horizon": 64, **changes})
    assert message in str(caught.value)


def test_a_schedule_needs_an_end() -> None:
    with pytest.raises(ConfigError, match=r"ppo\.entropy_schedule is linear, .* set train\.steps"):
        load_config("cartpole", overrides={"ppo.entropy_schedule": "linear", "train.steps": None})


def test_an_env_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="Did you mean 'cartpole'"):
        load_config("cartpol")


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the config"):
        load_config("cartpole", file=tmp_path / "nothing.yaml")
    for text, message in (("{", "is not valid YAML"), ("3", "holds int"), ("ppo: 3", "section 'ppo' is 3")):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_config("cartpole", file=tmp_path / "bad.yaml")
    (tmp_path / "other.yaml").write_text("env: {name: acrobot}")
    with pytest.raises(ConfigError, match=r"env\.name is 'acrobot'"):
        load_config("cartpole", file=tmp_path / "other.yaml")


def test_a_file_that_would_take_the_machine_down_is_refused(tmp_path: Path) -> None:
    # Ten levels of ten aliases each: ten billion values in a kilobyte.
    bomb = "env:\n  a0: &a0 [0]\n" + "".join(f"  a{i}: &a{i} [{f'*a{i - 1},' * 10}]\n" for i in range(1, 11))
    texts = {
        "nested more than 50 levels": "env: " + "[" * 60_000,
        "more than 50 levels": "env:\n" + "- " * 60_000,
        "more than 100000 values": bomb,
        "100000 values": "env:\n  a: &a [*a]\n",
        "month must be": "env:\n  a: 2001-13-01\n",
    }
    for message, text in texts.items():
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_config("cartpole", file=tmp_path / "bad.yaml")


def test_a_preset_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no preset 'quick'"):
        load_config("cartpole", preset="quick")


@pytest.mark.parametrize("env", packaged_names())
def test_packaged_defaults_can_be_used(env: str) -> None:
    assert load_config(env).env.name == env


@pytest.mark.parametrize("preset", presets())
def test_packaged_presets_can_be_used(preset: str) -> None:
    load_config("cartpole", preset=preset)


def test_a_whole_config_takes_the_arguments_of_train() -> None:
    config = load_config("cartpole", overrides=["ppo.epochs=2"])
    changed = resolve("cartpole", {"steps": 77, "seed": 3}, config, None)
    assert (changed.train.steps, changed.train.seed, changed.ppo.epochs) == (77, 3, 2)
