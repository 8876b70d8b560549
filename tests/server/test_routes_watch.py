"""Episodes over HTTP: replays, fresh ones, any step of a run, and files that lie."""

import json
import os
import struct
from pathlib import Path

import psutil
import pytest

import hotloop
from hotloop.episodes.episode import fresh_seed
from hotloop.episodes.replay import read_replay
from tests.server.live_server import Events, Server, serving, start_training, train


def test_a_replay_is_drawn_from_the_same_drawing_as_everywhere(served: Server, trained: Path) -> None:
    entry = served.get("/api/rl/runs/seed-1/replays")["replays"][0]
    frames = served.get(f"/api/rl/runs/seed-1/replays/{entry['name']}/frames")
    replay = read_replay(trained / "runs" / "seed-1" / "replays" / entry["name"])
    from hotloop.rendering.envs import cartpole

    episode = replay.begin()
    drawing = cartpole.draw(episode.scene())
    episode.close()
    assert frames["bounds"] == list(drawing.bounds)
    assert len(frames["frames"]) == replay.steps + 1
    assert len(frames["frames"][0]) == len(drawing.shapes)
    assert [frames["shapes"][index][0] for index in frames["frames"][0]] == [
        type(shape).__name__.lower() for shape in drawing.shapes
    ]
    assert frames["checked"] is True
    assert sum(reward for (reward,) in frames["rewards"]) == entry["return"] == frames["returns"][-1][0]
    assert frames["action_names"] == ["push left", "push right"]


def test_the_file_of_a_replay_is_the_file(served: Server, trained: Path) -> None:
    name = served.get("/api/rl/runs/seed-1/replays")["replays"][0]["name"]
    body = served.request("GET", f"/api/rl/runs/seed-1/replays/{name}").body
    assert body == (trained / "runs" / "seed-1" / "replays" / name).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e", "..%2fconfig.yaml", "%2fetc%2fpasswd", "x%00", "..\\x", "C:%5Cx", "link.replay", "config.yaml"],
)
def test_names_that_the_listing_does_not_have_lead_nowhere(served: Server, trained: Path, name: str) -> None:
    link = trained / "runs" / "seed-2" / "replays" / "link.replay"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    for path in (f"/api/rl/runs/seed-2/replays/{name}", f"/api/rl/runs/seed-2/replays/{name}/frames"):
        reply = served.request("GET", path)
        assert reply.status in (404, 422), (path, reply)
        assert b"root:" not in reply.body


@pytest.mark.parametrize("run", ["..", "%2e%2e", "..%2f..", "%2fetc", "a%00b", "x" * 201])
def test_runs_are_looked_up_in_the_store_only(served: Server, run: str) -> None:
    assert served.request("GET", f"/api/rl/runs/{run}/replays").status in (404, 422)


def hostile(path: Path) -> dict[str, bytes]:
    good = path.read_bytes()
    (size,) = struct.unpack("<Q", good[:8])
    header, rest = json.loads(good[8 : 8 + size]), good[8 + size :]
    facts = json.loads(header["__metadata__"]["replay"])

    def written(changed: dict[str, object]) -> bytes:
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + rest

    other_version = {**header, "__metadata__": {"replay": json.dumps({**facts, "state_version": 99})}}
    code = {**header, "__metadata__": {"replay": json.dumps({**facts, "env": "os:system"})}}
    wrong_shape = {**header, "actions": {**header["actions"], "shape": [10**12]}}
    return {
        "huge header": struct.pack("<Q", 1 << 32) + good[8:],
        "wrong shape": written(wrong_shape),
        "other version": written(other_version),
        "code": written(code),
        "cut": good[: len(good) // 2],
        "empty": b"",
        "noise": os.urandom(1000),
        "damaged": good[:-40] + bytes(40),
    }


def test_replay_files_that_lie_are_refused_without_cost(tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "run")
    folder = tmp_path / "runs" / "run" / "replays"
    files = hostile(next(folder.iterdir()))
    with serving(tmp_path) as server:
        process = psutil.Process(server.process.pid)
        server.get("/api/rl/runs/run/replays")
        before = process.memory_info().rss
        for what, content in files.items():
            (folder / "hostile.replay").write_bytes(content)
            reply = server.request("GET", "/api/rl/runs/run/replays/hostile.replay/frames")
            assert reply.status == 422, (what, reply)
            assert reply.headers["content-type"] == "application/problem+json"
            assert str(tmp_path) not in reply.body.decode(), what
            notes = [entry["note"] for entry in server.get("/api/rl/runs/run/replays")["replays"]]
            assert any(notes) or what in ("other version", "code", "damaged")
        assert process.memory_info().rss - before < 100e6


def test_any_step_of_an_exact_run_plays_the_policy_of_that_step(served: Server, trained: Path) -> None:
    """The policy that is rebuilt acts as the one of a run that was stopped there."""
    records = served.get("/api/rl/series?run=other&metric=kl")["series"][0]["first"]
    step = int(records[3])
    reply = served.write("POST", "/api/rl/runs/other/play", {"step": step + 5, "seed": "7", "index": 2})
    assert reply.status == 200, reply
    frames = reply.json
    assert (frames["source"]["kind"], frames["source"]["checkpoint_step"]) == ("exact", step)
    home = trained.parent / "again"
    train(home, "cartpole", "ppo.epochs=2", "--seed", "1", "--steps", str(step), "--until", "1000", "--name", "again")
    policy = hotloop.load(home / "runs" / "again" / "checkpoints" / str(step))
    from hotloop.episodes.actors import policy_actor
    from hotloop.episodes.episode import Episode

    episode = Episode("cartpole", {}, seed=fresh_seed(7), index=2)
    episode.finish(policy_actor(policy, episode))
    episode.close()
    assert frames["actions"] == [actions.tolist() for actions in episode.actions]
    assert frames["ended"] == episode.ended
    shares = frames["probabilities"]
    assert all(sum(seat) == pytest.approx(1.0, abs=1e-4) for (seat,) in shares)
    chosen = [seat[action] for (seat,), (action,) in zip(shares, frames["actions"], strict=True)]
    assert min(chosen) >= 0.5 - 1e-4


def test_mistakes_in_a_request_to_play_are_explained(served: Server) -> None:
    for body, status in (
        ({"options": {"nothing": 1}}, 422),
        ({"checkpoint": "12345"}, 409),
        ({"checkpoint": "../../x"}, 409),
        ({"seed": "-1"}, 422),
        ({"unknown": 1}, 422),
    ):
        reply = served.write("POST", "/api/rl/runs/other/play", body)
        assert reply.status == status, reply
        assert reply.json["detail"]


def test_a_run_from_elsewhere_that_names_code_is_not_played(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    environment = {"PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(tmp_path)])}
    (tmp_path / "their_env.py").write_text(
        "import pathlib, gymnasium\n"
        f"pathlib.Path({str(tmp_path / 'executed')!r}).touch()\n"
        "def make(): return gymnasium.make('CartPole-v1')\n"
    )
    train(elsewhere, "their_env:make", "--steps", "512", "--name", "theirs", "runner.num_envs=2", **environment)
    (tmp_path / "executed").unlink()
    here = tmp_path / "here"
    (here / "runs").mkdir(parents=True)
    (elsewhere / "runs" / "theirs").rename(here / "runs" / "theirs")
    (elsewhere / "hotloop.db").rename(here / "hotloop.db")
    with serving(here, **environment) as server:
        server.get("/api/rl/runs")
        reply = server.write("POST", "/api/rl/runs/theirs/play")
        assert reply.status in (403, 409), reply
        assert "--trust" in reply.json["detail"]
        assert not (tmp_path / "executed").exists()


def test_the_newest_policy_of_a_running_run_plays(tmp_path: Path) -> None:
    long = ("cartpole", "--until", "100000", "--steps", "200M", "train.checkpoint_every=100000", "--name", "live")
    with serving(tmp_path) as server:
        run = start_training(tmp_path, *long, "train.evaluate_every=100000")
        try:
            Events(server, "runs").wait("runs")
            events = Events(server, "run:live")
            played = server.write("POST", "/api/rl/runs/live/play", {"checkpoint": "newest"})
            step = events.wait("policy")["step"]
            frames = server.write("POST", "/api/rl/runs/live/play", {"checkpoint": "newest"}).json
            assert played.status in (200, 409)
            assert frames["source"]["kind"] == "newest"
            assert frames["source"]["checkpoint_step"] >= step
        finally:
            run.kill()
            run.communicate()


def test_a_verification_becomes_a_badge_of_the_run(tmp_path: Path) -> None:
    train(tmp_path, "cartpole", "--steps", "20k", "--until", "1000", "--name", "sure")
    with serving(tmp_path) as server:
        events = Events(server, "run:sure")
        assert server.write("POST", "/api/rl/runs/sure/verify").status == 202
        while not (news := events.wait("verify"))["done"]:
            pass
        assert news["identical"] is True
        (badge,) = server.get("/api/rl/runs/sure")["verifications"]
        assert badge["identical"] is True
        assert badge["what"] == news["what"]
        assert "identical: weights byte for byte" in badge["what"]
        policy = next((tmp_path / "runs" / "sure" / "checkpoints").iterdir()) / "policy.safetensors"
        policy.write_bytes(policy.read_bytes()[:-1] + b"x")
        server.write("POST", "/api/rl/runs/sure/verify")
        while not (news := events.wait("verify"))["done"]:
            pass
        assert news["identical"] is None
        assert "damaged" in news["what"]
