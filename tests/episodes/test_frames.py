"""Episodes as drawing data: the drawing of every moment, and what the policy thought."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import rendering
from hotloop.episodes.actors import policy_actor, random_actor
from hotloop.episodes.episode import Episode
from hotloop.episodes.frames import Insight, play_frames, watched_actor
from hotloop.rendering.drawing import Disc, Label, Line, Polygon

SOURCE = {"kind": "checkpoint", "step": None, "checkpoint_step": None, "note": None}
NATIVE = [env.name for env in hotloop.list_envs()]


def played(env: str, options: dict[str, Any] | None = None, longest: int = 30) -> tuple[Episode, dict[str, Any]]:
    episode = Episode(env, options or {}, seed=3)
    try:
        recorder = play_frames(episode, random_actor(episode), longest=longest)
        return episode, recorder.result(title="", source=SOURCE)
    finally:
        episode.close()


@pytest.mark.parametrize("env", NATIVE)
def test_every_moment_is_the_drawing_that_the_terminal_and_videos_show(env: str) -> None:
    _, frames = played(env)
    again = Episode(env, {}, seed=3)
    choose = random_actor(again)
    renderer = rendering.renderer(env)
    assert renderer is not None
    for number, frame in enumerate(frames["frames"]):
        drawing = renderer.draw(again.scene())
        assert frames["bounds"] == drawing.bounds
        assert len(frame) == len(drawing.shapes)
        for index, shape in zip(frame, drawing.shapes, strict=True):
            kind, *rest = frames["shapes"][index]
            assert {"line": Line, "disc": Disc, "polygon": Polygon, "label": Label}[kind] is type(shape)
            assert rest[-1] == shape.colour
            if isinstance(shape, Line | Polygon):
                scale = max(abs(bound) for bound in drawing.bounds)
                np.testing.assert_allclose(rest[0], shape.points, atol=2e-4 * scale)
        if number < frames["steps"]:
            again.step(choose(again.obs, again.mask, again.steps))
    again.close()


def test_rewards_returns_and_the_end_are_the_episodes_own() -> None:
    episode, frames = played("cartpole", longest=1000)
    assert frames["ended"] == "terminated"
    assert frames["returns"][-1] == episode.returns.tolist()
    assert len(frames["frames"]) == len(frames["rewards"]) + 1 == episode.steps + 1
    _, cut = played("cartpole", longest=3)
    assert (cut["ended"], cut["steps"]) == ("cut", 3)


def test_seats_can_be_followed_where_the_env_says_where_they_are() -> None:
    _, frames = played("tag")
    left, bottom, right, top = frames["bounds"]
    assert len(frames["seat_at"]) == len(frames["frames"])
    assert all(left <= x <= right and bottom <= y <= top for seats in frames["seat_at"] for x, y in seats)
    assert played("cartpole")[1]["seat_at"] is None


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_watching_a_policy_changes_nothing_and_shows_its_probabilities(tmp_path: Path, memory: str) -> None:
    config = {"policy.memory": memory, "policy.memory_size": 8, "train.until": None, "train.evaluate_episodes": 0}
    run = hotloop.train("taxi", steps=4096, config=config, home=tmp_path, progress=False)
    policy = hotloop.load(run.path)
    watched, plain = (Episode("taxi", {}, seed=5) for _ in range(2))
    insight = Insight()
    plain.finish(policy_actor(policy, plain, deterministic=False), longest=40)
    recorder = play_frames(watched, watched_actor(policy, watched, insight, deterministic=False), longest=40)
    frames = recorder.result(title="", source=SOURCE, insight=insight)
    assert frames["actions"] == [actions.tolist() for actions in plain.actions]
    assert len(frames["values"]) == watched.steps
    # The frequencies of sampled actions in the first state are the probabilities.
    first = Episode("taxi", {}, seed=5)
    from hotloop.policies.protocol import ActRequest

    count = 20_000
    request = ActRequest(
        np.repeat(first.obs, count, axis=0),
        None if first.mask is None else np.repeat(first.mask, count, axis=0),
        deterministic=False,
        seed=1,
    )
    actions, _, _ = policy.learner.act(request)
    shares = np.bincount(actions, minlength=6) / count
    np.testing.assert_allclose(frames["probabilities"][0][0], shares, atol=0.02)
    for episode in (watched, plain, first):
        episode.close()
