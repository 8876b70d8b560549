"""Foreign runs that name code: no command executes any of it without --trust."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.reliability import commands
from tests.reliability.engine import Result
from tests.reliability.forgeries import sealed
from tests.reliability.server import CommandServers

# Each leaves a file beside the home of the command that executes it.
_MODULE = """
import os, pathlib
pathlib.Path(os.environ["HOTLOOP_HOME"]).parent.joinpath("marker").touch()
"""
_INTERPRETER = """#!/bin/sh
touch "$HOTLOOP_HOME/../marker"
exit 1
"""
_LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/../marker", getenv("HOTLOOP_HOME"));
    close(open(path, O_CREAT | O_WRONLY, 0644));
}
"""


@dataclass(frozen=True)
class Setting:
    """A way in which a run's files can name code. `{code}` stands for the folder where that code is."""

    name: str
    run: str
    forge: Callable[[Path, Path], None]
    works: bool = True
    """Whether a command that trusts the run executes it: the attack itself is real."""


def _config(**changes: Any) -> Callable[[Path, Path], None]:
    def forge(run: Path, code: Path) -> None:
        path = run / "config.yaml"
        config = yaml.safe_load(path.read_text())
        for key, value in changes.items():
            part, _, name = key.partition("__")
            config[part][name] = json.loads(json.dumps(value).replace("{code}", str(code)))
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    return forge


def _manifests(**changes: Any) -> Callable[[Path, Path], None]:
    def forge(run: Path, code: Path) -> None:
        for path in run.glob("checkpoints/*/manifest.json"):
            manifest = json.loads(path.read_bytes())
            for key, value in changes.items():
                result = json.loads(json.dumps(value).replace("{code}", str(code)))
                manifest[key] = {**manifest[key], **result} if isinstance(result, dict) else result
            path.write_bytes(sealed(manifest))

    return forge


def _both(*forgeries: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def forge(run: Path, code: Path) -> None:
        for each in forgeries:
            each(run, code)

    return forge


def _tag(run: Path, code: Path) -> None:
    with (run / "config.yaml").open("a") as file:
        file.write("extra: !!python/object/apply:os.system ['touch marker']\n")


def _env(name: str) -> Callable[[Path, Path], None]:
    return _both(_config(env__name=name), _manifests(env=name), _replays(name), _journal(name))


def _replays(env: str) -> Callable[[Path, Path], None]:
    def forge(run: Path, code: Path) -> None:
        from safetensors import safe_open
        from safetensors.numpy import load_file, save_file

        for path in run.glob("replays/[0-9]*"):
            with safe_open(path, "numpy") as file:
                facts = json.loads(file.metadata()["replay"])
            facts["env"] = env.replace("{code}", str(code))
            save_file(load_file(path), path, {"replay": json.dumps(facts)})

    return forge


def _journal(env: str) -> Callable[[Path, Path], None]:
    def forge(run: Path, code: Path) -> None:
        path = run / "metrics.jsonl"
        first, rest = path.read_text().split("\n", 1)
        event = json.loads(first)
        event["env"] = event["config"]["env"]["name"] = env.replace("{code}", str(code))
        path.write_text(json.dumps(event) + "\n" + rest)

    return forge


_POLICY = {"module": "evil_code:Net", "module_options": {}}
SETTINGS = (
    Setting("an interpreter", "gym", _config(runner__worker_python="{code}/python3")),
    Setting("an interpreter, relative", "gym", _config(runner__worker_python="downloads/code/python3"), works=False),
    Setting("an interpreter of a native env", "done", _config(runner__worker_python="{code}/python3"), works=False),
    Setting("a factory", "done", _env("evil_code:make")),
    Setting("a factory in a config only", "done", _config(env__name="evil_code:make")),
    Setting("a factory in manifests only", "done", _manifests(env="evil_code:make"), works=False),
    Setting("a module of Gymnasium's ids", "gym", _env("gymnasium:evil_code:Env-v0"), works=False),
    Setting("a module of PettingZoo's", "gym", _env("pettingzoo:evil_code"), works=False),
    Setting("a PufferLib factory", "gym", _env("pufferlib:evil_code:make"), works=False),
    Setting("a native library", "done", _env("native:{code}/evil.so")),
    Setting("a compiled env of a file", "done", _env("compiled:{code}/evil_code.py:Env")),
    Setting("a compiled env of a module", "done", _env("compiled:evil_code:Env")),
    Setting("a policy's module", "done", _both(_config(policy__module="evil_code:Net"), _manifests(policy=_POLICY))),
    Setting("a policy's module in manifests only", "done", _manifests(policy=_POLICY), works=False),
    Setting("a loss", "done", _config(torch__losses=["evil_code:loss"], train__learner="torch")),
    Setting("a YAML tag", "done", _tag, works=False),
)
_RUN = "downloads/run"
COMMANDS: dict[str, list[str]] = {
    "eval": ["eval", _RUN, "--episodes", "2", "--no-keep"],
    "eval of a checkpoint": ["eval", "CHECKPOINT", "--episodes", "2", "--no-keep"],
    "verify": ["verify", _RUN],
    "play": ["play", _RUN, "--steps", "3"],
    "play of a checkpoint": ["play", "CHECKPOINT", "--steps", "3"],
    "replay": ["play", "--replay", "REPLAY"],
    "export": ["export", _RUN, "--onnx", "policy.onnx"],
    "load": ["load", _RUN],
    "load of a checkpoint": ["load", "CHECKPOINT"],
    "resume": ["train", "--resume", _RUN, "--steps", "99999"],
    "init-from": ["train", "cartpole", "--init-from", _RUN, "--steps", "256"],
    "list": ["runs", "list"],
    "show": ["runs", "show", "run"],
    "plot": ["runs", "plot", "run"],
    "compare": ["runs", "compare", "run"],
    "store export": ["runs", "export", "run", "--to", "metrics.csv"],
}


class Trust:
    """One command on one foreign run that names code in one way."""

    name = "trust"

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown
        self._servers = CommandServers()

    def prepare(self, folder: Path, seed: int) -> None:
        """Make the runs and the code, and (`shown`) that the code is executed when a run is trusted."""
        self._code = folder / "code"
        self._code.mkdir()
        # Importable where commands run, as a file in the current folder or an installed package would be.
        for place in (folder, self._code):
            (place / "evil_code.py").write_text(_MODULE)
        (self._code / "python3").write_text(_INTERPRETER)
        (self._code / "python3").chmod(0o755)
        (self._code / "evil.c").write_text(_LIBRARY)
        compiler = ["cc", "-shared", "-fPIC", "-o", str(self._code / "evil.so"), str(self._code / "evil.c")]
        subprocess.run(compiler, check=True)
        self._source = folder / "source" / "home"
        self._source.parent.mkdir()
        common = ("runner.num_envs=2", "ppo.horizon=16", "ppo.minibatch_size=32", "train.evaluate_episodes=2")
        for name, env in (("done", "cartpole"), ("gym", "gymnasium:CartPole-v1")):
            made = commands.run(self._source, "train", env, *common, "--steps", "64", "--name", name)
            assert made.code == 0, made
        for number, setting in enumerate(SETTINGS):
            if setting.works and self._shown:
                self._assert_executed(setting, folder / f"trusted-{number}")
        self._order = list(product(SETTINGS, COMMANDS))
        Random(f"trust {seed}").shuffle(self._order)

    def close(self) -> None:
        """End the servers."""
        self._servers.close()

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Run one command on one foreign run."""
        setting, name = self._order[index % len(self._order)]
        home = self._download(setting, folder)
        done = self._run(home, COMMANDS[name])
        problems = [] if (crash := done.crash()) is None else [crash]
        if (folder / "marker").exists():
            problems.append(f"'{' '.join(done.command)}' executed the code that the run names")
        if done.code and not done.complaint():
            problems.append(f"exit code {done.code} without a message: {done.err.strip()[-300:]}")
        return Result(f"{name}, {setting.name}", problems)

    def _assert_executed(self, setting: Setting, folder: Path) -> None:
        folder.mkdir()
        home = self._download(setting, folder)
        said = [self._run(home, [*COMMANDS[name], "--trust"]) for name in ("eval", "verify")]
        assert (folder / "marker").exists(), (setting.name, said)

    def _download(self, setting: Setting, folder: Path) -> Path:
        """Put a forged run where no run of this home is, and into this home's runs, which list it."""
        home = folder / "home"
        target = folder / "downloads" / "run"
        shutil.copytree(self._source / "runs" / setting.run, target)
        shutil.copytree(self._code, folder / "downloads" / "code")
        setting.forge(target, self._code)
        shutil.copytree(target, home / "runs" / "run")
        return home

    def _run(self, home: Path, arguments: list[str]) -> commands.Ended:
        run = home.parent / _RUN
        checkpoint = next(path for path in run.glob("checkpoints/*") if path.name.isdecimal())
        replay = next(run.glob("replays/[0-9]*"), run / "replays" / "none.replay")
        named = {"CHECKPOINT": str(checkpoint), "REPLAY": str(replay)}
        return self._servers.run(home, *(named.get(text, text) for text in arguments))
