"""Compiled Python envs: the same bits compiled and uncompiled, the native runner's snapshots, and clear errors."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import hotloop
from hotloop.envs.compiled import (
    Bytes,
    CompiledEnv,
    Floats,
    Ints,
    Option,
    Rng,
    below,
    cos,
    exp,
    log,
    normal,
    sin,
    tanh,
    uniform,
)
from tests.cli.command import hotloop as hotloop_command

pytest.importorskip("numba")
BOX = spaces.Box(-np.inf, np.inf, (2,))
TWO = spaces.Discrete(2)


def example(repository: Path, name: str) -> str:
    return f"{repository}/examples/{name}"


def uncompiled(env: CompiledEnv) -> CompiledEnv:
    """The same env, run by Python itself."""
    twin = CompiledEnv(env._declared, env._layout, debug=True)
    twin.name += "-uncompiled"
    return twin


def load(path: str) -> CompiledEnv:
    file, _, name = path.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: CompiledEnv = getattr(module, name)
    return found


def trajectory(env: CompiledEnv, steps: int, *, num_envs: int = 6, threads: int = 1, **options: Any) -> list[bytes]:
    """Everything that a random but legal player sees."""
    rng = np.random.default_rng(0)
    reports = []
    with hotloop.make_vec(env, num_envs, num_threads=threads, num_groups=threads, options=options) as envs:
        obs, info = envs.reset(seed=5)
        reports.append(obs.tobytes())
        for _ in range(steps):
            actions: Any = rng.random((num_envs, *envs.single_action_space.shape))  # type: ignore[misc]
            if "action_mask" in info:
                actions = (info["action_mask"] * rng.random(info["action_mask"].shape)).argmax(1)
            elif isinstance(envs.single_action_space, spaces.Discrete):
                actions = rng.integers(0, envs.single_action_space.n, num_envs)
            *results, info = envs.step(actions)
            reports += [result.tobytes() for result in results]
        reports += [field.tobytes() for field in envs.get_state().values()]
    return reports


@hotloop.compiled(
    observation=BOX,
    action=spaces.Box(-1.0, 1.0, (2,)),
    max_steps=40,
    options={"pull": 0.3, "places": Option(3, 1, 5), "rough": False, "kind": ("soft", "hard")},
    terms=("near", "calm"),
)
class Everything:
    """All that a compiled env can use."""

    place = Floats(2)
    seen = Ints(5)
    marks = Bytes(2, 2)
    energy: float
    count: int
    resting: bool

    def reset(self, rng: Rng, options: Any) -> None:
        self.energy = exp(normal(rng, 0))
        self.count = options.kind
        self.resting = options.rough
        for i in range(2):
            self.place[i] = uniform(rng, 5 + i, -1.0, 1.0)
            for j in range(2):
                self.marks[i, j] = 250 + i + j
        for i in range(5):
            self.seen[i] = 0

    def step(self, action: tuple[float, float], rng: Rng, options: Any) -> tuple[tuple[float, float], bool, bool]:
        self.count += 1
        turn = math.pi * action[0] * action[1]
        self.place[0] += options.pull * sin(turn) - 0.1 * self.place[0]
        self.place[1] += options.pull * cos(turn) * tanh(action[1])
        self.seen[below(rng, 1, options.places)] += self.count // 3 - self.count % 7
        self.energy = log(1.0 + self.energy * abs(action[0] / (1.5 + action[1])))
        return (-abs(self.place[0]), 0.5 - self.energy), self.energy < 1e-3, self.count > 30

    def observe(self, obs: Any) -> None:
        obs[0] = self.place[0] / 3.0
        obs[1] = self.place[1] * self.energy + self.seen[0]


EVERYTHING: Any = Everything  # type checkers take it for the class still


@pytest.mark.parametrize("name", ["compiled_cartpole.py:CartPole", "compiled_nim.py:Nim"])
def test_examples_give_the_same_bits_compiled_and_uncompiled(repository: Path, name: str) -> None:
    env = load(example(repository, name))
    assert trajectory(env, 60) == trajectory(uncompiled(env), 60)


def test_all_that_can_be_used_gives_the_same_bits_compiled_and_uncompiled() -> None:
    twin = uncompiled(EVERYTHING)
    choices: list[dict[str, Any]] = [{}, {"kind": "hard", "rough": True, "places": 5, "pull": 2}]
    for options in choices:
        compiled = trajectory(EVERYTHING, 90, **options)
        assert compiled == trajectory(twin, 90, **options)
        assert compiled == trajectory(EVERYTHING, 90, threads=2, **options)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("action_repeat", [1, 3])
def test_many_envs_at_once_give_the_same_bits_as_one_by_one(mode: Any, action_repeat: int) -> None:
    """Compiled envs play whole groups, uncompiled ones one by one; with options of their own in some envs."""
    rng = np.random.default_rng(2)
    steps = [rng.uniform(-1, 1, (70, 2)) for _ in range(24 // action_repeat)]

    def played(env: CompiledEnv) -> list[bytes]:
        reports = []
        with hotloop.make_vec(env, 70, num_threads=1, autoreset_mode=mode, action_repeat=action_repeat) as envs:
            for i in range(0, 70, 3):
                envs.configure({"pull": 0.5 + i % 4, "max_steps": 9 + i % 2}, envs=[i])
            envs.reset(seed=1)
            for actions in steps:
                *results, info = envs.step(actions)
                reports += [result.tobytes() for result in results]
                reports += [obs.tobytes() for obs in info.get("final_obs", ()) if obs is not None]
            return [*reports, *(field.tobytes() for field in envs.get_state().values())]

    assert played(EVERYTHING) == played(uncompiled(EVERYTHING))


def test_snapshots_are_exact_and_states_have_names() -> None:
    rng = np.random.default_rng(1)
    with hotloop.make_vec(Everything, 8) as envs, hotloop.make_vec(Everything, 8, num_groups=3) as others:
        envs.reset(seed=0)
        for _ in range(25):
            envs.step(rng.uniform(-1, 1, (8, 2)))
        others.restore(envs.snapshot())
        for _ in range(40):
            actions = rng.uniform(-1, 1, (8, 2))
            for mine, theirs in zip(envs.step(actions)[:4], others.step(actions)[:4], strict=True):
                assert np.array_equal(mine, theirs)
        assert envs.snapshot() == others.snapshot()
        state = envs.get_state()
        assert state["marks"].tolist() == [[250, 251, 251, 252]] * 8
        assert [str(state[name].dtype) for name in ("energy", "count", "resting")] == ["float64", "int64", "uint8"]
        envs.set_state({"place": [[0.75, 0.0]] * 8})
        assert envs.get_state()["place"][0].tolist() == [0.75, 0.0]
        assert envs.reward_terms == ("near", "calm")


def test_draws_are_those_of_native_envs() -> None:
    @hotloop.compiled(observation=spaces.Discrete(16), action=TWO)
    class Cue:
        cue: int

        def reset(self, rng: Rng) -> None:
            self.cue = below(rng, 0, 16)

        def step(self) -> tuple[float, bool]:
            return 0.0, False

        def observe(self, obs: Any) -> None:
            obs[0] = self.cue

    with hotloop.make_vec(Cue, 64) as mine, hotloop.make_vec("recall", 64, options={"cues": 16}) as cues:
        drawn, _ = mine.reset(seed=7)
        seen, _ = cues.reset(seed=7)
        assert drawn.tolist() == seen[:, :16].argmax(1).tolist()


@given(st.floats(-1e5, 1e5), st.floats(1e-300, 1e300))
def test_functions_are_right(x: float, positive: float) -> None:
    assert sin(x) == pytest.approx(math.sin(x), rel=1e-9, abs=1e-10)
    assert cos(x) == pytest.approx(math.cos(x), rel=1e-9, abs=1e-10)
    assert tanh(x) == pytest.approx(math.tanh(x), rel=1e-14)
    assert log(positive) == pytest.approx(math.log(positive), rel=1e-14, abs=1e-16)
    small = x * 7e-3
    assert exp(small) == pytest.approx(math.exp(small), rel=1e-13)
    assert tanh(x * 1e-6) == pytest.approx(math.tanh(x * 1e-6), rel=1e-14)


def test_a_game_with_masks_is_learned_by_its_name(repository: Path, tmp_path: Path) -> None:
    name = example(repository, "compiled_nim.py:Nim")
    settings = {"ppo.learning_rate": 0.002, "ppo.gamma": 1.0, "ppo.entropy": 0.003}
    run = hotloop.train(name, steps=800_000, until=0.6, seed=0, home=tmp_path, store="none", config=settings)
    assert run.solved
    assert run.config.env.name == f"compiled:{name}"
    assert run.name.startswith("Nim-")
    assert run.evaluation is not None
    assert run.evaluation.metrics["success"] > 0.75  # chance wins half of its games


def test_modules_are_found_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hotloop.envs.loader import whole_name

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "raise SystemExit\nimport hotloop\n@hotloop.compiled()\nclass Mine: ...\nclass Other: ...\n"
    )
    assert whole_name("mine:Mine") == "compiled:mine:Mine"
    assert whole_name("mine.py:Mine") == f"compiled:{tmp_path}/mine.py:Mine"
    assert whole_name("mine:Other") == "mine:Other"
    assert whole_name("gymnasium:CartPole-v1") == "gymnasium:CartPole-v1"


def test_commands_take_a_file_and_a_name(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)

    def reports(*arguments: str) -> str:
        done = hotloop_command(*arguments, HOTLOOP_HOME=str(tmp_path), HOTLOOP_COMPILED="0")
        assert done.returncode == 0, done.stderr
        return done.stdout

    nim = "examples/compiled_nim.py:Nim"
    assert "Take the last match" in reports("envs", nim)
    reports("train", nim, "--steps", "256", "runner.num_envs=2", "ppo.horizon=32", "ppo.minibatch_size=64", "--json")
    assert "success" in reports("eval", "last", "--episodes", "5")
    assert "|" in reports("play", "last", "--seed", "3")
    assert "compiled_nim.py:Nim" in reports("bench", "envs", nim, "--num-envs", "2", "--quick", "--no-peers", "--json")


def broken(**functions: Any) -> CompiledEnv:
    """An env of which some functions are others."""
    arguments = {"observation": BOX, "action": TWO, **functions.pop("declared", {})}

    def reset(self: Any) -> None:
        self.x = 1.0

    def step(self: Any, action: int) -> tuple[float, bool]:
        return 1.0, False

    def observe(self: Any, obs: Any) -> None:
        obs[0] = obs[1] = self.x

    parts = {"reset": reset, "step": step, "observe": observe, "__annotations__": {"x": float}, **functions}
    return hotloop.compiled(**arguments)(type("Broken", (), parts))


def test_code_that_numba_cannot_type_is_reported_with_its_line() -> None:
    def step(self: Any, action: int) -> tuple[float, bool]:
        return self.speed, False

    with pytest.raises(
        ValueError, match=r"Broken.step \(test_compiled.py, line \d+: return self.speed, False\) cannot"
    ) as e:
        hotloop.make_vec(broken(step=step))
    assert "speed" in str(e.value).partition("cannot be compiled")[2]
    assert len(str(e.value)) < 400

    def observe(self: Any, obs: Any) -> None:
        obs[0] = open("x")  # noqa: SIM115, PTH123

    with pytest.raises(ValueError, match=r"Broken.observe \(test_compiled.py, line \d+: .*cannot be compiled: .*open"):
        hotloop.make_vec(broken(observe=observe))


@pytest.mark.parametrize("outcome", [1.0, (1.0,), (True, 1.0), (1.0, False, 3), ((1.0, 2.0), False), (None, False)])
def test_a_step_that_returns_other_types_is_refused(outcome: Any) -> None:
    def step(self: Any) -> Any:
        return outcome

    with pytest.raises(ValueError, match=r"Broken.step .* returns .*: expected \(reward, terminated\) or"):
        hotloop.make_vec(broken(step=step))
    with hotloop.make_vec(uncompiled(broken(step=step)), num_threads=1) as envs:
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"Broken.step .* gave .*: expected \(reward, terminated\) or"):
            envs.step([0])


def failing_step(self: Any, action: int) -> tuple[float, bool]:
    self.x = 1.0 / (1 - action)
    return 1.0, False


def test_what_compiled_code_raises_cuts_the_episode_and_the_rest_plays_on() -> None:
    with hotloop.make_vec(broken(step=failing_step), 3, autoreset_mode="same_step") as envs:
        envs.reset(seed=0)
        *_, truncated, info = envs.step([0, 1, 0])
        assert truncated.tolist() == info["cut"].tolist() == [False, True, False]
        (fault,) = envs.faults().first
        assert fault.env == 1
        assert fault.what == "the env's step failed: it raised ZeroDivisionError('division by zero')"
        *_, truncated, info = envs.step([0, 0, 0])
        assert not truncated.any()


def test_an_index_out_of_bounds_is_caught() -> None:
    def observe(self: Any, obs: Any) -> None:
        obs[0] = 0.0
        obs[int(self.x) + 1] = 1.0

    with hotloop.make_vec(broken(observe=observe)) as envs:
        envs.reset(seed=0)
        envs.step([0])
        why = "the env's observe failed: it raised IndexError('index is out of bounds')"
        assert envs.faults().first[0].what == why


def test_exceptions_of_the_author_are_reported_with_their_line() -> None:
    def step(self: Any, action: int) -> tuple[float, bool]:
        if action == 1:
            raise ValueError("no such move")
        if self.x > 0:
            raise ValueError(self.x)
        return 1.0, False

    line = step.__code__.co_firstlineno + 2
    with hotloop.make_vec(broken(step=step), 2) as envs:
        envs.reset(seed=0)
        envs.step([1, 0])
        first, second = envs.faults().first
        assert (
            first.what
            == f"the env's step failed: it raised ValueError('no such move') in line {line} of {Path(__file__).name}"
        )
        assert second.what == "the env's step failed: it raised an exception; uncompiled, it can be seen"


def test_uncompiled_exceptions_come_through(capfd: pytest.CaptureFixture[str]) -> None:
    with hotloop.make_vec(uncompiled(broken(step=failing_step)), num_threads=1) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError):
            envs.step([1])
    reports = capfd.readouterr().err
    assert "Broken.step (test_compiled.py, line" in reports
    assert "self.x = 1.0 / (1 - action)" in reports


def test_uncompiled_observations_that_are_not_finite_are_named() -> None:
    def observe(self: Any, obs: Any) -> None:
        obs[0] = 0.0
        obs[1] = math.nan

    with (
        hotloop.make_vec(uncompiled(broken(observe=observe)), num_threads=1) as envs,
        pytest.raises(ValueError, match=r"observe gave nan in obs\[1\]: expected finite numbers"),
    ):
        envs.reset(seed=0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"step": None}, "Broken.step is None: expected a plain function"),
        ({"reset": lambda self, seed: None}, "Broken.reset asks for 'seed': it may ask for self, rng, options"),
        ({"observe": lambda self, obs, mask: None}, r"asks for 'mask': .*\(masked=True gives masks\)"),
        ({"declared": {"masked": True}}, "has masked=True, but its observe asks for no 'mask'"),
        ({"__annotations__": {"x": str}}, "Broken.x is str: a state has float, int and bool"),
        ({"__annotations__": {"x": np.float32}}, "Broken.x is float32: a state has float, int and bool"),
        ({"__annotations__": {}}, "Broken has no state"),
        ({"declared": {"observation": spaces.Box(0, 1, (2,), np.float64)}}, "expected a Box of float32 or uint8"),
        ({"declared": {"action": spaces.MultiBinary(2)}}, "expected Discrete, MultiDiscrete, or a Box"),
        ({"declared": {"options": {"a": [1]}}}, r"the option a is \[1\]: expected a number"),
    ],
)
def test_declarations_that_cannot_be_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        broken(**changes).load()


def test_files_without_the_env_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file"):
        hotloop.make_vec(f"compiled:{tmp_path}/nowhere.py:Env")
    file = tmp_path / "some.py"
    file.write_text("Env = 3\n")
    with pytest.raises(ValueError, match=r"some\.py has 3 for 'Env': expected a class with @hotloop.compiled"):
        hotloop.make_vec(f"compiled:{file}:Env")
    file.write_text("import nothing_like_it\n")
    with pytest.raises(ValueError, match=r"some\.py cannot be imported: ModuleNotFoundError"):
        hotloop.make_vec(f"compiled:{file}:Env")
