"""Controllers: what they can set, that their decisions are recorded, and that interruptions never show in them."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hotloop
from hotloop.config import ConfigError, load_config
from hotloop.episodes.best_replays import kept
from hotloop.tracking.journal import read_all
from hotloop.training import Callback, TrainingError, verify
from hotloop.training.callbacks import ControlReport, EvaluationReport, IterationReport
from hotloop.training.control import Controller, Decision, Situation
from hotloop.training.session import Session
from hotloop.training.start import begin
from tests import warm_process
from tests.cli.command import hotloop as hotloop_command
from tests.training import controlled
from tests.training.controlled import COMMON, PYTHON_ENV, RUNS, STEPS
from tests.training.processes import newest_policy

MOMENTS = ["control:1", "evaluation:1", "control:2", "checkpoint:1", "iteration:2", "control:1", "iteration:1"]


class Heard(Callback):
    def __init__(self) -> None:
        self.control_reports: list[ControlReport] = []
        self.evaluations: list[EvaluationReport] = []
        self.records: list[IterationReport] = []

    def control(self, report: ControlReport) -> None:
        self.control_reports.append(report)

    def evaluation(self, report: EvaluationReport) -> None:
        self.evaluations.append(report)

    def iteration(self, report: IterationReport) -> None:
        self.records.append(report)

    @property
    def decisions(self) -> list[tuple[int, Any]]:
        return [(report.iterations, one) for report in self.control_reports for one in report.decisions]


def trained(home: Path, config: Mapping[str, Any], *controllers: Controller, **given: Any) -> tuple[Any, Heard]:
    heard = Heard()
    keywords = {"steps": STEPS, "home": home, "callbacks": [heard], "controllers": controllers, **given}
    return hotloop.train("cartpole", config={**COMMON, **config}, **keywords), heard


def process(env: str, home: Path, moment: str = "") -> int:
    code = warm_process.run(controlled.main, env, str(home), moment)
    assert code in (0, -signal.SIGKILL)
    return code


def timeless_events(run: Path) -> list[dict[str, Any]]:
    found = [event for event in read_all(run / "metrics.jsonl") if event["event"] in ("control", "evaluation")]
    return [{key: value for key, value in event.items() if key != "at"} for event in found]


@pytest.mark.parametrize("env", RUNS)
def test_a_run_killed_at_many_moments_makes_the_same_decisions_and_weights(env: str, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert process(env, whole) == 0
    kills = sum(process(env, broken, moment) == -signal.SIGKILL for moment in MOMENTS)
    assert kills >= 5
    assert process(env, broken) == 0
    runs = [home / "runs" / "run" for home in (whole, broken)]
    assert newest_policy(runs[0]) == newest_policy(runs[1])
    assert timeless_events(runs[0]) == timeless_events(runs[1])
    decided = [event["what"] for event in timeless_events(runs[0]) if event["event"] == "control"]
    assert any("(2 of 2): mean return" in what for what in decided)
    assert len(decided) > 5
    found = verify(runs[1])
    assert found.same, found.differences


def test_a_schedule_moves_from_its_first_value_to_its_last(tmp_path: Path) -> None:
    schedule = {"key": "env.gravity", "start": 10.0, "end": 30.0, "begin_step": 256, "end_step": 1280}
    run, heard = trained(tmp_path, {"control.schedules": [schedule]})
    values = [(at * 8 * 16, one["env"]["gravity"]) for at, one in heard.decisions]
    assert values == [(0, 10.0), *((step, 10.0 + 20.0 * (step - 256) / 1024) for step in range(384, 1281, 128))]
    assert {one["controller"] for _, one in heard.decisions} == {"env.gravity"}
    assert run.iterations == 22


def test_a_whole_number_option_stays_whole(tmp_path: Path) -> None:
    schedule = {"key": "env.max_steps", "start": 10, "end": 13, "end_step": 1280}
    _, heard = trained(tmp_path, {"control.schedules": [schedule]})
    assert [one["env"]["max_steps"] for _, one in heard.decisions] == [10, 11, 12, 13]


def test_the_first_episodes_already_have_the_options_of_the_first_stage(tmp_path: Path) -> None:
    stages = [{"name": "tiny", "env": {"max_steps": 3}, "until": 1000.0}, {"name": "all"}]
    _, heard = trained(tmp_path, {"control.stages": stages})
    assert all(record.length_mean == 3.0 for record in heard.records)
    assert [report.what for report in heard.control_reports] == ["stage tiny (1 of 2)"]
    assert all(report.evaluation.length_mean == 3.0 for report in heard.evaluations)


def test_a_stage_is_passed_by_an_evaluation_and_what_it_set_is_taken_back(tmp_path: Path) -> None:
    stages = [
        {"name": "tiny", "env": {"max_steps": 3}, "reward": {"reward": 2.0}, "until": 6.0},
        {"name": "small", "env": {"max_steps": 4, "gravity": 1.0}, "until": 100.0},
        {"name": "all"},
    ]
    _, heard = trained(tmp_path, {"control.stages": stages})
    assert [(at, one["env"], one["reward"]) for at, one in heard.decisions] == [
        (0, {"max_steps": 3, "gravity": pytest.approx(9.8)}, {"reward": 2.0}),
        (5, {"max_steps": 4, "gravity": 1.0}, {"reward": 1.0}),
    ]
    # Returns under other conditions do not compare, so the first evaluation of a stage is its best so far.
    means = [(report.evaluation.mean, report.is_best) for report in heard.evaluations]
    assert means == [(6.0, True), (4.0, True), *[(4.0, False)] * (len(means) - 2)]


def test_until_is_looked_at_only_in_the_last_stage(tmp_path: Path) -> None:
    stages = [{"name": "tiny", "env": {"max_steps": 3}, "until": 1000.0}, {"name": "all"}]
    config = {"control.stages": stages, "train.until": 2.0, "train.until_episodes": 1}
    run, _ = trained(tmp_path, config)
    assert run.ended == "steps"
    run, _ = trained(tmp_path, {**config, "control.stages": stages[1:]})
    assert run.ended == "solved"


class Scripted:
    """A controller with scripted decisions, which counts them."""

    def __init__(self, name: str, script: dict[int, Decision]) -> None:
        self.name, self._script, self.made = name, script, 0
        self.seen: list[Situation] = []

    finished = True

    def next_decision(self, iteration: int) -> int | None:
        return min((at for at in self._script if at > iteration), default=None)

    def decide(self, situation: Situation) -> Decision | None:
        self.seen.append(situation)
        self.made += 1
        return self._script.get(situation.iterations)

    def state(self) -> dict[str, Any]:
        return {"made": self.made}

    def restore(self, state: dict[str, Any]) -> None:
        self.made = state["made"]


def test_a_controller_of_ones_own_sets_rates_and_ends_the_run(tmp_path: Path) -> None:
    rates = Scripted("rates", {6: Decision(learning_rate=0.25, entropy=0.5)})
    end = Scripted("end", {6: Decision(learning_rate=0.125), 12: Decision(stop="enough")})
    run, heard = trained(tmp_path, {"ppo.learning_rate": 0.5}, rates, end)
    assert (run.ended, run.iterations) == ("controller", 12)
    found = {record.iterations: (record.learning_rate, record.losses["entropy_weight"]) for record in heard.records}
    # The later of two controllers wins.
    assert (found[6], found[9]) == ((0.5, 0.0), (0.125, 0.5))
    assert [situation.iterations for situation in end.seen] == [0, 6, 12]
    assert end.seen[1].evaluated_at == 5
    assert end.seen[2].record["iterations"] == 12
    assert hotloop.train(resume=run.path, controllers=[rates, end]).iterations == 12


def test_a_resumed_controller_goes_on_where_it_was_and_must_be_there(tmp_path: Path) -> None:
    script = {at: Decision(entropy=at / 100) for at in (2, 7)}
    trained(tmp_path, {}, Scripted("mine", script), steps=8 * 16 * 5, name="run")
    with pytest.raises(TrainingError, match=r"the run has the controllers mine; .* Pass the same controllers"):
        hotloop.train(resume="run", steps=STEPS, home=tmp_path)
    again = Scripted("mine", script)
    hotloop.train(resume="run", steps=STEPS, home=tmp_path, controllers=[again])
    assert (again.made, [situation.iterations for situation in again.seen]) == (3, [7])


def test_a_decision_that_the_envs_refuse_names_its_controller(tmp_path: Path) -> None:
    for decision, why in (
        (Decision(env={"gravitty": 1.0}), 'did you mean "gravity"'),
        (Decision(policies=[[0]] * 7 + [[1]]), "the policy of env 7, seat 0 is 1: expected 0"),
        (Decision(reward={"rewards": 1.0}), "rewards"),
    ):
        with pytest.raises(TrainingError, match=f"the controller 'bad' decided what cannot be set: .*{why}"):
            trained(tmp_path, {}, Scripted("bad", {3: decision}))


def test_replays_have_the_reward_weights_of_their_evaluation(tmp_path: Path) -> None:
    config = {"train.evaluate_every": 4, "train.evaluate_episodes": 5}
    run, heard = trained(tmp_path, config, Scripted("mine", {2: Decision(reward={"reward": 0.25})}))
    replays = [replay for _, replay in kept(run.path / "replays")]
    for replay in replays:
        replay.check()
        assert replay.reward_weights == {"reward": 0.25}
        assert replay.total == 0.25 * replay.steps
    assert max(replay.total for replay in replays) == max(each.evaluation.return_max for each in heard.evaluations)


def test_a_run_can_be_asked_to_stop_and_goes_on_exactly(tmp_path: Path) -> None:
    class Stops(Callback):
        def iteration(self, report: IterationReport) -> None:
            if report.iterations == 6:
                trainer.request_stop()

    config = load_config("cartpole", overrides={**COMMON, "train.steps": STEPS})
    trainer = begin(config, name="run", home=tmp_path, callbacks=[Stops()])
    run = trainer.run()
    assert (run.ended, run.iterations) == ("interrupted", 6)
    whole, _ = trained(tmp_path, {})
    assert newest_policy(hotloop.train(resume="run", home=tmp_path).path) == newest_policy(whole.path)


SCHEDULE = {"key": "env.gravity", "start": 1.0, "end": 2.0, "end_step": 100}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"control.schedules": [{**SCHEDULE, "key": "env.gravitty"}]}, 'did you mean "gravity"'),
        ({"control.schedules": [{**SCHEDULE, "key": "reward.rewards"}]}, "Did you mean 'reward.reward'"),
        ({"control.schedules": [{**SCHEDULE, "key": "ppo.gamma"}]}, "expected env.OPTION or reward.TERM"),
        ({"control.schedules": [{**SCHEDULE, "end": -5.0}]}, "gravity"),
        ({"control.schedules": [{**SCHEDULE, "begin_step": 100}]}, "raise end_step"),
        ({"control.schedules": [SCHEDULE, SCHEDULE]}, "has env.gravity twice"),
        ({"control.stages": [{"name": "a"}, {"name": "b"}]}, r"control.stages\[0\] \(a\) has no until"),
        (
            {"control.stages": [{"name": "a", "until": 1.0}, {"name": "b"}], "train.evaluate_every": 0},
            "set train.evaluate_every",
        ),
        (
            {"control.stages": [{"name": "a", "env": {"gravity": 1.0}}], "control.schedules": [SCHEDULE]},
            "both set env.gravity",
        ),
    ],
)
def test_what_cannot_be_controlled_is_refused_at_the_start(config: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        trained(tmp_path, config)
    assert not list((tmp_path / "runs").glob("*"))


def test_options_that_change_the_spaces_are_refused_at_the_start(tmp_path: Path) -> None:
    config = {**COMMON, "control.schedules": [{"key": "env.seats", "start": 2, "end": 4, "end_step": 100}]}
    with pytest.raises(ConfigError, match='option "seats" of tag fixes its spaces'):
        hotloop.train("tag", steps=100, config={**config, "env.seats": 2}, home=tmp_path)


def test_a_stage_of_a_python_env_needs_a_value_to_go_back_to(tmp_path: Path) -> None:
    stages = [{"name": "a", "env": {"wind": 1.0}}]
    config = {**COMMON, "env.goal": 3, "env.slope": 0.0, "control.stages": stages}
    with pytest.raises(ConfigError, match=r"set env\.wind"):
        hotloop.train(PYTHON_ENV, steps=100, config=config, home=tmp_path)


def test_tables_are_trained_under_fixed_conditions(tmp_path: Path) -> None:
    config = {"train.algorithm": "q-learning", "control.schedules": [SCHEDULE]}
    with pytest.raises(ConfigError, match=r"control\.schedules is for ppo, not q-learning"):
        hotloop.train("frozen-lake", steps=100, config=config, home=tmp_path)


def test_decisions_are_events_of_the_store(tmp_path: Path) -> None:
    run, _ = trained(tmp_path, {"control.schedules": [{**SCHEDULE, "end_step": 600}]})
    shown = hotloop_command("runs", "show", str(run.path), "--json", HOTLOOP_HOME=str(tmp_path)).stdout
    (end,) = [line for line in map(json.loads, shown.splitlines()) if line["event"] == "end"]
    found = [event for event in end["events"] if event["kind"] == "control"]
    assert [event["what"] for event in found][-1] == "env.gravity = 2"


def test_workers_of_evaluations_stay_alive_between_evaluations(tmp_path: Path) -> None:
    session = Session(load_config(PYTHON_ENV, overrides={**COMMON, **RUNS[PYTHON_ENV], "train.steps": 100}))
    try:
        first = session.evaluate()
        assert session._evaluation_runner is not None
        workers = [worker.pid for worker in session._evaluation_runner.health()]
        assert session.evaluate() == first
        assert [worker.pid for worker in session._evaluation_runner.health()] == workers
    finally:
        session.close()
