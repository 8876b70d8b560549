"""Forged runs: coherent changes whose checksums fit again. `verify` finds them, or lists them as not checked."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from hotloop import files
from hotloop.training.checkpoint import best_steps
from hotloop.training.policy_ladder import LADDER
from tests.reliability.engine import Result
from tests.reliability.mutations import make_home
from tests.reliability.server import CommandServers


@dataclass(frozen=True)
class Forgery:
    """A change to a run's folder, and a word by which `verify` may list its object as not checked."""

    name: str
    forge: Callable[[Path], None]
    unchecked: str | None = None
    run: str = "done"


def _checkpoints(run: Path) -> list[Path]:
    found = [path for path in (run / "checkpoints").iterdir() if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name))


def _best(run: Path) -> Path:
    return run / "checkpoints" / str(best_steps(run / "checkpoints"))


def sealed(facts: dict[str, Any]) -> bytes:
    """Return a JSON file whose own checksum fits again."""
    return files.seal({key: value for key, value in facts.items() if key != "sha256"})


def refit(run: Path) -> None:
    """Make every checksum in every manifest fit the files beside it."""
    for manifest in run.glob("checkpoints/*/manifest.json"):
        written = json.loads(manifest.read_bytes())
        for name, sums in written["files"].items():
            data = (manifest.parent / name).read_bytes()
            sums.update(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
        manifest.write_bytes(sealed(written))


def _manifest(*which: str, **changes: Any) -> Callable[[Path], None]:
    """Change values in the manifest of the best, the newest, or all checkpoints; `a.b` is a key in a key."""

    def forge(run: Path) -> None:
        paths = {"best": [_best(run)], "newest": _checkpoints(run)[-1:], "all": _checkpoints(run)}[which[0]]
        for path in paths:
            _edit(path / "manifest.json", lambda value: _set(value, which[1], changes["to"]))

    return forge


def _set(value: Any, key: str, to: Any) -> None:
    *holders, last = key.split(".")
    for holder in holders:
        value = value[holder]
    value[last] = to(value[last]) if callable(to) else to


def _edit(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(sealed(value))


def _journal(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Callable[[Path], None]:
    """Rewrite the events of the journal."""

    def forge(run: Path) -> None:
        path = run / "metrics.jsonl"
        events = [json.loads(line) for line in path.read_bytes().splitlines()]
        path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in change(events)))

    return forge


def _each(event: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change every event of a kind."""

    def rewrite(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for found in events:
            if found["event"] == event:
                change(found)
        return events

    return _journal(rewrite)


def _without(event: str, keep: Callable[[dict[str, Any]], bool] = lambda _: False) -> Callable[[Path], None]:
    """Remove the events of a kind."""
    return _journal(lambda events: [found for found in events if found["event"] != event or keep(found)])


def _config(key: str, to: Any) -> Callable[[Path], None]:
    def forge(run: Path) -> None:
        path = run / "config.yaml"
        value = yaml.safe_load(path.read_text())
        *holders, last = key.split(".")
        part = value
        for holder in holders:
            part = part[holder]
        part[last] = to
        path.write_text(yaml.safe_dump(value, sort_keys=False))

    return forge


def _array(which: str, file: str, name: str) -> Callable[[Path], None]:
    """Change one number in an array of a checkpoint."""

    def forge(run: Path) -> None:
        from safetensors.numpy import load_file, save_file

        path = {"best": _best(run), "newest": _checkpoints(run)[-1], "oldest": _checkpoints(run)[0]}[which] / file
        arrays = {key: np.array(array) for key, array in load_file(path).items()}
        key = next(key for key in sorted(arrays) if key.startswith(name))
        flat = arrays[key].reshape(-1)
        flat[len(flat) // 2] = flat[len(flat) // 2] + 1
        save_file(arrays, path)
        refit(run)

    return forge


def _counters(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Change the trainer's counters in the newest checkpoint's state."""

    def forge(run: Path) -> None:
        from safetensors.numpy import load_file, save_file

        path = _checkpoints(run)[-1] / "state.safetensors"
        arrays = dict(load_file(path))
        trainer = json.loads(arrays["trainer"].tobytes())
        change(trainer)
        arrays["trainer"] = np.frombuffer(json.dumps(trainer).encode(), np.uint8)
        save_file(arrays, path)
        refit(run)

    return forge


def _exchange(run: Path) -> None:
    """Exchange the files of two checkpoints; each manifest keeps its step."""
    one, other = _checkpoints(run)[:2]
    for name in ("policy.safetensors", "state.safetensors"):
        data = (one / name).read_bytes()
        (one / name).write_bytes((other / name).read_bytes())
        (other / name).write_bytes(data)
    refit(run)


def _foreign_weights(run: Path) -> None:
    source = _checkpoints(run.parent / "seeded")[-1] / "policy.safetensors"
    shutil.copy(source, _best(run) / "policy.safetensors")
    refit(run)


def _ladder(run: Path) -> None:
    """Invent a policy among those that are kept for watching."""
    source = _checkpoints(run)[0]
    shutil.copytree(source, run / LADDER / source.name)


def _rename_newest(run: Path) -> None:
    newest = _checkpoints(run)[-1]
    target = newest.with_name(str(int(newest.name) * 10))
    newest.rename(target)
    _edit(target / "manifest.json", lambda value: value.update(steps=int(target.name)))


def _copy_checkpoint(run: Path) -> None:
    oldest = _checkpoints(run)[0]
    target = oldest.with_name(str(int(oldest.name) + 256))
    shutil.copytree(oldest, target)
    _edit(target / "manifest.json", lambda value: value.update(steps=int(target.name)))


def _other_best(run: Path) -> None:
    best = _best(run)
    other = next(path for path in _checkpoints(run) if path != best)
    evaluation = json.loads((best / "manifest.json").read_bytes())["evaluation"]
    _edit(best / "manifest.json", lambda value: value.update(evaluation=None))
    _edit(other / "manifest.json", lambda value: value.update(evaluation=evaluation))


def _better_everywhere(run: Path) -> None:
    """Raise the best evaluation in every file that has it."""
    best = _best(run) / "manifest.json"
    mean = json.loads(best.read_bytes())["evaluation"]["mean"]
    for path in (best, run / "run.json", run / "metrics.jsonl"):
        path.write_text(path.read_text().replace(json.dumps(mean), "499.0"))
    for path in (best, run / "run.json"):
        _edit(path, lambda value: None)


def _roll_back(run: Path) -> None:
    """Let a forged event make the first half of the records void."""
    event = {"event": "trouble", "iterations": 12, "steps": 3072, "what": "rolled back", "attempt": 1}
    event |= {"back_to": 3072, "kind": "rolled-back", "facts": {}, "at": 1.0}
    _journal(lambda events: [*events, event])(run)


def _worse_removed(run: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    best = max(event["evaluation"]["mean"] for event in events if event["event"] == "evaluation")
    _without("evaluation", lambda event: event["evaluation"]["mean"] == best)(run)


def _raise_stored(run: Path) -> None:
    with sqlite3.connect(run.parent.parent / "hotloop.db") as database:
        database.execute("UPDATE runs SET best = 1000 WHERE name = ?", (run.name,))
    database.close()


def _twice(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write one record a second time."""
    at = next(index for index, event in enumerate(events) if event["event"] == "iteration")
    return [*events[: at + 1], *events[at:]]


def _invent(run: Path) -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = next(event for event in events if event["event"] == "evaluation")
        invented = json.loads(json.dumps(found))
        invented |= {"steps": found["steps"] + 256, "iterations": found["iterations"] + 1}
        at = events.index(found)
        return [*events[: at + 1], invented, *events[at + 1 :]]

    _journal(change)(run)


def _kept_eval(run: Path) -> None:
    """Invent the result of a `hotloop eval`."""

    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = next(event for event in events if event["event"] == "evaluation")
        how = {"deterministic": True, "seed": 0, "options": {}, "episodes": 100}
        invented = {"event": "eval", "iterations": found["iterations"], "steps": found["steps"], "how": how}
        return [*events, {**invented, "evaluation": {**found["evaluation"], "mean": 499.0}, "at": found["at"]}]

    _journal(change)(run)


def _first_array(run: Path) -> None:
    from safetensors.numpy import load_file, save_file

    path = run / "first.safetensors"
    arrays = {key: np.array(array) for key, array in load_file(path).items()}
    next(iter(arrays.values())).reshape(-1)[0] += 1e-3
    save_file(arrays, path)


def _replay_bytes(run: Path) -> None:
    """Exchange two replays: each is exact, and each is said to be the other."""
    one, other = sorted((run / "replays").glob("[0-9]*"))[:2]
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _emptied(run: Path) -> None:
    (run / "metrics.jsonl").write_bytes(b"")


def _up(value: float) -> float:
    return value + 10


FORGERIES: tuple[Forgery, ...] = (
    Forgery("gravity in the best checkpoint", _manifest("best", "options", to={"gravity": 0.01})),
    Forgery("gravity in all checkpoints", _manifest("all", "options", to={"gravity": 0.01})),
    Forgery("gravity in the config", _config("env.gravity", 0.01)),
    Forgery("gravity in the journal", _each("start", lambda event: _set(event, "env_options.gravity", 0.01))),
    Forgery("another activation in the best checkpoint", _manifest("best", "policy.activation", to="relu")),
    Forgery("normalisation in the best checkpoint", _manifest("best", "normalize_observations", to=True)),
    Forgery("action repeat in the best checkpoint", _manifest("best", "action_repeat", to=2)),
    Forgery("bounds in all checkpoints", _manifest("all", "observation.low", to=[-1.0, -1.0, -1.0, -1.0])),
    Forgery("masks in the newest checkpoint", _manifest("newest", "masked", to=True)),
    Forgery("iterations in the newest checkpoint", _manifest("newest", "iterations", to=_up)),
    Forgery("seed in all checkpoints", _manifest("all", "seed", to=_up)),
    Forgery("attempt in all checkpoints", _manifest("all", "attempt", to=1)),
    Forgery("learner in all checkpoints", _manifest("all", "learner", to="torch"), "learner"),
    Forgery("version in all checkpoints", _manifest("all", "versions.numpy", to="9.9"), "version"),
    Forgery("threads in all checkpoints", _manifest("all", "threads", to=99), "threads"),
    Forgery("date in all checkpoints", _manifest("all", "date", to="1999-01-01T00:00:00+00:00"), "date"),
    Forgery("emptied metrics", _emptied),
    Forgery("removed metrics", lambda run: (run / "metrics.jsonl").unlink()),
    Forgery("bad evaluations removed", _worse_removed),
    Forgery("all evaluations removed", _without("evaluation")),
    Forgery("all records removed", _without("iteration")),
    Forgery("one record removed", _without("iteration", lambda event: event["iterations"] != 16)),
    Forgery("last record removed", _without("iteration", lambda event: event["iterations"] != 32)),
    Forgery("a record twice", _journal(_twice)),
    Forgery("checkpoint events removed", _without("checkpoint")),
    Forgery("end removed", _without("end")),
    Forgery("start removed", _without("start")),
    Forgery("an invented evaluation", _invent),
    Forgery("an invented result of hotloop eval", _kept_eval, "eval"),
    Forgery("a better evaluation", _each("evaluation", lambda event: _set(event, "evaluation.mean", _up))),
    Forgery("a narrower interval", _each("evaluation", lambda event: _set(event, "evaluation.low", _up))),
    Forgery("a better evaluation everywhere", _better_everywhere),
    Forgery("best flags exchanged", _each("evaluation", lambda event: _set(event, "is_best", lambda best: not best))),
    Forgery("best checkpoint flags", _each("checkpoint", lambda event: _set(event, "is_best", lambda best: not best))),
    Forgery("a better return", _each("iteration", lambda event: _set(event, "return_recent", _up))),
    Forgery("a better loss", _each("iteration", lambda event: _set(event, "policy_loss", _up))),
    Forgery("more episodes", _each("iteration", lambda event: _set(event, "episodes", _up))),
    Forgery("a better return at the end", _each("end", lambda event: _set(event, "return_recent", _up))),
    Forgery("solved at the end", _each("end", lambda event: _set(event, "ended", "solved"))),
    Forgery("quicker", _each("end", lambda event: _set(event, "seconds", 1e-3)), "time"),
    Forgery("another config at the start", _each("start", lambda event: _set(event, "config.ppo.clip", 0.11))),
    Forgery("another seed at the start", _each("start", lambda event: _set(event, "seed", 77))),
    Forgery("another env at the start", _each("start", lambda event: _set(event, "env", "pendulum"))),
    Forgery("another host at the start", _each("start", lambda event: _set(event, "host", "elsewhere")), "host"),
    Forgery("a forged rollback", _roll_back),
    Forgery("the evaluation of another checkpoint", _other_best),
    Forgery("no evaluation of the best checkpoint", _manifest("best", "evaluation", to=None)),
    Forgery("a better mean in the manifest", _manifest("best", "evaluation.mean", to=499.0)),
    Forgery(
        "a better best in run.json",
        lambda run: _edit(run / "run.json", lambda v: _set(v, "best.mean", 499.0)),
        "run.json",
    ),
    Forgery(
        "more steps in run.json", lambda run: _edit(run / "run.json", lambda v: _set(v, "steps", 10**9)), "run.json"
    ),
    Forgery("optimiser state of the newest", _array("newest", "state.safetensors", "adam.mean")),
    Forgery("optimiser variance of the newest", _array("newest", "state.safetensors", "adam.")),
    Forgery("optimiser state of the oldest", _array("oldest", "state.safetensors", "adam.mean")),
    Forgery("envs of the newest", _array("newest", "state.safetensors", "envs")),
    Forgery("weights of the newest", _array("newest", "policy.safetensors", "")),
    Forgery("weights of the oldest", _array("oldest", "policy.safetensors", "heads")),
    Forgery("weights of another run", _foreign_weights),
    Forgery("counters of the newest", _counters(lambda trainer: trainer.update(episodes=trainer["episodes"] + 5))),
    Forgery("best in the counters", _counters(lambda trainer: _set(trainer, "best.mean", 499.0))),
    Forgery("two checkpoints exchanged", _exchange),
    Forgery("the oldest checkpoint removed", lambda run: shutil.rmtree(_checkpoints(run)[0])),
    Forgery("an invented checkpoint", _copy_checkpoint),
    Forgery("ten times as many steps", _rename_newest),
    Forgery("seed in the config", _config("train.seed", 77)),
    Forgery("learning rate in the config", _config("ppo.learning_rate", 0.0031)),
    Forgery("episodes per evaluation in the config", _config("train.evaluate_episodes", 400)),
    Forgery("limit in the config", _config("train.steps", 10**9), "steps"),
    Forgery("first weights", _first_array, run="seeded"),
    Forgery("first weights removed", lambda run: (run / "first.safetensors").unlink(), run="seeded"),
    Forgery("gravity of a killed run", _manifest("best", "options", to={"gravity": 0.01}), run="killed"),
    Forgery("evaluations of a killed run", _without("evaluation"), run="killed"),
    Forgery("best of a killed run", _other_best, run="killed"),
    Forgery("replays exchanged", _replay_bytes, "replay"),
    Forgery("an invented policy for watching", _ladder, "policies"),
    Forgery("best in the store", _raise_stored, "store"),
)


class Forgeries:
    """One forgery of one run."""

    name = "forgeries"

    def __init__(self) -> None:
        self._servers = CommandServers()

    def prepare(self, folder: Path, seed: int) -> None:
        """Make runs that are as they claim to be, which `verify` must confirm."""
        self._home = folder / "whole" / "home"
        make_home(self._home)
        self._order = list(FORGERIES)
        Random(f"forgeries {seed}").shuffle(self._order)
        for run in sorted({forgery.run for forgery in FORGERIES}):
            done = self._servers.run(self._home, "verify", run)
            assert done.code == 0, done

    def close(self) -> None:
        """End the servers."""
        self._servers.close()

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Forge a run and ask whether it is what it claims to be."""
        forgery = self._order[index % len(self._order)]
        home = folder / "home"
        shutil.copytree(self._home, home)
        forgery.forge(home / "runs" / forgery.run)
        done = self._servers.run(home, "verify", forgery.run)
        if crash := done.crash():
            return Result(forgery.name, [crash])
        if done.code == 0 and not _is_listed(forgery.unchecked, done.out + done.err):
            return Result(forgery.name, [f"verify says: {done.out.strip()[:300]} {done.err.strip()[:200]}"])
        if done.code not in (0, 1) and not done.complaint():
            return Result(forgery.name, [f"exit code {done.code} without a message: {done.err[-200:]}"])
        return Result(forgery.name, [])


def _is_listed(word: str | None, text: str) -> bool:
    """Whether something is listed as not checked."""
    after = text.lower().partition("not checked")[2]
    return word is not None and word in after
