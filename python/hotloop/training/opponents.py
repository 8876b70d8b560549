"""Frozen opponents of a run: policies of other runs, copied into its folder, that play some of the seats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.envs.spec import EnvSpec
from hotloop.errors import ConfigError
from hotloop.loading import batch_policy
from hotloop.policies.spec import policy_spec_from_json
from hotloop.training import checkpoint as checkpoints
from hotloop.training.checkpoint import Checkpoint
from hotloop.training.lookup import find_run
from hotloop.training.trust import stored_config

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.config.models import OpponentsConfig
    from hotloop.policies.protocol import BatchPolicy

_FOLDER: Final = "opponents"
_POLICY: Final = "policy.safetensors"
_MANIFEST: Final = "manifest.json"
LEARNER: Final = "learner"


def find_policy(name: str | Path, home: str | Path | None, *, trust: bool, warn: Callable[[str], None]) -> Checkpoint:
    """Return the checkpoint that a run's name, a run's folder or a checkpoint's folder stands for."""
    return checkpoints.open_policy(find_run(name, home), trust=trust, warn=warn)


def copied(found: Sequence[Checkpoint]) -> dict[str, bytes]:
    """Return files for a run's folder that hold copies of opponents: the run does not need their own any more."""
    return {
        f"{_FOLDER}/{number}/{name}": (opponent.path / name).read_bytes()
        for number, opponent in enumerate(found, 1)
        for name in (_POLICY, _MANIFEST)
    }


def kept(run: Path, config: Config, *, trust: bool) -> list[Checkpoint]:
    """Return the opponents in a run's folder; a damaged one is refused."""
    numbers = range(1, len(config.opponents.policies) + 1)
    return [checkpoints.open_checkpoint(run / _FOLDER / str(n), trust=trust, with_state=False) for n in numbers]


def opponents_of(run: Path, spec: EnvSpec, *, trust: bool) -> Opponents | None:
    """Return the opponents that a run trains against, to evaluate its policy; `None` if there are none."""
    config = stored_config(run, trust=trust)
    if not config.opponents.policies:
        return None
    return Opponents(config.opponents, kept(run, config, trust=trust), spec, config.train.learner)


def find_opponents(
    settings: OpponentsConfig, spec: EnvSpec, *, home: str | Path | None, trust: bool, warn: Callable[[str], None]
) -> Opponents | None:
    """Return the opponents that settings name, to evaluate a policy against them; `None` if they name none."""
    found = [find_policy(name, home, trust=trust, warn=warn) for name in settings.policies]
    # An evaluation builds every policy with the learner that it needs.
    opponents = Opponents(settings, found, spec, "torch")
    return opponents if found else None


class Opponents:
    """The opponents of a run, checked against its env and learner."""

    def __init__(self, settings: OpponentsConfig, found: Sequence[Checkpoint], spec: EnvSpec, learner: str) -> None:
        self._config = settings
        self._names = [f"{name} at step {each.steps}" for name, each in zip(self._config.policies, found, strict=True)]
        self._found = found
        self._spec = spec
        self._seats = spec.seats
        self._check(learner)

    def __len__(self) -> int:
        return len(self._found)

    def _check(self, learner: str) -> None:
        config = self._config
        if bool(config.policies) != bool(config.seats):
            missing = "opponents.seats" if config.policies else "opponents.policies"
            raise ConfigError(f"opponents.policies and opponents.seats belong together: set {missing}")
        for seat in config.seats:
            if not 0 <= seat < self._seats:
                raise ConfigError(f"opponents.seats has {seat}: the env has the seats 0 to {self._seats - 1}")
        if config.policies and len(set(config.seats)) == self._seats:
            raise ConfigError(f"opponents.seats has all {self._seats} seats: leave at least one to the learner")
        for name, opponent in zip(config.policies, self._found, strict=True):
            manifest = opponent.manifest
            if "table" in manifest:
                raise ConfigError(f"opponents.policies has {name!r}, which is a table: only networks can be opponents")
            trained = EnvSpec.from_json(manifest)
            if not trained.fits(self._spec):
                raise ConfigError(
                    f"opponents.policies has {name!r}, which was trained on {manifest['env']} with other spaces: "
                    f"{trained.observation} and {trained.action}, not {self._spec.observation} and {self._spec.action}"
                )
            if learner == "native" and not policy_spec_from_json(manifest["policy"]).native:
                raise ConfigError(
                    f"opponents.policies has {name!r}, whose policy only the torch learner can build: "
                    "set train.learner=torch"
                )

    @property
    def hashes(self) -> list[str]:
        """Identity of each opponent, for the manifest."""
        return [each.manifest["files"][_POLICY]["sha256"] for each in self._found]

    @property
    def notes(self) -> list[str]:
        """The opponents and their seats as text, for the output of a run."""
        if not self._found:
            return []
        seats = ", ".join(map(str, self._config.seats))
        share = self._config.share
        where = "" if share == 1.0 else f" in {share:.0%} of the envs" if share else " in evaluations only"
        return [f"opponents play seat {seats}{where}: {'; '.join(self._names)}"]

    def frozen(self) -> list[tuple[dict[str, Any], checkpoints.Arrays, checkpoints.Arrays]]:
        """Return spec, weights and statistics of each, as learners take them."""
        return [(each.manifest["policy"], *each.policy()) for each in self._found]

    def players(self) -> list[BatchPolicy]:
        """Return policies that act, for evaluations."""
        return [batch_policy(opponent, self._spec) for opponent in self._found]

    def table(self, envs: range, share: float | None = None) -> list[list[int]]:
        """Return the policy of each seat: opponents take turns over the envs that have any."""
        share = self._config.share if share is None else share
        rows = []
        for env in envs:
            row = [0] * self._seats
            # Spread evenly; this many envs before had opponents.
            before = floor(env * share)
            if floor((env + 1) * share) > before:
                for place, seat in enumerate(self._config.seats):
                    row[seat] = 1 + (before + place) % len(self._found)
            rows.append(row)
        return rows

    def evaluation_table(self, envs: range) -> list[list[int]]:
        """Return the policy of each seat in evaluations, which always have opponents."""
        return self.table(envs, share=1.0)

    def names(self, env: int) -> list[str]:
        """Return the name of the policy that plays each seat of an evaluation's env."""
        (row,) = self.evaluation_table(range(env, env + 1))
        return [LEARNER if policy == 0 else self._names[policy - 1] for policy in row]
