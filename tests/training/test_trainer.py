"""The trainer: limits, events, evaluation, trouble, repetition."""

import hashlib
import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import _core, files
from hotloop.config import ConfigError
from hotloop.errors import TrainingError
from hotloop.policies.evaluation import Evaluation
from hotloop.training import Callback, verify
from hotloop.training.callbacks import (
    CheckpointReport,
    EvaluationReport,
    IterationReport,
    ProgressReport,
    StartReport,
    TroubleReport,
)
from hotloop.training.checkpoint import checkpoint_paths
from hotloop.training.evaluation import Progress, evaluate, evaluation_seed
from hotloop.training.runs import Run
from hotloop.training.session import Session
from tests.training.processes import recorded

SMALL: dict[str, Any] = {
    "runner.num_envs": 8,
    "ppo.horizon": 16,
    "ppo.epochs": 4,
    "ppo.gamma": 0.99,
    "ppo.learning_rate": 1e-3,
    "ppo.minibatch_size": 64,
    "policy.hidden": [16],
    "train.checkpoint_every": 0,
    "train.evaluate_episodes": 0,
    "train.until": None,
    "track.interval": 4,
}
ITERATION = 8 * 16


class Log(Callback):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def start(self, report: StartReport) -> None:
        self.events.append(("start", report))

    def progress(self, report: ProgressReport) -> None:
        self.events.append(("progress", report))

    def iteration(self, report: IterationReport) -> None:
        self.events.append(("iteration", report))

    def evaluation(self, report: EvaluationReport) -> None:
        self.events.append(("evaluation", report))

    def checkpoint(self, report: CheckpointReport) -> None:
        self.events.append(("checkpoint", report))

    def trouble(self, report: TroubleReport) -> None:
        self.events.append(("trouble", report))

    def end(self, run: Run) -> None:
        self.events.append(("end", run))

    def of(self, event: str) -> list[Any]:
        return [report for name, report in self.events if name == event]


def train(home: Path, log: Log | None = None, env: str = "cartpole", **changes: Any) -> Run:
    config = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    return hotloop.train(env, config=config, home=home, callbacks=[log] if log else [])


def test_a_run_ends_with_the_first_iteration_that_reaches_its_steps(tmp_path: Path) -> None:
    assert train(tmp_path, train__steps=10 * ITERATION).steps == 10 * ITERATION
    run = train(tmp_path, train__steps=10 * ITERATION + 1)
    assert (run.steps, run.ended) == (11 * ITERATION, "steps")


def test_a_run_ends_with_its_episodes_or_minutes(tmp_path: Path) -> None:
    run = train(tmp_path, train__episodes=30)
    assert run.ended == "episodes"
    assert run.episodes >= 30
    run = train(tmp_path, train__minutes=0.2 / 60)
    assert run.ended == "minutes"
    assert run.seconds >= 0.2


def test_a_run_without_an_end_is_refused(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {f"train__{limit}": None for limit in ("steps", "episodes", "minutes", "until")}
    with pytest.raises(TrainingError, match=r"train\.steps"):
        train(tmp_path, **nothing)
    assert not (tmp_path / "runs").exists()


def test_events_come_in_order_and_add_up(tmp_path: Path) -> None:
    log = Log()
    run = train(
        tmp_path,
        log,
        train__steps=22 * ITERATION,
        train__checkpoint_every=10,
        train__evaluate_every=8,
        train__evaluate_episodes=5,
        track__statistics_every=8,
    )
    assert log.events[0][0] == "start"
    assert log.events[-1] == ("end", run)
    records = log.of("iteration")
    assert [record.iterations for record in records] == [4, 8, 12, 16, 20, 22]
    assert sum(record.steps_in for record in records) == run.steps
    assert sum(record.episodes_in for record in records) == run.episodes
    assert [record.statistics is not None for record in records] == [False, True, False, True, False, False]
    assert [report.iterations for report in log.of("evaluation")] == [8, 16, 22]
    assert {10, 20, 22} <= {report.iterations for report in log.of("checkpoint")}
    for record in records:
        assert record.time.total == pytest.approx(record.seconds_in, rel=1e-6)
        assert record.gradient_steps == record.iterations_in * 4 * 2
        assert math.isfinite(record.losses["explained_variance"])
    statistics = records[1].statistics
    assert statistics.weights.keys() == statistics.gradients.keys()
    assert sum(statistics.actions["shares"][0]) == pytest.approx(1)


def test_records_equal_the_reports_of_callbacks(tmp_path: Path) -> None:
    log = Log()
    run = train(tmp_path, log, train__steps=22 * ITERATION, train__evaluate_episodes=5)
    lines = recorded(run.path)
    assert [line["event"] for line in lines] == ["iteration"] * 6 + ["evaluation"]
    for line, record in zip(lines, log.of("iteration"), strict=False):
        assert line["steps"] == record.steps
        assert line["value_loss"] == pytest.approx(record.losses["value_loss"], rel=1e-8)
    assert json.loads((run.path / "run.json").read_text())["status"] == "finished"


def test_a_solved_run_was_confirmed_by_an_evaluation(tmp_path: Path) -> None:
    log = Log()
    run = train(tmp_path, log, train__steps=10**6, train__until=15.0, train__evaluate_episodes=20)
    assert run.solved
    assert run.return_mean >= 15.0
    (confirmed,) = [report for report in log.of("evaluation") if report.evaluation.mean >= 15.0]
    assert confirmed.confirms
    assert run.best is not None
    assert run.best.mean >= 15.0
    assert hotloop.load(run.path).steps == run.steps


def test_training_returns_alone_do_not_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.evaluate

    def poor(self: Session, progress: Progress | None = None) -> Evaluation:
        return replace(real(self, progress), mean=1.0)

    monkeypatch.setattr(Session, "evaluate", poor)
    log = Log()
    run = train(tmp_path, log, train__steps=100 * ITERATION, train__until=10.0, train__evaluate_episodes=5)
    assert run.ended == "steps"
    asked = [report for report in log.of("evaluation") if report.confirms]
    # Asked for again only when enough new episodes have finished.
    assert 1 <= len(asked) <= run.episodes / 100


def test_an_evaluation_is_a_function_of_policy_and_seed() -> None:
    learner = _core.PpoLearner("cartpole", None, {"hidden": [8]}, rows=1, horizon=1, seed=0)
    one = evaluate(learner, "cartpole", {}, episodes=50, seed=evaluation_seed(3), num_threads=1)
    two = evaluate(learner, "cartpole", {}, episodes=50, seed=evaluation_seed(3), num_threads=2)
    other = evaluate(learner, "cartpole", {}, episodes=50, seed=evaluation_seed(4))
    assert one == two
    assert one != other
    assert one.low < one.mean < one.high
    assert one.episodes == 50


def test_seats_that_nobody_takes_do_not_count() -> None:
    options = {"seats": 8, "players": 5, "max_steps": 6}
    learner = _core.PpoLearner("tag", options, {"hidden": [8]}, rows=1, horizon=1, seed=0)
    found = evaluate(learner, "tag", options, episodes=40, seed=0)
    assert found.episodes == 40
    # The mean over the agents that play: empty seats would make it 6 * 5 / 8 at most.
    assert found.length_mean > 5


def test_an_evaluation_counts_each_env_once_and_cuts_what_never_ends() -> None:
    learner = _core.PpoLearner("cliff-walking", None, {"hidden": [8]}, rows=1, horizon=1, seed=0)
    found = evaluate(learner, "cliff-walking", {}, episodes=3, seed=0)
    assert found.episodes == 3
    assert found.length_mean <= 10_000
    assert math.isfinite(found.mean)


def test_a_confidence_interval_is_students() -> None:
    returns = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    found = Evaluation.of(returns, np.ones(5), {})
    assert found.mean == 3.0
    # t(0.975, 4) = 2.776, standard error sqrt(2.5 / 5)
    assert found.high - found.mean == pytest.approx(2.776 * math.sqrt(0.5), rel=2e-3)


def test_a_learning_rate_that_explodes_rolls_back_and_stops_with_the_batch(tmp_path: Path) -> None:
    log = Log()
    with pytest.raises(TrainingError, match=r"not-finite\.safetensors"):
        train(tmp_path, log, train__steps=10**6, ppo__learning_rate=1e30, ppo__max_gradient_norm=1e30, ppo__gamma=1.0)
    backs = log.of("trouble")
    assert [report.attempt for report in backs] == [1, 2, 3]
    assert all(report.back_to == 0 for report in backs)
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "not-finite.safetensors").stat().st_size > 0
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    lines = recorded(run)
    assert all(line["event"] == "trouble" or line["steps"] > 0 for line in lines)


def test_a_rollback_goes_to_the_last_checkpoint_with_half_the_rate_and_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Session.advance
    failed: list[int] = []

    def failing(self: Session, count: int, seconds: float, *progress: Any) -> None:
        real(self, count, seconds, *progress)
        if self.counters.iterations == 16 and not failed:
            failed.append(self.counters.steps)
            self.counters.since.dropped = 5

    monkeypatch.setattr(Session, "advance", failing)
    log = Log()
    run = train(tmp_path, log, train__steps=24 * ITERATION, train__checkpoint_every=10)
    (back,) = log.of("trouble")
    assert (back.back_to, back.attempt) == (10 * ITERATION, 1)
    records = log.of("iteration")
    assert [record.iterations for record in records] == [4, 8, 12, 12, 16, 20, 24]
    assert records[-1].learning_rate == records[0].learning_rate / 2
    assert records[2].losses["value_loss"] != records[3].losses["value_loss"]
    lines = recorded(run.path)
    assert [line["iterations"] for line in lines if line["event"] == "iteration"] == [4, 8, 12, 16, 20, 24]
    assert run.steps == 24 * ITERATION


def test_a_run_that_was_rolled_back_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.advance

    def failing(self: Session, count: int, seconds: float, *progress: Any) -> None:
        real(self, count, seconds, *progress)
        if self.counters.iterations == 16 and self.counters.attempt == 0:
            self.counters.since.dropped = 5

    class Interrupt(Callback):
        def iteration(self, report: IterationReport) -> None:
            if report.iterations == 20:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Session, "advance", failing)
    whole = train(tmp_path, train__steps=30 * ITERATION, train__checkpoint_every=10)
    config = {**SMALL, "train.steps": 30 * ITERATION, "train.checkpoint_every": 10}
    broken = hotloop.train("cartpole", config=config, home=tmp_path, callbacks=[Interrupt()])
    assert broken.ended == "interrupted"
    hotloop.train(resume=broken.path)
    one, two = (checkpoint_paths(run.path / "checkpoints")[-1] / "policy.safetensors" for run in (whole, broken))
    assert one.read_bytes() == two.read_bytes()


def test_a_rollback_at_the_very_end_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.advance

    def failing(self: Session, count: int, seconds: float, *progress: Any) -> None:
        real(self, count, seconds, *progress)
        if self.counters.iterations == 22 and self.counters.attempt == 0:
            self.counters.since.dropped = 5

    monkeypatch.setattr(Session, "advance", failing)
    log = Log()
    run = train(tmp_path, log, train__steps=22 * ITERATION, train__checkpoint_every=10)
    assert [report.back_to for report in log.of("trouble")] == [20 * ITERATION]
    assert (run.steps, run.ended) == (22 * ITERATION, "steps")


def test_a_few_dropped_steps_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.advance

    def failing(self: Session, count: int, seconds: float, *progress: Any) -> None:
        real(self, count, seconds, *progress)
        self.counters.since.dropped = 1

    monkeypatch.setattr(Session, "advance", failing)
    log = Log()
    train(tmp_path, log, train__steps=8 * ITERATION)
    assert [report.what for report in log.of("trouble")] == ["1 non-finite gradient steps were skipped"] * 2


@pytest.mark.parametrize("ends", ["steps", "until", "init"])
def test_a_run_that_is_repeated_is_the_same(ends: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "train__steps": 30 * ITERATION,
        "train__evaluate_episodes": 5,
        "train__checkpoint_every": 7,
    }
    if ends == "until":
        changes |= {"train__steps": 10**6, "train__until": 15.0}
    first = train(tmp_path, **changes)
    if ends == "init":
        config = {**SMALL, "train.seed": 8}
        first = hotloop.train("cartpole", steps=3000, config=config, init_from=first.path, home=tmp_path)
    reports = verify(first.path)
    assert reports.same, reports
    assert reports.steps == first.steps
    assert reports.records > 2


def test_a_run_that_was_tampered_with_is_found_out(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=12 * ITERATION)
    metrics = run.path / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    reports = json.loads(lines[2])
    assert reports["event"] == "iteration"
    lines[2] = json.dumps({**reports, "return_mean": reports["return_mean"] + 1})
    metrics.write_text("\n".join(lines) + "\n")
    found = verify(run.path)
    assert found.same_policy
    assert not found.same
    assert found.differences[0].startswith("iteration at iteration 8: return_mean was")
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("gamma: 0.99", "gamma: 0.98"))
    assert not verify(run.path).same_policy


def test_every_checkpoint_that_was_kept_is_verified(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=12 * ITERATION, train__checkpoint_every=5)
    oldest, _, newest = sorted((run.path / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    assert verify(run.path).same
    policy = oldest / "policy.safetensors"
    policy.write_bytes(policy.read_bytes()[:-1] + b"x")
    found = verify(run.path)
    assert found.same_policy
    assert f"{oldest} is damaged" in found.differences[0]
    # With a checksum that fits it is no damage, but it is still not what the run made.
    manifest = json.loads((oldest / "manifest.json").read_text())
    manifest["files"]["policy.safetensors"]["sha256"] = hashlib.sha256(policy.read_bytes()).hexdigest()
    del manifest["sha256"]
    (oldest / "manifest.json").write_bytes(files.seal(manifest))
    assert verify(run.path).differences == (f"the checkpoint at step {oldest.name}: the weights differ",)
    (newest / "policy.safetensors").write_bytes(b"")
    assert any(f"{newest} is damaged" in difference for difference in verify(run.path).differences)


def test_debugging_gives_the_same_weights_and_every_iteration(tmp_path: Path) -> None:
    log = Log()
    run = hotloop.train("cartpole", steps=8 * ITERATION, config=SMALL, debug=True, home=tmp_path, callbacks=[log])
    plain = train(tmp_path, train__steps=8 * ITERATION)
    assert [record.iterations_in for record in log.of("iteration")] == [1] * 8
    resumed = Log()
    started = train(tmp_path / "resumed", train__steps=2 * ITERATION)
    hotloop.train(resume=started.path, steps=8 * ITERATION, debug=True, callbacks=[resumed])
    assert [record.iterations for record in resumed.of("iteration")] == [3, 4, 5, 6, 7, 8]
    assert "interval: 4" in (started.path / "config.yaml").read_text()
    assert verify(started.path).same
    ends = (checkpoint_paths(each.path / "checkpoints")[-1] for each in (run, plain, started))
    assert len({(end / "policy.safetensors").read_bytes() for end in ends}) == 1


def test_debugging_names_the_array_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticError, match=r"is (inf|-inf|nan), and"):
        hotloop.train(
            "cartpole",
            steps=80 * ITERATION,
            config={**SMALL, "ppo.learning_rate": 3e38, "ppo.max_gradient_norm": 1e30},
            debug=True,
            home=tmp_path,
        )


def test_a_callback_that_fails_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    class Failing(Callback):
        def iteration(self, report: IterationReport) -> None:
            if report.iterations == 12:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        hotloop.train(
            "cartpole",
            steps=20 * ITERATION,
            config={**SMALL, "train.checkpoint_every": 5},
            callbacks=[Failing()],
            home=tmp_path,
            name="run",
        )
    assert json.loads((tmp_path / "runs" / "run" / "run.json").read_text())["status"] == "failed"
    assert hotloop.train(resume="run", home=tmp_path).steps == 20 * ITERATION


def test_resume_takes_only_limits(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=4 * ITERATION)
    with pytest.raises(TrainingError, match="seed cannot be given with resume"):
        hotloop.train(resume=run.path, seed=1)
    with pytest.raises(TrainingError, match="trains 'cartpole', not 'acrobot'"):
        hotloop.train("acrobot", resume=run.path)
    with pytest.raises(TrainingError, match="there is no run"):
        hotloop.train(resume="nothing", home=tmp_path)
    further = hotloop.train(resume=run.path, steps=9 * ITERATION)
    assert further.steps == 9 * ITERATION


def test_other_settings_on_resume_are_answered_with_init_from(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=4 * ITERATION)
    with pytest.raises(
        TrainingError, match=rf"ppo\.learning_rate cannot be given with resume.* --init-from {run.path}"
    ):
        hotloop.train(resume=run.path, config={"ppo.learning_rate": 1e-4})


def test_a_callback_that_returns_false_ends_the_run_with_an_evaluation_and_a_checkpoint(tmp_path: Path) -> None:
    class Enough(Log):
        def iteration(self, report: IterationReport) -> bool:  # type: ignore[override]
            super().iteration(report)
            return report.iterations < 8

    log = Enough()
    run = train(tmp_path, log, train__steps=100 * ITERATION, train__evaluate_episodes=2)
    assert (run.ended, run.iterations) == ("callback", 8)
    assert run.evaluation is not None
    assert log.of("checkpoint")[-1].iterations == 8
    assert verify(run.path).same
    # It is not finished: without the callback it goes on to its own limit.
    assert hotloop.train(resume=run.path).steps == 100 * ITERATION


def test_callbacks_may_return_anything_else(tmp_path: Path) -> None:
    class Chatty(Log):
        def iteration(self, report: IterationReport) -> Any:
            return 0.0

    assert train(tmp_path, Chatty(), train__steps=8 * ITERATION).ended == "steps"


def test_a_run_that_was_solved_goes_on_to_new_steps_whatever_until_says(tmp_path: Path) -> None:
    log = Log()
    run = hotloop.train("cartpole", until=30, home=tmp_path, callbacks=[log])
    assert run.solved
    again = hotloop.train(resume=run.path, callbacks=[log])
    assert (again.ended, again.steps) == ("solved", run.steps)
    assert "the run is finished: it reached train.until=30" in log.of("start")[-1].notes[-1]
    further = hotloop.train(resume=run.path, steps=run.steps + 50_000, callbacks=[log])
    assert (further.ended, further.config.train.until) == ("steps", None)
    assert further.steps >= run.steps + 50_000
    assert log.of("start")[-1].notes == ("train.until=30 was reached before: the run goes on without it",)
    assert verify(run.path).same


def test_until_none_removes_the_goal_of_a_packaged_config(tmp_path: Path) -> None:
    assert hotloop.train("cartpole", until="none", steps=2048, home=tmp_path).config.train.until is None


def test_a_copy_in_a_folder_of_another_name_is_the_same_run(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=8 * ITERATION, train__evaluate_episodes=2)
    assert list((run.path / "replays").iterdir())
    shutil.copytree(run.path, tmp_path / "from-a-colleague")
    assert verify(tmp_path / "from-a-colleague").differences == ()


def test_an_interrupted_verification_is_no_difference(tmp_path: Path) -> None:
    class Stop(Callback):
        def start(self, report: StartReport) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    run = train(tmp_path, train__steps=8 * ITERATION)
    with pytest.raises(KeyboardInterrupt):
        verify(run.path, callbacks=[Stop()])


def test_a_run_that_was_extended_is_repeated_with_all_its_events(tmp_path: Path) -> None:
    # Neither the first end nor the second falls on a record or an evaluation by schedule.
    run = train(tmp_path, train__steps=5 * ITERATION, train__evaluate_episodes=4, track__interval=4)
    hotloop.train(resume=run.path, steps=11 * ITERATION)
    reports = recorded(run.path)
    assert [event["iterations"] for event in reports if event["event"] == "evaluation"] == [5, 11]
    assert [event["iterations"] for event in reports if event["event"] == "iteration"] == [4, 5, 8, 11]
    found = verify(run.path)
    assert found.same, found
    # With the two checkpoints.
    assert found.records == 8


def test_a_linear_schedule_keeps_its_end(tmp_path: Path) -> None:
    run = train(tmp_path, train__steps=4 * ITERATION, ppo__learning_rate_schedule="linear")
    with pytest.raises(TrainingError, match="a linear schedule ends there"):
        hotloop.train(resume=run.path, steps=9 * ITERATION)


def test_a_policy_that_cannot_be_built_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="layer of 70000"):
        train(tmp_path, train__steps=ITERATION, policy__hidden=[70_000])
    monkeypatch.setenv("HOTLOOP_ISA", "mmx")
    with pytest.raises(ConfigError, match='HOTLOOP_ISA is "mmx"'):
        train(tmp_path, train__steps=ITERATION)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_name_that_is_taken_or_no_name_is_refused(tmp_path: Path) -> None:
    hotloop.train("cartpole", steps=ITERATION, config=SMALL, home=tmp_path, name="mine")
    with pytest.raises(TrainingError, match="already"):
        hotloop.train("cartpole", steps=ITERATION, config=SMALL, home=tmp_path, name="mine")
    with pytest.raises(TrainingError, match="is invalid"):
        hotloop.train("cartpole", steps=ITERATION, config=SMALL, home=tmp_path, name="../mine")
