"""`hotloop serve` as a command, alone and beside a run."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.command import complaint, hotloop


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hotloop", *arguments]
    own = {**os.environ, "HOTLOOP_HOME": str(home)}
    return subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_port_that_is_taken_is_passed_over_and_two_servers_share_a_home(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        servers = [start(tmp_path, "serve", "--port", str(port), "--json") for _ in range(2)]
        try:
            found = []
            for server in servers:
                assert server.stdout is not None
                found.append(json.loads(server.stdout.readline()))
            assert len({port, *(facts["port"] for facts in found)}) == 3
            for facts in found:
                with urllib.request.urlopen(f"{facts['url']}healthz", timeout=60) as reply:
                    assert json.load(reply) == {"ok": True}
            servers[0].kill()
            servers[1].send_signal(signal.SIGTERM)
            output, messages = servers[1].communicate(timeout=60)
            assert servers[1].returncode == 0
            assert json.loads(output.splitlines()[-1])["event"] == "end"
            assert f"port {port} is taken" in messages
        finally:
            for server in servers:
                server.kill()
                server.communicate()


def test_a_killed_server_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    for _ in range(2):
        server = start(tmp_path, "serve", "--port", "0", "--json")
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["event"] == "serving"
        server.kill()
        server.communicate()


def test_mistakes_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLOOP_TOKEN", "long enough for a token")
    assert "--port is 99999" in complaint("serve", "--port", "99999")
    assert "cannot listen on 203.0.113.1" in complaint("serve", "--host", "203.0.113.1")


def test_a_run_is_served_while_it_trains_and_after(tmp_path: Path) -> None:
    run = start(tmp_path, "train", "cartpole", "--steps", "20k", "--until", "1000", "--serve", "--name", "beside")
    try:
        assert run.stderr is not None
        url = ""
        for line in run.stderr:
            if line.startswith("The dashboard stays at "):
                url = line.split()[4]
                break
        with urllib.request.urlopen(f"{url}api/rl/runs/beside", timeout=60) as reply:
            assert json.load(reply)["status"] == "completed"
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        assert run.returncode == 0
    finally:
        run.kill()
        run.communicate(timeout=60)


def test_a_server_beside_a_run_that_is_killed_ends_with_it(tmp_path: Path) -> None:
    run = start(tmp_path, "train", "cartpole", "--steps", "2000M", "--until", "1000", "--serve")
    assert run.stderr is not None
    assert any(line.startswith("Dashboard: ") for line in run.stderr)
    run.kill()
    # The pipe is the server's, too: it is at its end once both are gone.
    run.communicate(timeout=60)


def test_help_and_training_do_not_import_the_server() -> None:
    code = (
        "import sys, hotloop, hotloop.cli; "
        "assert not {'fastapi', 'uvicorn', 'starlette', 'orjson', 'prometheus_client'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert hotloop("serve", "--help").returncode == 0
