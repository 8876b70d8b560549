"""The process of a job: runs one attempt, reports its progress, and leaves its outcome in the job's folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import ConfigError, TrainingError
from hotloop.orchestrator.folder import JobFolder, LockedError, Progress, write_progress
from hotloop.training.callbacks import Callback

if TYPE_CHECKING:
    from hotloop.training.callbacks import ProgressReport
    from hotloop.training.runs import Run
    from hotloop.training.trainer import Trainer

# Exit codes, for the case that the outcome cannot be written.
COMPLETED, ERROR, REFUSED, NO_SPACE, STOPPED = 0, 1, 2, 75, 130
# Seconds for which a process of an earlier attempt, which is not wanted any more, may hold the lock.
_PATIENCE: Final = 5.0
# Bytes at the end of a log in which its last line is looked for.
_TAIL: Final = 4096
_CAUSES: Final = {COMPLETED: "completed", REFUSED: "refused", NO_SPACE: "no space", STOPPED: "stopped"}


def run(path: Path, attempt: int, run_command: Callable[[list[str]], int]) -> int:
    """Run an attempt of the job in this process; return its exit code."""
    folder = JobFolder(path)
    try:
        with folder.locked(_PATIENCE) as handle:
            order = folder.read_order(attempt)
            if order is None:
                return COMPLETED
            folder.write_process(handle)
            _redirect(folder.log)
            _set_environment(order)
            try:
                outcome = _train(folder, order) if order["kind"] == "train" else _command(folder, order, run_command)
            except Exception as error:
                traceback.print_exc()
                outcome = _failure(error)
            with contextlib.suppress(OSError):
                folder.write_outcome({**outcome, "peak": _peak_memory()})
            return int(outcome["code"])
    except LockedError:
        return COMPLETED


def _redirect(log: Path) -> None:
    """Send output to the log and take input from nowhere."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    # Those of the orchestrator may belong to a terminal, or to a reader that is gone.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _set_environment(order: Mapping[str, Any]) -> None:
    os.environ["HOTLOOP_HOME"] = order["home"]
    if order["store"] is None:
        os.environ.pop("HOTLOOP_STORE", None)
    else:
        os.environ["HOTLOOP_STORE"] = order["store"]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.chdir(order["spec"]["cwd"])
    if gpus := order["gpus"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))


def _command(folder: JobFolder, order: Mapping[str, Any], run_command: Callable[[list[str]], int]) -> dict[str, Any]:
    arguments = order["spec"]["arguments"]
    if order["kind"] == "sweep":
        arguments = _sweep_arguments(order)
    code = run_command([order["kind"], *arguments])
    if order["kind"] == "verify" and code == ERROR:
        return {"code": REFUSED, "why": "the repetition differs from the run: see the log"}
    why = "" if code in (COMPLETED, STOPPED) else f"exit code {code}: {_last_line(folder)}"
    return {"code": code if code in _CAUSES else ERROR, "why": why, "result": {"exit_code": code}}


def _sweep_arguments(order: Mapping[str, Any]) -> list[str]:
    """Return arguments that begin a sweep under the job's own name, or resume it if an earlier attempt has begun it."""
    arguments: list[str] = order["spec"]["arguments"]
    if "--resume" in arguments:
        return arguments
    is_named = "--name" in arguments[:-1]
    name = arguments[arguments.index("--name") + 1] if is_named else order["run"]
    if order["attempt"] > 1 and (Path(order["home"]) / "sweeps" / name).is_dir():
        return ["--resume", name]
    return arguments if is_named else [*arguments, "--name", name]


def _last_line(folder: JobFolder) -> str:
    """Return the last line of the log, where commands say why they failed."""
    sys.stdout.flush()
    sys.stderr.flush()
    lines = folder.read_log(_TAIL).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "see the log")


def _train(folder: JobFolder, order: Mapping[str, Any]) -> dict[str, Any]:
    from hotloop.training.display import PlainLines

    view = PlainLines(sys.stdout)
    reporter = _Reporter(folder)
    try:
        trainer = _open_trainer(order, [view, reporter])
    except (ConfigError, TrainingError) as error:
        print(f"hotloop: {error}", file=sys.stderr)
        return {"code": NO_SPACE if _is_no_space(error) else REFUSED, "why": str(error)}
    reporter.attach(trainer)
    try:
        run = trainer.run()
    except Exception as error:
        if isinstance(error, TrainingError):
            print(f"hotloop: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        return {**_failure(error), "iteration": trainer.session.counters.iterations}
    finally:
        reporter.close()
    if run.ended == "interrupted":
        return {"code": STOPPED, "why": "", "run": str(run.path)}
    return {"code": COMPLETED, "why": "", "run": str(run.path), "result": describe_run(run)}


def _open_trainer(order: Mapping[str, Any], callbacks: list[Callback]) -> Trainer:
    """Begin the run of this job, or resume it if an earlier attempt has begun it."""
    from hotloop.config.loader import build
    from hotloop.tracking.store_url import runs_folder
    from hotloop.training import start
    from hotloop.training.runs import home
    from hotloop.training.trust import code_in_config, remember

    spec, name = order["spec"], order["run"]
    path = runs_folder(home()) / name
    if order["attempt"] > 1 and path.is_dir():
        return start.resume(path, callbacks=callbacks, trust=spec["trust"])
    config = build(spec["config"], given=spec["given"])
    trainer = start.begin(config, init_from=spec["init_from"], name=name, callbacks=callbacks, trust=spec["trust"])
    remember(trainer.path, code_in_config(config))
    return trainer


def describe_run(run: Run) -> dict[str, Any]:
    """Return the result of a completed run, with the hash of its last weights."""
    from hotloop.training.checkpoint import checkpoint_paths

    paths = checkpoint_paths(run.path / "checkpoints")
    policy = paths[-1] / "policy.safetensors" if paths else None
    return {
        "run": run.name,
        "steps": run.steps,
        "iterations": run.iterations,
        "ended": run.ended,
        "return": run.return_mean,
        "evaluation": None if run.evaluation is None else run.evaluation.mean,
        "best": None if run.best is None else run.best.mean,
        "weights": None if policy is None or not policy.exists() else hashlib.sha256(policy.read_bytes()).hexdigest(),
    }


def _failure(error: BaseException) -> dict[str, Any]:
    cause = "out of memory" if isinstance(error, MemoryError) else "error"
    text = str(error) or type(error).__name__
    if not isinstance(error, ConfigError | TrainingError):
        text = f"{type(error).__name__}: {text}"
    return {"code": NO_SPACE if _is_no_space(error) else ERROR, "cause": cause, "why": text}


def _peak_memory() -> int:
    """Return the most memory that this process and a child of it held at a time, in bytes."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1024 * sum(resource.getrusage(each).ru_maxrss for each in who)


def _is_no_space(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Reporter(Callback):
    """Writes progress to the job's folder, and passes on how many threads the job is asked to use."""

    def __init__(self, folder: JobFolder) -> None:
        super().__init__()
        self._folder = folder
        self._handle = folder.open_progress()
        self._trainer: Trainer | None = None
        self._threads: int | None = None

    def attach(self, trainer: Trainer) -> None:
        """Pass requests on to this trainer, from the first iteration on."""
        self._trainer = trainer
        self._pass_request_on()

    def progress(self, report: ProgressReport) -> None:
        """Write how far the run is, and look for a request."""
        self._write(Progress(report.steps, report.iterations, report.seconds, report.fraction))
        self._pass_request_on()

    def end(self, run: Run) -> None:
        """Write the run's totals."""
        self._write(Progress(run.steps, run.iterations, run.seconds, 1.0))

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _pass_request_on(self) -> None:
        threads = self._folder.asked_threads()
        if threads is not None and threads != self._threads and self._trainer is not None:
            self._threads = threads
            self._trainer.request_threads(threads)

    def _write(self, progress: Progress) -> None:
        with contextlib.suppress(OSError):
            write_progress(self._handle, progress)
