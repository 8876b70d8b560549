"""The command explains itself at once, and a mistake ends in one line."""

import subprocess
import sys

import pytest

from hotloop import __version__
from tests.cli.command import complaint, hotloop


def test_help_teaches_by_example() -> None:
    done = hotloop("--help")
    assert done.returncode == 0
    assert "hotloop envs tag" in done.stdout
    assert "hotloop bench envs cartpole --quick" in done.stdout


@pytest.mark.parametrize("command", [[], ["train"], ["eval"], ["play"], ["runs", "list"], ["runs", "plot"]])
def test_help_shows_no_types_of_flags_and_no_double_brackets(command: list[str]) -> None:
    done = hotloop(*command, "-h", COLUMNS="100")
    assert done.returncode == 0
    assert "--help" in done.stdout
    for odd in ("<bool>", "<str>", "<list", "[["):
        assert odd not in done.stdout


def test_nothing_said_is_a_call_for_help() -> None:
    assert hotloop().stdout == hotloop("--help").stdout


@pytest.mark.parametrize("arguments", [["--help"], ["envs", "--help"], ["bench", "envs", "--help"], ["envs"]])
def test_help_and_listing_load_neither_numpy_nor_gymnasium(arguments: list[str]) -> None:
    script = f"""
import sys
from hotloop.cli import main
sys.argv[1:] = {arguments}
try:
    main()
except SystemExit as end:
    assert not end.code
assert not {{"numpy", "gymnasium"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_shell_completes_commands() -> None:
    # The shell is the one named, not the one that the tests happen to run in.
    named = hotloop("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "complete -o default -F _hotloop_completion hotloop" in named.stdout
    asked = {"_HOTLOOP_COMPLETE": "complete_bash", "COMP_WORDS": "hotloop tra", "COMP_CWORD": "1"}
    assert hotloop(**asked).stdout.split() == ["train"]


def test_version_is_that_of_the_package() -> None:
    assert hotloop("--version").stdout == f"hotloop {__version__}\n"


def test_an_unknown_command_suggests_the_nearest() -> None:
    assert "'envs'" in complaint("env")


def test_an_unknown_option_suggests_the_nearest() -> None:
    assert "--json" in complaint("envs", "--jsn")


def test_bench_alone_lists_its_suites() -> None:
    done = hotloop("bench")
    assert done.returncode == 2
    assert "envs" in done.stdout + done.stderr
