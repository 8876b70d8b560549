"""A child process that plays one episode: python -m hotloop.server.player, with a request on its standard input.

Policies and envs may be anyone's code, and rebuilding a policy uses all cores: the server does neither itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import CheckpointError, ConfigError, EnvError, RenderError, ReplayError, TrainingError
from hotloop.server.problems import ProblemError

if TYPE_CHECKING:
    from hotloop.training.time_machine import FoundPolicy

LONGEST: Final = 10_000
PLAY_SECONDS: Final = 10.0
# Seconds for everything: training again to an exact step takes as long as it took.
_MOST_SECONDS: Final = 30.0
_MOST_SECONDS_EXACT: Final = 600.0
_MOST_WAITING: Final = 8
_NICE: Final = 10
_STATUS: Final = {"CheckpointError": 409, "TrainingError": 403, "UnusableCheckpointError": 409}


class Player:
    """Plays episodes in child processes, one at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def play(self, request: dict[str, Any]) -> dict[str, Any]:
        """The frames of an episode."""
        if self._waiting >= _MOST_WAITING:
            raise ProblemError(429, "others are playing: try again in some seconds")
        self._waiting += 1
        try:
            async with self._lock:
                return await _run(request)
        finally:
            self._waiting -= 1


async def _run(request: dict[str, Any]) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hotloop.server.player"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    seconds = _MOST_SECONDS_EXACT if request.get("exact") else _MOST_SECONDS
    try:
        async with asyncio.timeout(seconds):
            output, _ = await child.communicate(json.dumps(request).encode())
    except TimeoutError:
        raise ProblemError(409, f"playing took longer than {seconds:.0f} s and was given up") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        reply: dict[str, Any] = json.loads(output)
    except ValueError:
        raise ProblemError(422, f"the episode could not be played: the player died ({child.returncode})") from None
    if "error" in reply:
        raise ProblemError(_STATUS.get(reply["kind"], 422), reply["error"])
    return reply


def main() -> None:
    """Play what standard input asks for, and write the frames to standard output."""
    os.nice(_NICE)
    request = json.loads(sys.stdin.buffer.read())
    # Whatever an env prints must not get between the frames.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = play(request)
    except (CheckpointError, ConfigError, EnvError, RenderError, ReplayError, TrainingError, ValueError) as error:
        reply = {"error": str(error), "kind": type(error).__name__}
    from hotloop.server.responses import json_bytes

    with os.fdopen(out, "wb") as stream:
        stream.write(json_bytes(reply))


def play(request: dict[str, Any]) -> dict[str, Any]:
    """The frames of an episode of a run's policy."""
    from hotloop.training.time_machine import kept_policy, policy_at

    run, step = Path(request["path"]), request.get("step")
    context = (
        nullcontext(kept_policy(run, request.get("checkpoint") or "best", trust=False))
        if step is None
        else policy_at(run, step, trust=False, exact=bool(request.get("exact")))
    )
    with context as found:
        return _play(run, found, request)


def _play(run: Path, found: FoundPolicy, request: dict[str, Any]) -> dict[str, Any]:
    from hotloop.envs.loader import load_env
    from hotloop.envs.registry import is_native
    from hotloop.envs.spec import native_spec
    from hotloop.episodes.episode import Episode, fresh_seed
    from hotloop.episodes.frames import Insight, play_frames, watched_actor
    from hotloop.loading import checkpoint_policy

    policy = checkpoint_policy(found.checkpoint)
    load_env(policy.env)
    options = {**policy.options, **request["options"]}
    if is_native(policy.env):
        try:
            after = native_spec(policy.env, options)
        except TypeError as error:
            raise ConfigError(str(error)) from None
        if not native_spec(policy.env, policy.options).fits(after):
            raise ConfigError(f"the policy of {run.name} does not fit {policy.env} with these options")
    episode = Episode(
        policy.env,
        options,
        seed=fresh_seed(int(request["seed"])),
        index=request["index"],
        action_repeat=policy.action_repeat,
    )
    insight = Insight()
    until = time.monotonic() + PLAY_SECONDS
    try:
        choose = watched_actor(policy, episode, insight, deterministic=not request["stochastic"])
        recorder = play_frames(episode, choose, longest=LONGEST, keep_going=lambda: time.monotonic() < until)
        source = {
            "kind": found.kind,
            "step": request.get("step"),
            "checkpoint_step": found.checkpoint.steps,
            "note": found.note,
        }
        title = f"{run.name} at step {found.checkpoint.steps}"
        return recorder.result(title=title, source=source, insight=insight)
    finally:
        episode.close()


if __name__ == "__main__":
    main()
