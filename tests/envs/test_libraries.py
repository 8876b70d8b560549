"""Envs from shared libraries: played, trained, restored like native ones; refused where their table cannot be used."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import hotloop
from hotloop.errors import TrainingError
from hotloop.training.callbacks import Callback, TroubleReport
from tests.envs.libraries import compiled

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def walk(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror")
    return f"native:{compiled(repository / 'examples/native_c/walk.c', tmp_path_factory.mktemp('walk'), *flags)}"


@pytest.fixture(scope="module", params=["-DONE_BY_ONE", "-DPLAY"])
def faulty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"native:{compiled(HERE / 'faulty.c', tmp_path_factory.mktemp('faulty'), request.param)}"


def test_a_library_is_played_by_its_rules(walk: str) -> None:
    with hotloop.make_vec(walk, num_envs=2, options={"length": 8}) as envs:
        envs.reset(seed=0)
        obs, info = envs.set_state({"place": [0, 3], "goal": [2, 2], "hint": [0, 0]})
        assert obs.tolist() == [[-1.0, 0.0], [-0.25, 0.0]]
        assert info["action_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
        obs, reward, terminated, truncated, _ = envs.step([2, 0])
        assert obs.tolist() == [[-0.75, 1.0], [-0.5, -1.0]]
        assert reward.tolist() == pytest.approx([-0.1, 0.9])
        assert (terminated.tolist(), truncated.tolist()) == ([False, True], [False, False])
        assert (envs.reward_terms, envs.metrics) == (("effort", "goal"), ("success",))
        with pytest.raises(ValueError, match="the state of env 1 is impossible: its check returned 1"):
            envs.set_state({"place": [8]}, envs=[1])


def test_random_numbers_are_those_of_native_envs(walk: str) -> None:
    """`recall` draws its cue as `walk` its goal: the first draw of the first step, below a number."""
    with (
        hotloop.make_vec(walk, 64, options={"length": 16}) as walks,
        hotloop.make_vec("recall", 64, options={"cues": 16}) as cues,
    ):
        walks.reset(seed=7)
        seen, _ = cues.reset(seed=7)
        assert walks.get_state()["goal"].tolist() == seen[:, :16].argmax(1).tolist()


def test_threads_and_groups_never_show(walk: str) -> None:
    def played(threads: int, groups: int) -> list[bytes]:
        rng = np.random.default_rng(0)
        with hotloop.make_vec(walk, 37, num_threads=threads, num_groups=groups) as envs:
            _, info = envs.reset(seed=3)
            received = []
            for _ in range(100):
                legal = info["action_mask"].astype(float)
                actions = (legal * rng.random(legal.shape)).argmax(1)
                *results, info = envs.step(actions)
                received += [result.tobytes() for result in results]
            return received

    assert played(1, 1) == played(2, 5) == played(3, 37)


def test_snapshots_are_exact(walk: str) -> None:
    rng = np.random.default_rng(0)
    with hotloop.make_vec(walk, 16) as envs, hotloop.make_vec(walk, 16, num_groups=4) as others:
        _, info = envs.reset(seed=0)
        for _ in range(20):
            actions = (info["action_mask"] * rng.random((16, 3))).argmax(1)
            *_, info = envs.step(actions)
        others.restore(envs.snapshot())
        for _ in range(50):
            actions = (info["action_mask"] * rng.random((16, 3))).argmax(1)
            *ours, info = envs.step(actions)
            *theirs, _ = others.step(actions)
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        assert envs.snapshot() == others.snapshot()


def test_a_library_is_learned_resumed_and_shown(walk: str, tmp_path: Path) -> None:
    run = hotloop.train(walk, steps=65_536, until=0.3, seed=0, home=tmp_path, store="none")
    assert run.solved
    assert run.config.env.name == walk
    assert run.name.startswith("walk-")
    again = hotloop.train(walk, steps=65_536, until=0.3, seed=0, home=tmp_path, store="none")
    last = f"checkpoints/{run.steps}/policy.safetensors"
    assert (run.path / last).read_bytes() == (again.path / last).read_bytes()
    with hotloop.make_vec(walk, 1, options={"length": 5}, render_mode="ansi") as envs:
        envs.reset(seed=0)
        envs.set_state({"place": [1], "goal": [3]})
        assert envs.render() == (".@.o.",)


def test_a_run_from_elsewhere_loads_no_library_untrusted(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTLOOP_HOME", str(tmp_path / "home"))
    run = hotloop.train(walk, steps=4096, seed=0)
    moved = tmp_path / "from-elsewhere"
    shutil.copytree(run.path, moved)
    with pytest.raises(TrainingError, match=r"names code to be loaded \(native:.*walk.so\).*--trust"):
        hotloop.train(resume=moved, steps=8192)
    with pytest.raises(TrainingError, match=r"names code to be loaded \(native:.*walk.so\).*trust=True"):
        hotloop.load(moved)
    assert hotloop.load(moved, trust=True).act([0.0, 0.0]) in (0, 1, 2)
    assert hotloop.train(resume=moved, steps=8192, trust=True).steps >= 8192


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("in_step", "the env's step returned -7: expected 0, 1 or 2"),
        ("status", "the env's step returned 3: expected 0, 1 or 2"),
        ("in_observe", "the env's observe failed: a bad day"),
        ("not_finite", "the env gave a number that is not finite"),
        ("all_forbidden", "the env's mask forbids agent 0 everything"),
    ],
)
def test_an_env_that_fails_is_cut_and_the_rest_plays_on(faulty: str, fault: str, what: str) -> None:
    with hotloop.make_vec(faulty, 3, options={"fault": fault}, autoreset_mode="same_step") as envs:
        envs.reset(seed=0)
        actions = np.zeros((6, 2), np.int64)
        actions[2, 0] = 1
        obs, _, _, truncated, info = envs.step(actions)
        assert np.isfinite(obs).all()
        assert truncated.tolist() == [False, False, True, True, False, False]
        assert info["cut"].tolist() == truncated.tolist()
        report = envs.faults()
        assert (report.count, report.first[0].env, report.first[0].what) == (1, 1, what)
        envs.step(np.zeros((6, 2), np.int64))
        assert envs.faults().count == 0
        assert envs.get_state()["count"].tolist() == [2, 1, 2]


def test_a_run_whose_envs_fail_in_every_episode_reports_the_cause_and_ends(faulty: str, tmp_path: Path) -> None:
    heard = Troubles()
    with pytest.raises(
        TrainingError, match=r"more than runner.restart_limit 2 .*\n?.*the env's step returned -7"
    ) as caught:
        hotloop.train(
            faulty,
            steps=10**9,
            home=tmp_path,
            config={"env.fault": "in_step", "runner.restart_limit": 2, "runner.num_envs": 8},
            callbacks=[heard],
        )
    assert "hotloop train --resume" in str(caught.value)
    assert [report.kind for report in heard.reports] == ["env-fault"]
    assert "was reset: the env's step returned -7" in heard.reports[0].what


class Troubles(Callback):
    """Keeps the faults."""

    def __init__(self) -> None:
        self.reports: list[TroubleReport] = []

    def trouble(self, report: TroubleReport) -> None:
        self.reports.append(report)


def test_a_reset_that_fails_is_reported_at_the_next_step(faulty: str) -> None:
    with hotloop.make_vec(faulty, 1, options={"fault": "in_reset"}, autoreset_mode="same_step") as envs:
        envs.reset(seed=0)
        envs.step([[1, 0], [0, 0]])
        assert envs.faults().count == 0
        envs.step([[0, 0], [0, 0]])
        assert envs.faults().first[0].what == "the env's reset returned -5: expected 0"


def test_every_kind_of_option_and_several_agents(faulty: str) -> None:
    with hotloop.make_vec(faulty, 1, options={"pace": 2, "loud": True}) as envs:
        assert envs.options == {"fault": "nothing", "pace": 2.0, "loud": True, "max_steps": 0}
        obs, info = envs.reset(seed=0)
        assert info["action_mask"].shape == (2, 5)
        after, reward, *_ = envs.step([[0, 2], [0, 1]])
        assert after.ravel().tolist() == pytest.approx((obs.ravel() + 2).tolist())
        assert reward.tolist() == [2.0, 1.0]
        *_, terminated, _, _ = envs.step([[1, 0], [0, 0]])
        assert terminated.tolist() == [True, True]
        assert set(envs.get_state()) == {"count", "total", "bytes_16", "elapsed_steps"}
    with pytest.raises(ValueError, match='has no option "pase"; did you mean "pace"'):
        hotloop.make_vec(faulty, 1, options={"pase": 2})
    with pytest.raises(ValueError, match=r'option "pace" .* is 11: expected 0 to 10'):
        hotloop.make_vec(faulty, 1, options={"pace": 11})
    with pytest.raises(ValueError, match="q-learning learns native envs and gymnasium:ID"):
        hotloop.train(faulty, steps=10, config={"train.algorithm": "q-learning"})


def test_a_library_built_for_the_version_before_is_played(tmp_path: Path) -> None:
    old = "table.abi = 1; table.table_bytes = offsetof(hotloop_env, play)"
    with hotloop.make_vec(f"native:{compiled(HERE / 'faulty.c', tmp_path, f'-DBREAK={old}')}", 2) as envs:
        envs.reset(seed=0)
        assert envs.step(np.full((4, 2), [0, 2]))[1].tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("table.abi = 99", "built for version 99 of hotloop.h, and this is version 2: rebuild it"),
        ("table.table_bytes = 8", r"table_bytes is 8, .* set it to sizeof\(hotloop_env\)"),
        ("return 0", "its table is null"),
        ("table.name = 0", "name is null"),
        ('table.name = "a b"', 'name is "a b": expected letters, digits'),
        ("table.state_bytes = 0", "state_bytes is 0: expected 1 to"),
        ("table.state_bytes = -1", "state_bytes is 18446744073709551615"),
        ("table.state_alignment = 12", "state_alignment is 12: expected a power of two"),
        ("table.state_alignment = 4096", "state_alignment is 4096: expected 1 to 64"),
        ("table.seats = 0", "seats is 0: expected 1 to"),
        ("table.observation_kind = 9", "observation_kind is 9: expected 1, 2 or 3"),
        ("shape[0] = 0", r"observation_shape is \[0\]: expected 1 to"),
        ("table.observation_shape = 0", "observation_shape is null"),
        ("table.action_kind = 0", "action_kind is 0: expected 1, 2 or 3"),
        ("table.action_kind = HOTLOOP_CHOOSE", "action_width is 2: expected 1 for one choice"),
        ("choices[1] = 0", "action_choices has 0: expected 1 to"),
        ("table.action_kind = HOTLOOP_AMOUNTS", "action_low is null"),
        ("options[1].value.number = 11", "the default of the option pace is 11, which it does not take"),
        ('options[1].name = "max_steps"', "max_steps is an option that every env has"),
        ("fields[0].offset = 4", "the field count has 8 bytes at 4: not aligned, or not within"),
        ("fields[0].count = 9", "the field count has 72 bytes at 8: not aligned, or not within"),
        ("fields[0].offset = 0", "the field (count|total) overlaps the one before it"),
        ("table.step = 0", "step is null"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(spoil: str, why: str, tmp_path: Path) -> None:
    library = compiled(HERE / "faulty.c", tmp_path, "-O0", f"-DBREAK={spoil}")
    with pytest.raises(ValueError, match=f"faulty.so cannot be used: .*{why}"):
        hotloop.make_vec(f"native:{library}")


def test_what_is_no_library_of_an_env_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no library .*nowhere\.so"):
        hotloop.make_vec(f"native:{tmp_path}/nowhere.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(ValueError, match=r"text.so cannot be loaded as a library: .*"):
        hotloop.make_vec(f"native:{text}")
    library = compiled(HERE / "faulty.c", tmp_path, "-DNO_TABLE")
    with pytest.raises(ValueError, match=r"faulty\.so has no function hotloop_env_table: it is no env"):
        hotloop.make_vec(f"native:{library}")
