"""Frozen opponents of a run: who plays where, whose returns count, and that a run is complete without the others."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop.config import ConfigError, load_config
from hotloop.envs.spec import native_spec
from hotloop.episodes.best_replays import kept as kept_replays
from hotloop.errors import CheckpointError
from hotloop.runners.processes import ProcessRunner
from hotloop.training import Run, TrainingError, verify
from hotloop.training.callbacks import Callback, IterationReport, StartReport
from hotloop.training.evaluation import Opponents as EvaluationOpponents
from hotloop.training.evaluation import evaluate
from hotloop.training.opponents import Opponents, kept
from tests.cli.command import hotloop as hotloop_command
from tests.training.processes import newest_policy

SMALL: dict[str, Any] = {
    "env.seats": 3,
    "env.max_steps": 20,
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.evaluate_every": 5,
    "train.evaluate_episodes": 4,
    "train.checkpoint_every": 4,
    "train.until": None,
    "track.interval": 3,
}
AGAINST = {"opponents.policies": ["one", "two"], "opponents.seats": [1, 2]}
STEPS = 8 * 16 * 12


class Heard(Callback):
    def __init__(self) -> None:
        self.notes: tuple[str, ...] = ()
        self.records: list[IterationReport] = []

    def start(self, report: StartReport) -> None:
        self.notes = report.notes

    def iteration(self, report: IterationReport) -> None:
        self.records.append(report)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two runs that can be opponents: one without memory, one with it."""
    home = tmp_path_factory.mktemp("home")
    hotloop.train("tag", steps=400, config=SMALL, name="one", home=home, seed=5)
    memory = {"policy.memory": "gru", "policy.memory_size": 8, "ppo.normalize_observations": True}
    hotloop.train("tag", steps=400, config={**SMALL, **memory}, name="two", home=home, seed=6)
    return home


def trained(home: Path, name: str, changes: dict[str, Any] | None = None, heard: Heard | None = None) -> Run:
    config = {**SMALL, **AGAINST, **(changes or {})}
    callbacks = [] if heard is None else [heard]
    return hotloop.train("tag", steps=STEPS, config=config, name=name, home=home, callbacks=callbacks)


@pytest.mark.parametrize("learner", ["native", "torch"])
def test_a_run_against_opponents_is_repeated_and_resumed_exactly(learner: str, home: Path) -> None:
    heard = Heard()
    run = trained(home, learner, {"train.learner": learner}, heard)
    assert heard.notes[-1].startswith("opponents play seat 1, 2: one at step ")
    # One of three seats is the learner's, and nobody else's decisions or episodes count.
    assert all(record.steps_in <= 8 * 16 * record.iterations_in for record in heard.records)
    assert run.steps <= 8 * 16 * run.iterations
    assert verify(run.path, home=home).same
    config = {**SMALL, **AGAINST, "train.learner": learner}
    half = hotloop.train("tag", steps=STEPS // 2, config=config, name=f"{learner}-half", home=home)
    assert newest_policy(hotloop.train(resume=half.path, steps=STEPS, home=home).path) == newest_policy(run.path)


def test_what_opponents_earn_never_enters_the_learners_figures(home: Path) -> None:
    heard = Heard()
    run = trained(home, "figures", heard=heard)
    counted = sum(record.episodes_in for record in heard.records)
    everybody = hotloop.train("tag", steps=STEPS * 3, config=SMALL, name="all-seats", home=home)
    assert counted == run.episodes
    assert everybody.episodes == pytest.approx(3 * counted, rel=0.2)


def test_a_run_is_complete_without_the_runs_of_its_opponents(home: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(home / "runs" / name, tmp_path / "runs" / name)
    run = trained(tmp_path, "alone")
    for name in ("one", "two"):
        shutil.rmtree(tmp_path / "runs" / name)
    assert verify(run.path, home=tmp_path).same
    assert hotloop.train(resume="alone", steps=STEPS + 400, home=tmp_path).steps > run.steps
    manifest = json.loads((run.path / "checkpoints" / str(run.steps) / "manifest.json").read_text())
    assert len(manifest["opponents"]) == 2
    (run.path / "opponents" / "2" / "policy.safetensors").write_bytes(b"other")
    with pytest.raises(CheckpointError, match=r"policy\.safetensors does not match its checksum"):
        hotloop.train(resume="alone", home=tmp_path)


def test_replays_and_evaluations_know_who_played_which_seat(home: Path) -> None:
    run = trained(home, "shown")
    replays = [replay for _, replay in kept_replays(run.path / "replays")]
    assert replays
    for replay in replays:
        learner, *others = replay.about["policies"]
        assert learner == "learner"
        assert sorted(other.split()[0] for other in others) == ["one", "two"]
        assert replay.total == pytest.approx(float(replay.rewards[:, 0].sum()))
    done = hotloop_command("eval", str(run.path), "--episodes", "6", "--json", "--no-keep", HOTLOOP_HOME=str(home))
    found = json.loads(done.stdout.splitlines()[-1])
    config = load_config("tag", overrides={**SMALL, **AGAINST})
    opponents = Opponents(
        config.opponents, kept(run.path, config, trust=False), native_spec("tag", config.env.options), "native"
    )
    from hotloop.episodes.episode import fresh_seed

    again = evaluate(
        hotloop.load(run.path).learner,
        "tag",
        config.env.options,
        episodes=6,
        seed=fresh_seed(0),
        opponents=EvaluationOpponents(opponents.players(), opponents.evaluation_table),
    )
    assert (found["mean"], found["episodes"]) == (pytest.approx(again.mean), 6)


def test_opponents_take_turns_in_their_share_of_the_envs(home: Path) -> None:
    config = load_config("tag", overrides={**SMALL, **AGAINST, "opponents.share": 0.5})
    run = trained(home, "share", {"opponents.share": 0.5})
    opponents = Opponents(
        config.opponents, kept(run.path, config, trust=False), native_spec("tag", config.env.options), "native"
    )
    assert opponents.table(range(6)) == [[0, 0, 0], [0, 1, 2], [0, 0, 0], [0, 2, 1], [0, 0, 0], [0, 1, 2]]
    assert opponents.evaluation_table(range(2)) == [[0, 1, 2], [0, 2, 1]]


def test_opponents_may_play_in_evaluations_only(home: Path) -> None:
    heard = Heard()
    run = trained(home, "judged", {"opponents.share": 0.0}, heard)
    assert any("seat 1, 2 in evaluations only: one at step" in note for note in heard.notes)
    # Every row is the learner's in training, and its policy that of self-play.
    free = hotloop.train("tag", steps=STEPS, config=SMALL, name="free", home=home)
    assert newest_policy(run.path) == newest_policy(free.path)
    assert run.evaluation is not None
    assert free.evaluation is not None
    assert run.evaluation.mean != free.evaluation.mean


def test_a_run_is_evaluated_against_opponents_that_are_named(home: Path) -> None:
    def mean(*changes: str) -> float:
        arguments = ("eval", "two", *changes, "--episodes", "5", "--json", "--no-keep")
        done = hotloop_command(*arguments, HOTLOOP_HOME=str(home))
        return float(json.loads(done.stdout.splitlines()[-1])["mean"])

    agent, one = hotloop.load("two", home=home), hotloop.load("one", home=home)
    from hotloop.episodes.episode import fresh_seed

    expected = evaluate(
        agent.learner,
        "tag",
        agent.options,
        episodes=5,
        seed=fresh_seed(0),
        opponents=EvaluationOpponents([one.learner], lambda envs: [[0, 1, 1]] * len(envs)),
    )
    against = mean("opponents.policies=[one]", "opponents.seats=[1,2]")
    assert against == pytest.approx(expected.mean)
    assert against != mean()
    trained(home, "usual")
    refused = hotloop_command(
        "eval", "usual", "opponents.policies=[one]", "opponents.seats=[9]", HOTLOOP_HOME=str(home)
    )
    assert "opponents.seats has 9: the env has the seats 0 to 2" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"opponents.seats": [3]}, "opponents.seats has 3: the env has the seats 0 to 2"),
        ({"opponents.seats": [0, 1, 2]}, "leave at least one to the learner"),
        ({"opponents.seats": []}, "set opponents.seats"),
        ({"opponents.policies": []}, "set opponents.policies"),
        ({"opponents.policies": ["three"]}, "there is no run 'three'"),
        ({"env.observation": "grid"}, "which was trained on tag with other spaces"),
    ],
)
def test_opponents_that_cannot_play_are_refused_at_the_start(changes: dict[str, Any], why: str, home: Path) -> None:
    with pytest.raises(TrainingError if "three" in why else ConfigError, match=why):
        trained(home, "refused", changes)
    assert not (home / "runs" / "refused").exists()


def test_a_users_module_is_an_opponent_of_the_torch_learner(home: Path) -> None:
    module = {"policy.module": "tests.ppo.torch.policies:Counting", "train.learner": "torch", "ppo.epochs": 1}
    hotloop.train("tag", steps=200, config={**SMALL, **module}, name="module", home=home)
    against = {"opponents.policies": ["module"], "opponents.seats": [1, 2], "train.evaluate_every": 0}
    with pytest.raises(
        ConfigError, match=r"'module', whose policy only the torch learner can build: set train\.learner"
    ):
        hotloop.train("tag", steps=200, config={**SMALL, **against}, home=home)
    run = hotloop.train(
        "tag", steps=200, config={**SMALL, **against, "train.learner": "torch"}, name="meets-module", home=home
    )
    assert run.evaluation is not None
    again = hotloop.train(resume="meets-module", steps=400, home=home)
    assert again.steps > run.steps


def test_a_table_cannot_be_an_opponent(home: Path) -> None:
    hotloop.train("tictactoe", steps=1000, config={"train.algorithm": "q-learning"}, name="table", home=home)
    with pytest.raises(ConfigError, match="only networks can be opponents"):
        trained(home, "refused", {"opponents.policies": ["table"]})


def test_episodes_of_process_workers_count_for_the_learners_rows_only() -> None:
    with ProcessRunner("tests.training.opponent_env:Two", 4, num_workers=1, autoreset_mode="same_step") as runner:
        runner.set_policies([[0, 1]] * 3 + [[0, 0]])
        runner.reset(seed=0)
        for _ in range(5):
            runner.step(np.zeros(8, np.int64))
        assert sorted(runner._take_episodes()["rows"].tolist()) == [0, 2, 4, 6, 7]
