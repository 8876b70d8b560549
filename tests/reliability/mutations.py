"""Damaged files: every command that reads them gives the right result, or says in one line which file is damaged."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.reliability import commands, damages, outcome, training_runs
from tests.reliability.commands import Ended
from tests.reliability.deaths import compile_library
from tests.reliability.engine import Result
from tests.reliability.server import CommandServers

_KIND = "brief"
# Finished; killed on its way; begun with the weights of another, and stopped.
RUNS = ("done", "killed", "seeded")
_LIMIT = 60.0
# Enough to know.
_MOST_HANGS = 2
_TIMES = {
    "at",
    "created",
    "seen",
    "process",
    "host",
    "seconds",
    "time",
    "steps_per_second",
    "path",
    "id",
    "git",
    "replays",
}


def reading_commands(run: str, home: Path) -> dict[str, list[str]]:
    """Every command that reads a run, in an order in which the last one may write to it."""
    path = f"{home.name}/runs/{run}"
    replays = sorted((home / "runs" / run / "replays").glob("[0-9]*"))
    return {
        "eval": ["eval", run, "--episodes", "3", "--no-keep", "--json"],
        "play": ["play", run, "--json"],
        **({"replay": ["play", "--replay", str(replays[0]), "--json"]} if replays else {}),
        "export": ["export", run, "--onnx", "policy.onnx", "--json"],
        "load": ["load", path],
        "list": ["runs", "list", "--json"],
        "show": ["runs", "show", run, "--json"],
        "plot": ["runs", "plot", run, "--json"],
        "compare": ["runs", "compare", *RUNS, "--json"],
        "store-export": ["runs", "export", run, "--to", "metrics.json", "--json"],
        "verify": ["verify", run, "--json"],
        "resume": ["train", "--resume", run, "--json"],
    }


class Mutations:
    """One damage to one file of a run, and all commands that read it."""

    name = "mutations"

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._only = only
        self._servers = CommandServers()

    def prepare(self, folder: Path, seed: int) -> None:
        """Make a home with runs, and note what every command says of them."""
        self._home = folder / "whole" / "home"
        make_home(self._home)
        self._expected: dict[str, dict[str, Any]] = {}
        self._weights: dict[str, dict[str, str]] = {}
        for run in RUNS:
            home = self._copy(folder / f"expected-{run}")
            said = {name: self._run(home, arguments) for name, arguments in reading_commands(run, home).items()}
            for name, done in said.items():
                assert done.code == 0, done
                self._expected.setdefault(run, {})[name] = _meaning(home, done)
            self._weights[run] = outcome.weights(home / "runs" / run)
        files = sorted(path.relative_to(self._home) for path in self._home.rglob("*") if path.is_file())
        # What a killed process left half-written is nobody's to read.
        whole = [path for path in files if not any(part.startswith(".") for part in path.parts)]
        self._order = [(path, damage) for path in whole for damage in damages.fitting(path)]
        Random(f"mutations {seed}").shuffle(self._order)

    def close(self) -> None:
        """End the servers."""
        self._servers.close()

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Damage a file, run every command, and judge what each says."""
        file, damage = self._order[index % len(self._order)]
        home = self._copy(folder)
        path = home / file
        run = file.parts[1] if file.parts[0] == "runs" else random.choice(RUNS)
        # Without the store, commands make it again from the journals.
        if rebuilt := file.parts[0] == "runs" and random.random() < 0.5:
            _remove_store(home)
        matters = _matters(self._home / file, path, lambda: damage(path, random))
        problems, hangs = [], 0
        for name, arguments in reading_commands(run, self._home).items():
            if self._only is None or name in self._only:
                done = self._run(home, arguments)
                hangs += done.timed_out
                problems += [f"{name}: {problem}" for problem in self._judge(home, run, name, done, file, matters)]
            if hangs == _MOST_HANGS:
                break
        if (folder / "marker").exists():
            problems.append("code of the damaged file was executed")
        store = ", store made again" if rebuilt else ""
        return Result(f"{file}: {damage.__name__}{store}", problems)

    def _judge(self, home: Path, run: str, name: str, done: Ended, file: Path, matters: bool) -> list[str]:
        if crash := done.crash():
            return [crash]
        named = is_named(file, done.out + done.err)
        if done.code != 0:
            if name == "verify" and done.code == 1:
                return []
            lines = [line for line in done.err.splitlines() if line.strip()]
            if not done.complaint():
                return [f"exit code {done.code} without a message: {done.err.strip()[-200:]!r}"]
            if len(lines) > 8:
                return [f"{len(lines)} lines of errors: {lines[0]!r} ... {lines[-1]!r}"]
            return [] if named else [f"the error does not name the damaged file: {done.complaint()[:300]}"]
        if name == "resume":
            expected, found = self._weights[run], outcome.weights(home / "runs" / run)
            # An older checkpoint that was damaged stays as it is: resuming needs it no more.
            if file.parent.name != max(expected, key=int):
                expected, found = ({**each, file.parent.name: ""} for each in (expected, found))
            return [] if named else list(outcome.differences(expected, found, "weights"))
        if name == "verify" and matters and not named and not _is_beside(file):
            return ["says 'same' although the file was changed"]
        # Nothing else can tell a record that was changed, and the store is only a copy of the records.
        if file.name in ("metrics.jsonl", "hotloop.db") and done.command[1] == "runs":
            return []
        different = list(outcome.differences(self._expected[run][name], _meaning(home, done)))
        return [f"silent difference: {line}" for line in different[:2]] if different and not named else []

    def _run(self, home: Path, arguments: Sequence[str]) -> Ended:
        moved = [text.replace(str(self._home), str(home)) for text in arguments]
        return self._servers.run(home, *moved, timeout=_LIMIT)

    def _copy(self, folder: Path) -> Path:
        shutil.copytree(self._home, folder / "home", symlinks=True)
        return folder / "home"


_made: list[Path] = []


def make_home(home: Path) -> None:
    """Make a home with a finished run, one that was killed, and one that began with the weights of another."""
    # Several classes of attacks read the same runs.
    if _made and _made[0].exists():
        shutil.copytree(_made[0], home)
        return
    home.parent.mkdir(parents=True)
    _made[:] = [home]
    library = compile_library(home.parent)
    common = ["train", *training_runs.KINDS[_KIND], "--json"]
    assert commands.run(home, *common, "--seed", "5", "--name", "done").code == 0
    # Operations of its first three checkpoints, and no end.
    fault = {"LD_PRELOAD": str(library), "FAULT_ROOT": str(home), "FAULT_AT": "170"}
    commands.run(home, *common, "--seed", "6", "--name", "killed", variables=fault)
    assert len(list(home.glob("runs/killed/checkpoints/[0-9]*"))) > 1
    seeded = commands.run(home, *common, "--seed", "7", "--name", "seeded", "--init-from", "done", "--steps", "2048")
    assert seeded.code == 0, seeded
    # Goes on with another limit, which rewrites its config and the checksums.
    assert commands.run(home, "train", "--resume", "seeded", "--steps", "4096", "--json").code == 0
    assert commands.run(home, "runs", "list").code == 0


def is_named(file: Path, text: str) -> bool:
    """Whether a text names a file of a home: itself, the checkpoint that it belongs to, or what people call it."""
    names = {file.name}
    if "checkpoints" in file.parts and file.parent.name.isdecimal():
        names |= {f"checkpoints/{file.parent.name}", f"step {file.parent.name}"}
    if file.name.startswith("hotloop.db"):
        names.add("store")
    return any(name in text for name in names)


def _is_beside(file: Path) -> bool:
    """Whether a file is no part of what a run claims: its status, its replays (they check themselves), the store."""
    return file.name in ("run.json", "hotloop.db") or "replays" in file.parts


def _matters(whole: Path, path: Path, damage: Any) -> bool:
    """Whether a damage changes what the file says; if not, nobody needs to notice it."""
    damage()
    try:
        return any(outcome.differences(_content(whole), _content(path)))
    except Exception:
        return True


def _content(path: Path) -> Any:
    if not path.is_file():
        return None
    if path.name == "metrics.jsonl":
        return outcome.records(path)
    if path.name == "manifest.json":
        return {key: value for key, value in json.loads(path.read_bytes()).items() if key != "date"}
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".yaml":
        return yaml.safe_load(path.read_text())
    return path.read_bytes()


def _meaning(home: Path, done: Ended) -> Any:
    """The results that a command printed or wrote, without times and places."""
    text = done.out.replace(str(home), "HOME")
    events = [_without(json.loads(line)) for line in text.splitlines()]
    written = home.parent / "policy.onnx"
    if "export" in done.command and "--onnx" in done.command:
        events.append(hashlib.sha256(written.read_bytes()).hexdigest())
    return events


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(entry) for key, entry in value.items() if key not in _TIMES}
    return [_without(entry) for entry in value] if isinstance(value, list) else value


def _remove_store(home: Path) -> None:
    for path in home.glob("hotloop.db*"):
        path.unlink()
