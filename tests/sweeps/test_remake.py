"""Any trial's policy is made again from its line, whatever it went through."""

from pathlib import Path
from typing import Any

import pytest

from hotloop.errors import TrainingError
from hotloop.sweeps.remake import remake_trial
from tests.sweeps.small import SMALL, finish, new_sweep

KINDS: dict[str, dict[str, Any]] = {
    "pruned": {"trials": 10, "sampler": "sobol", "lag": 2, "prune": {"by": "halving", "first": 1}},
    "halving-sync": {"trials": 6, "sampler": "random", "prune": {"by": "halving-sync", "first": 2048, "factor": 2}},
    "seeds": {"trials": 8, "sampler": "sobol", "lag": 2, "seeds": 3, "prune": {"by": "median", "first": 512}},
    "pbt": {"sampler": "pbt", "pbt": {"population": 4, "interval": 1024, "quantile": 0.5}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_trials_are_made_again_bit_for_bit(kind: str, tmp_path: Path) -> None:
    fixed = {**SMALL, "runner.num_envs": 8}
    sweep = finish(new_sweep(tmp_path, fixed=fixed, **KINDS[kind]))
    trials = sweep.trials
    if kind == "seeds":
        # Some of them stopped between two seeds.
        assert any(trial.state == "pruned" and trial.values for trial in trials)
    elif kind != "pbt":
        assert any(trial.state == "pruned" for trial in trials)
    if kind == "pbt":
        assert any(segment["is_fork"] for trial in trials for segment in trial.lineage)
    for trial in trials:
        assert remake_trial(sweep.definition, trial).differences == ()


def test_a_kept_run_has_the_weights_of_its_trial(tmp_path: Path) -> None:
    import hashlib

    sweep = finish(new_sweep(tmp_path, trials=3, sampler="sobol", keep=2))
    assert len(sweep.kept) == 2
    hashes = {trial.index: trial.sha256 for trial in sweep.trials}
    for index, run in sweep.kept.items():
        (policy,) = (tmp_path / "runs" / run / "checkpoints").glob("*/policy.safetensors")
        assert hashlib.sha256(policy.read_bytes()).hexdigest() == hashes[index]


def test_a_refused_trial_cannot_be_made_again(tmp_path: Path) -> None:
    space = {"ppo.minibatch_size": "pow2(2048, 4096)"}
    sweep = finish(new_sweep(tmp_path, space=space, trials=2, sampler="grid"))
    refused = next(trial for trial in sweep.trials if trial.state == "refused")
    with pytest.raises(TrainingError, match="was refused, nothing was trained"):
        remake_trial(sweep.definition, refused)
