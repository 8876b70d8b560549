"""Errors of configs: unknown keys, answered with the key that was probably meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from hotloop.errors import ConfigError

__all__ = ["ConfigError", "unknown_key"]

# Names that other libraries use, with ours.
ALIASES: Final = {
    "lr": "learning_rate",
    "alpha": "tabular.learning_rate",
    "n_steps": "ppo.horizon",
    "num_steps": "ppo.horizon",
    "rollout_length": "ppo.horizon",
    "n_epochs": "ppo.epochs",
    "update_epochs": "ppo.epochs",
    "num_epochs": "ppo.epochs",
    "batch_size": "ppo.minibatch_size",
    "mini_batch_size": "ppo.minibatch_size",
    "ent_coef": "ppo.entropy",
    "entropy_coef": "ppo.entropy",
    "vf_coef": "ppo.value_weight",
    "value_coef": "ppo.value_weight",
    "clip_range": "ppo.clip",
    "clip_coef": "ppo.clip",
    "clip_param": "ppo.clip",
    "clip_range_vf": "ppo.value_clip",
    "lam": "ppo.gae_lambda",
    "lambda": "ppo.gae_lambda",
    "max_grad_norm": "ppo.max_gradient_norm",
    "grad_clip": "ppo.max_gradient_norm",
    "discount": "gamma",
    "normalize_advantage": "ppo.normalize_advantages",
    "norm_adv": "ppo.normalize_advantages",
    "eps": "ppo.epsilon",
    "exploration_rate": "tabular.exploration",
    "buffer_size": "tabular.replay_size",
    "n_envs": "runner.num_envs",
    "nenvs": "runner.num_envs",
    "n_workers": "runner.num_workers",
    "frameskip": "wrap.frame_skip",
    "n_stack": "wrap.frame_stack",
    "max_episode_steps": "wrap.time_limit",
    "repeat_action_probability": "wrap.sticky_actions",
    "normalise_observation": "ppo.normalize_observations",
    "normalize_observation": "ppo.normalize_observations",
    "normalise_reward": "ppo.normalize_rewards",
    "normalize_reward": "ppo.normalize_rewards",
    "total_timesteps": "train.steps",
    "timesteps": "train.steps",
    "total_steps": "train.steps",
    "max_steps": "train.steps",
    "net_arch": "policy.hidden",
    "hidden_sizes": "policy.hidden",
    "activation_fn": "policy.activation",
    "lstm_hidden_size": "policy.memory_size",
    "hidden_size": "policy.memory_size",
    "log_std_init": "policy.log_std",
}


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown dotted key, with the key that was probably meant."""
    names = list(known)
    meant = _meant(key, names)
    if meant is not None:
        return ConfigError(f"there is no config key {key!r}. Did you mean {meant!r}?")
    sections = sorted({name.partition(".")[0] for name in names})
    if sections == ["env"]:
        options = ", ".join(name for name in names if name != "env.name")
        return ConfigError(f"there is no config key {key!r}. The env's options are: {options or 'none'}.")
    return ConfigError(f"there is no config key {key!r}: keys start with one of {', '.join(sections)}.")


def _meant(key: str, names: Sequence[str]) -> str | None:
    section, _, last = key.rpartition(".")
    alias = ALIASES.get(last.lower())
    if alias is not None and section != "env":
        for name in (f"{section}.{alias.rpartition('.')[2]}", alias, f"ppo.{alias}"):
            if name in names:
                return name
    # The right name in a wrong section, or without one; the first section that has it.
    by_last = {name.rpartition(".")[2]: name for name in reversed(names)}
    if last in by_last:
        return by_last[last]
    if near := get_close_matches(key, names, n=1, cutoff=0.6):
        return near[0]
    return by_last[near[0]] if (near := get_close_matches(last, by_last, n=1, cutoff=0.6)) else None
