"""The API keeps to its description, whatever it is asked: no crash, no undocumented answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.live_server import TOKEN, serving, train

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


# Streams have tests of their own, and a wrong code locks us out. Playing and verifying take a process each time.
ALMOST_ALL = ("--exclude-path-regex", "/(events|session)$")
MAIN_ROUTES = ("--include-path-regex", "/(runs|series)$")
QUICK = ("--exclude-path-regex", "/(events|session|play|verify)$", "--exclude-method", "DELETE")


def fuzz(server: str, folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS), "--no-color"]
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:]


def test_no_request_makes_the_server_fail_or_leave_its_description(tmp_path: Path) -> None:
    home = tmp_path / "home"
    train(home, "cartpole", "--steps", "60k", "--until", "1000", "--name", "fuzzed")
    (tmp_path / "schemathesis.toml").write_text('[parameters]\n"path.run" = "fuzzed"\n"query.run" = ["fuzzed"]\n')
    with serving(home) as server:
        fuzz(server.url, tmp_path, *QUICK, "--phases", "fuzzing", "--max-examples", "2", "--seed", "1")
        (tmp_path / "schemathesis.toml").unlink()
        fuzz(server.url, tmp_path, *QUICK, *MAIN_ROUTES, "--phases", "coverage", "--seed", "2")
        assert server.get("/api/rl/runs/fuzzed")["status"] == "completed"
        assert "failed" not in server.stop()


@pytest.mark.full
def test_no_request_makes_the_server_fail_with_either_store(store: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("fuzzed", "spare"):
        train(home, "cartpole", "--steps", "60k", "--until", "1000", "--name", name, "--store", store)
    with serving(home, "--store", store) as server:
        # Deletes whatever it finds, so the runs that it knows by name come first.
        (tmp_path / "schemathesis.toml").write_text('[parameters]\n"path.run" = "fuzzed"\n"query.run" = ["fuzzed"]\n')
        keep = ("--exclude-method", "DELETE")
        fuzz(server.url, tmp_path, *ALMOST_ALL, *keep, "--phases", "fuzzing", "--max-examples", "15")
        (tmp_path / "schemathesis.toml").unlink()
        fuzz(server.url, tmp_path, *ALMOST_ALL, "--phases", "coverage,fuzzing,stateful", "--max-examples", "10")
        assert "failed" not in server.stop()
