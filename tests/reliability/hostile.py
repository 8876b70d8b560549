"""Hostile names, settings and surroundings: a command works, or says why not; a run survives its terminal."""

import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from tests.reliability import commands, outcome, training_runs
from tests.reliability.commands import Ended
from tests.reliability.damages import HOSTILE
from tests.reliability.engine import Result
from tests.reliability.kills import finished
from tests.reliability.mutations import make_home
from tests.reliability.server import CommandServers

_TEXTS = (
    "",
    " ",
    "x" * 5000,
    "\x1b]0;title\x07\x1b[2J",
    "../../outside",
    "/etc",
    "a/b",
    ".",
    "..",
    ".hidden",
    "-",
    "--json",
    "name\nwith lines",
    "ünï-\N{PILE OF POO}",
    "\udc80",
    "%s%n{0}",
    "$(touch marker)",
    "'; DROP TABLE runs; --",
    "last",
    "CON",
    "*",
    "[",
    "~root",
    "=",
    "a=b=c",
    "1e999",
    "nan",
    "null",
    "[1, 2",
    "{}",
    *(text for text in HOSTILE if len(text) < 3000),
)
_KEYS = (
    *("env.gravity", "env.nothing", "env.name", "env", "runner.num_envs", "runner.num_threads", "runner.worker_python"),
    *("policy.hidden", "policy.hidden.0", "policy.log_std", "policy.memory", "ppo.horizon", "ppo.minibatch_size"),
    *("ppo.learning_rate", "ppo.gamma", "ppo.clip", "train.seed", "train.until", "train.evaluate_every", "train.steps"),
    *("train.checkpoint_every", "train.keep_last", "track.interval", "track.trackers", "torch.losses", "tabular.gamma"),
    *("nothing", "ppo", "ppo.", ".ppo", "ppo..gamma", "__class__", "ppo.__init__", "ünï"),
)
_VALUES = (
    *("0", "-1", "1", "2147483648", "18446744073709551616", "1e38", "-1e38", "nan", "inf", "true", "null", "[]", "{}"),
    *("[0]", "[-1]", "[1, x]", "[1e9]", "[[1]]", "x", "'", "!!python/name:os.system", "1e-400", "2001-13-01"),
    *("9" * 5000, "[" * 50_000, "&a [*a]", "? ? ?", "- - -"),
)
_SMALL = ("runner.num_envs=4", "ppo.horizon=8", "ppo.minibatch_size=32", "train.evaluate_episodes=2", "--steps", "128")


class Hostile:
    """One hostile command, or one run in hostile surroundings."""

    name = "hostile"

    def __init__(self) -> None:
        self._servers = CommandServers()

    def prepare(self, folder: Path, seed: int) -> None:
        """Make runs to read, one to compare with, and the library that sets the clock back."""
        self._home = folder / "whole" / "home"
        make_home(self._home)
        whole = folder / "undisturbed" / "home"
        whole.parent.mkdir()
        training_runs.whole("cartpole", whole)
        self._expected = outcome.of(whole)
        self._clock = folder / "clock.so"
        source = folder / "clock.c"
        source.write_text(_CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self._clock), str(source), "-ldl"], check=True)

    def close(self) -> None:
        """End the servers."""
        self._servers.close()

    def attack(self, index: int, random: Random, folder: Path) -> Result:
        """Try a command or surroundings, in turn."""
        if index % 3:
            return self._command(random, folder)
        places: tuple[Callable[[Random, Path], Result], ...] = (
            self._terminal_lost,
            self._signalled,
            self._limited,
            self._reading,
            self._reading,
            self._variables,
        )
        return places[index // 3 % len(places)](random, folder)

    def _command(self, random: Random, folder: Path) -> Result:
        """Run a command with hostile words, which may not break anything, nor leave half a run behind."""
        home = folder / "home"
        shutil.copytree(self._home, home)
        arguments = hostile_arguments(random)
        try:
            done = self._servers.run(home, *arguments)
        except UnicodeEncodeError:
            return Result("no such argument can be given", [], 0)
        problems = judged(done)
        problems += [f"{path} was left without a config" for path in _halves(home)]
        if (folder / "marker").exists():
            problems.append("a shell executed an argument")
        outside = [path.name for path in folder.iterdir() if path.name not in (*_WRITTEN, "home")]
        # A store is a file wherever one says.
        if outside and "--store" not in arguments:
            problems.append(f"wrote outside its home: {outside}")
        return Result(ascii(" ".join(["hotloop", *arguments]))[:300], problems)

    def _terminal_lost(self, random: Random, folder: Path) -> Result:
        """Train with an output that is closed, full, or closed by its reader: the run must not notice."""
        home = folder / "home"
        redirection = random.choice(
            [">&-", ">/dev/full", "2>&-", "2>/dev/full", ">&- 2>&-", "| head -1", "<&-", "| true"]
        )
        view = random.choice([["--json"], []])
        command = [sys.executable, "-m", "hotloop", *training_runs.command("cartpole")[:-1], *view]
        done = _shell(home, f'"$@" {redirection}', command)
        problems = [crash] if (crash := done.crash()) else []
        status = (home / "runs" / "run" / "run.json").read_text() if home.exists() else ""
        if '"finished"' not in status:
            problems.append(f"the run ended early: {done.err.strip()[-300:]}")
        problems += finished("cartpole", home, self._expected)
        return Result(f"hotloop train {' '.join(view)} {redirection}", problems)

    def _signalled(self, random: Random, folder: Path) -> Result:
        """End a run by a signal, at any moment from its first imports on; it must end orderly, and go on."""
        home = folder / "home"
        number = random.choice([signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
        process = commands.start(home, *training_runs.command("cartpole"))
        moment = random.uniform(0.02, 1.0)
        time.sleep(moment)
        if process.poll() is None:
            os.kill(process.pid, number)
        done = commands.finish(process)
        # Before the command has begun, the signal ends the interpreter in its own way.
        begun = home.exists() or "hotloop/" in done.err
        problems = [crash] if begun and (crash := done.crash()) else []
        problems += commands.orphans(home)
        problems += finished("cartpole", home, self._expected, stopped=True)
        return Result(f"{number.name} after {moment:.2f} s", problems)

    def _limited(self, random: Random, folder: Path) -> Result:
        """Train with few open files or small files; without the limits, the same command works."""
        home = folder / "home"
        kind, most = random.choice(
            [
                *((resource.RLIMIT_NOFILE, most) for most in (8, 12, 16, 20, 24, 32)),
                *((resource.RLIMIT_FSIZE, most) for most in (0, 100, 1500, 4000, 20_000, 70_000)),
            ]
        )

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(kind, (most, most))

        done = _limited_run(home, training_runs.command("cartpole"), limit)
        problems = judged(done)
        problems += [f"{path} was left without a config, and blocks the name" for path in _halves(home)]
        problems += finished("cartpole", home, self._expected)
        what = "open files" if kind == resource.RLIMIT_NOFILE else "bytes in a file"
        return Result(f"hotloop train with at most {most} {what}", problems)

    def _reading(self, random: Random, folder: Path) -> Result:
        """Read runs on terminals and file systems that cannot do much."""
        home = folder / "home"
        shutil.copytree(self._home, home)
        arguments = random.choice(_READING)
        variables: dict[str, str] = {}
        script, where = '"$@"', random.choice(["ascii", "full", "closed", "head", "read-only", "clock", "tiny", "tiny"])
        match where:
            case "ascii":
                variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
            case "full":
                script = '"$@" >/dev/full'
            case "closed":
                script = '"$@" >&-'
            case "head":
                script = '"$@" | head -1'
            case "read-only":
                script = (
                    'mount --bind "$HOTLOOP_HOME" "$HOTLOOP_HOME" && mount -o remount,bind,ro "$HOTLOOP_HOME" && "$@"'
                )
            case "clock":
                variables = {"LD_PRELOAD": str(self._clock)}
        command = [sys.executable, "-m", "hotloop", *arguments]
        if where == "read-only":
            if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
                return Result("mounts are not allowed here", [], 0)
            command = ["unshare", "-m", "sh", "-c", script, "sh", *command]
            script = '"$@"'
        if where == "tiny":
            columns, lines = random.choice([(1, 1), (3, 2), (8, 3), (20, 5), (500, 2)])
            done = _terminal(home, command, columns, lines, random.choice(["xterm", "dumb", "vt100", ""]))
            where = f"a terminal of {columns} x {lines}"
        else:
            done = _shell(home, script, command, variables)
        problems = judged(done, may_fail=where in ("full", "closed"))
        must_work = where in ("ascii", "clock", "read-only", "head") and arguments[0] != "train"
        if must_work and done.code != 0:
            problems.append(f"exit code {done.code}: {done.err.strip()[-300:]}")
        return Result(f"hotloop {' '.join(arguments)}: {where}", problems)

    def _variables(self, random: Random, folder: Path) -> Result:
        """Run a command with hostile environment variables."""
        home = folder / "home"
        shutil.copytree(self._home, home)
        (folder / "file").write_text("no folder")
        (folder / "link").symlink_to("nowhere")
        name, value = random.choice(
            [
                *(
                    ("HOTLOOP_HOME", value)
                    for value in ("/dev/null", "file", "link", "/proc/1", "x" * 5000, "a\nb", "é")
                ),
                *(
                    ("HOTLOOP_STORE", value)
                    for value in ("", "/dev/null", "file", "postgresql://u:p%25w@nowhere.invalid/d")
                ),
                *(
                    ("HOTLOOP_STORE", value)
                    for value in ("mysql://x", "postgresql://", "/proc/x.db", "x" * 5000, "none")
                ),
                *(("HOTLOOP_ISA", value) for value in ("", "avx1024", "\x1b[2J")),
                *(("COLUMNS", value) for value in ("0", "-5", "abc", "1", "9" * 30)),
                *(("TERM", "nothing"), ("TZ", "Nowhere/At_all"), ("HOME", ""), ("HOME", "/nonexistent")),
                *(("PYTHONWARNINGS", "error"), ("TMPDIR", "/nonexistent"), ("OMP_NUM_THREADS", "abc")),
            ]
        )
        arguments = random.choice([*_READING, ("train", "cartpole", *_SMALL, "--name", "new")])
        done = _shell(home, '"$@"', [sys.executable, "-m", "hotloop", *arguments], {name: value})
        problems = judged(done, may_fail=True)
        if "p%25w" in done.out + done.err or "p%w" in done.out + done.err:
            problems.append("a password is shown")
        return Result(ascii(f"{name}={value} hotloop {' '.join(arguments)}")[:300], problems)


_VARIABLES = {
    "HOTLOOP_HOME": ("/dev/null", "file", "link", "/proc/1", "x" * 5000, "a\nb", "é"),
    "HOTLOOP_STORE": (
        *("", "/dev/null", "file", "postgresql://u:p%25w@nowhere.invalid/d", "mysql://x", "postgresql://"),
        *("/proc/x.db", "x" * 5000, "none"),
    ),
    "HOTLOOP_ISA": ("", "avx1024", "\x1b[2J"),
    "COLUMNS": ("0", "-5", "abc", "1", "9" * 30),
    "TERM": ("nothing",),
    "TZ": ("Nowhere/At_all",),
    "HOME": ("", "/nonexistent"),
    "TMPDIR": ("/nonexistent",),
    "OMP_NUM_THREADS": ("abc",),
}
_WRITTEN = ("out.onnx", "out.csv", "out.json", "out.replay", "out.gif")
_READING: tuple[tuple[str, ...], ...] = (
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "show", "done"),
    ("runs", "plot", "done"),
    ("runs", "plot", "done", "--x", "time"),
    ("runs", "compare", "done", "killed"),
    ("runs", "export", "done", "--to", "out.csv"),
    ("eval", "done", "--episodes", "3", "--no-keep"),
    ("play", "done", "--steps", "5"),
    ("verify", "done"),
    ("envs",),
    ("envs", "cartpole"),
)
# A clock that goes back by an hour with each look at it.
_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static long looks;
    int code = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec -= 3600 * ++looks;
    return code;
}
"""


def hostile_arguments(random: Random) -> list[str]:
    """The arguments of a command with something hostile in it."""

    def text() -> str:
        return random.choice(_TEXTS)

    run = random.choice(("done", "killed", text()))
    settings = [f"{random.choice(_KEYS)}={random.choice((*_VALUES, text()))}" for _ in range(random.randint(1, 2))]
    train = ["train", "cartpole", *_SMALL]
    tabular = ["train", "taxi", "train.algorithm=q-learning", "train.evaluate_episodes=2", "--steps", "2000"]
    forms: tuple[Callable[[], list[str]], ...] = (
        lambda: [*train, "--name", text()],
        lambda: [*train, *settings, "--name", "new"],
        lambda: [*train, *settings, "--name", "new"],
        lambda: [*tabular, f"tabular.{random.choice(_TABULAR)}={random.choice(_VALUES)}", "--name", "new"],
        lambda: ["train", text(), *_SMALL],
        lambda: [*train, "--config", text(), "--name", "new"],
        lambda: [*train, "--init-from", text(), "--name", "new"],
        lambda: [*train, "--store", text(), "--name", "new"],
        lambda: [*train, "--preset", text(), "--seed", random.choice(_VALUES), "--name", "new"],
        lambda: ["train", "--resume", run, *settings],
        lambda: ["eval", run, "--episodes", random.choice(["0", "-1", "2", "x", "1e9"]), "--no-keep"],
        lambda: ["eval", run, *settings, "--episodes", "2", "--no-keep"],
        lambda: ["play", run, "--steps", random.choice(["0", "-1", "2", "x"])],
        lambda: ["play", "--replay", text()],
        lambda: ["play", text(), *settings],
        lambda: ["export", run, "--onnx", random.choice(["out.onnx", "/dev/full", "/nonexistent/x", ""])],
        lambda: ["verify", run],
        lambda: ["runs", "list", text()],
        lambda: ["runs", "list", f"{random.choice(_KEYS)}{random.choice(['=', '>=', '<', '!='])}{text()}"],
        lambda: ["runs", "list", "--sort", text(), "--columns", text()],
        lambda: ["runs", "list", "--limit", random.choice(_VALUES)],
        lambda: ["runs", "show", run],
        lambda: ["runs", "plot", run, "--metric", text(), "--x", random.choice(["time", "step", text()])],
        lambda: ["runs", "plot", "done", "--smooth", random.choice(_VALUES), "--low", random.choice(_VALUES)],
        lambda: ["runs", "compare", run, text(), "--metrics", text()],
        lambda: ["runs", "export", run, "--to", random.choice(["out.csv", "out.json", "/dev/full", "x.nothing", ""])],
        lambda: ["runs", "list", "--store", text()],
        lambda: ["envs", text()],
        lambda: [text(), text()],
    )
    return random.choice(forms)()


_TABULAR = (
    "gamma",
    "learning_rate",
    "initial_value",
    "exploration",
    "batch_size",
    "replay_size",
    "iteration",
    "storage",
)


def judged(done: Ended, *, may_fail: bool = True) -> list[str]:
    """Return the fault in how a hostile command ended: it must work, or fail with a short message of plain text."""
    if crash := done.crash():
        return [crash]
    problems = []
    if done.code not in (0, 1, 2, 130) and not may_fail:
        problems.append(f"exit code {done.code}")
    if done.code == 2 and not (done.complaint() or "Usage" in done.err):
        problems.append(f"exit code 2 without a message: {done.err.strip()[-300:]!r}")
    if any(line.startswith("hotloop: ") and "\x1b" in line for line in done.err.splitlines()):
        problems.append(f"an escape sequence reaches the terminal: {done.err.strip()[-200:]!r}")
    # An argument or a variable of thousands of characters may be named.
    if len(done.complaint()) > 8000:
        problems.append(f"a message of {len(done.complaint())} characters")
    return problems


def _halves(home: Path) -> list[Path]:
    """Folders of runs that have no config: nobody can resume them, and their name is taken."""
    return [path for path in home.glob("runs/*") if path.is_dir() and not (path / "config.yaml").exists()]


def _shell(home: Path, script: str, command: list[str], variables: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a shell's redirections."""
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", *command],
        env=commands.environment(home, variables),
        cwd=home.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    return commands.finish(process, shown=["hotloop", *command[3:], script.removeprefix('"$@"')])


def _limited_run(home: Path, arguments: list[str], limit: Callable[[], None]) -> Ended:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", *arguments],
        env=commands.environment(home),
        cwd=home.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )
    return commands.finish(process)


def _terminal(home: Path, command: list[str], columns: int, lines: int, term: str) -> Ended:
    """Run a command on a terminal of this size."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        command,
        env=commands.environment(home, {"TERM": term}),
        cwd=home.parent,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    until, shown, timed_out = time.monotonic() + commands.TIMEOUT, b"", False
    os.set_blocking(ours, False)
    while True:
        try:
            data = os.read(ours, 65536)
        except BlockingIOError:
            if time.monotonic() > until:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(0.01)
            continue
        except OSError:
            break  # nobody has the terminal any more
        shown += data
    process.wait()
    os.close(ours)
    return Ended(["hotloop", *command[3:]], process.returncode, shown.decode(errors="replace"), "", timed_out)
