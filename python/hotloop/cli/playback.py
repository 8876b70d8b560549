"""Sources of `hotloop play`: a replay, a random policy in an env, or a run's policy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.cli.output import UserError, tell

if TYPE_CHECKING:
    from hotloop.envs.spec import EnvSpec
    from hotloop.episodes.episode import Chooser, Episode
    from hotloop.episodes.local_env import RenderModes
    from hotloop.episodes.replay import Replay
    from hotloop.policies.policy import Policy


@dataclass
class Playback:
    """Episodes to play, and the policy that plays them."""

    env: str
    options: dict[str, Any]
    action_repeat: int
    seed: int
    episodes: int
    agent: Policy | None = None
    replay: Replay | None = None
    run: str | None = None
    stochastic: bool = False
    shows: RenderModes | None = None
    """Render modes of a Python env."""
    render_mode: str | None = None
    """Render mode that a Python env is made with."""

    def begin(self, index: int) -> tuple[Episode, Chooser]:
        """Return an episode at its start and the function that chooses its actions."""
        from hotloop.episodes import actors
        from hotloop.episodes.episode import Episode

        if self.replay is not None:
            recorded = self.replay
            return recorded.begin(self.render_mode), lambda obs, mask, step: recorded.actions[step]
        episode = Episode(
            self.env,
            self.options,
            seed=self.seed,
            index=index,
            action_repeat=self.action_repeat,
            render_mode=self.render_mode,
            wrap=None if self.agent is None else self.agent.wrap,
        )
        if self.agent is None:
            return episode, actors.random_actor(episode)
        return episode, actors.policy_actor(self.agent, episode, deterministic=not self.stochastic)

    @property
    def pace(self) -> float:
        """Default steps per second for watching the env."""
        from hotloop import rendering

        return rendering.pace(self.env) if self.shows is None or self.shows.pace is None else self.shows.pace

    def draw(self) -> None:
        """Select image rendering; raise if the env has none."""
        from hotloop import rendering
        from hotloop.episodes.local_env import PICTURE

        if self.shows is None:
            if not rendering.has_picture(self.env):
                raise UserError(f"{self.env} renders text only: leave out --video")
        elif not self.shows.can(PICTURE):
            raise UserError(self.shows.picture_refused())
        elif self.shows.mode != PICTURE:
            self.render_mode = PICTURE

    def write(self) -> None:
        """Select text rendering; print a notice if the env has none."""
        from hotloop.episodes.local_env import TEXT

        if self.shows is None or self.shows.mode == TEXT:
            return
        if self.shows.can(TEXT):
            self.render_mode = TEXT
        else:
            tell(self.shows.text_refused())

    def last_step(self, most: int) -> int:
        """Return the maximum number of steps of an episode."""
        return most if self.replay is None else min(most, self.replay.steps)

    @property
    def who(self) -> str:
        """Name of the player."""
        if self.replay is not None:
            return "replay"
        if self.agent is None:
            return "random policy"
        return f"{self.run} at step {self.agent.steps}" + (", sampled actions" if self.stochastic else "")


def from_replay(path: Path, options: list[str] | None, trust: bool) -> Playback:
    """Load a replay and check that it repeats as recorded."""
    from hotloop import _core
    from hotloop.envs.loader import load_env
    from hotloop.envs.registry import is_native
    from hotloop.episodes.replay import read_replay
    from hotloop.errors import ReplayError
    from hotloop.training.trust import code_in_env

    if options:
        raise UserError("a replay has its own options: leave out " + " ".join(options))
    replay = read_replay(path)
    if not _core.has_env(replay.env):
        if (names := code_in_env(replay.env, replay.options)) and not trust:
            raise UserError(f"{path} names code to be loaded ({', '.join(names)}): review that code, then pass --trust")
        load_env(replay.env)
    try:
        replay.check()
    except ReplayError as error:
        raise UserError(f"{path}: {error}") from None
    parts = Playback(replay.env, replay.options, replay.action_repeat, replay.seed, 1, replay=replay)
    if not is_native(replay.env):
        parts.shows = _look(replay.env, replay.options, replay.wrap)
    return parts


def from_name(what: str, changes: list[str], seed: int, episodes: int, trust: bool) -> Playback:
    """Set up an env for a random policy, or a run's policy in its env."""
    from hotloop import _core
    from hotloop.cli import run_lookup
    from hotloop.envs.loader import load_env
    from hotloop.envs.registry import is_native

    options = _env_options(changes)
    what = load_env(what)
    if _core.has_env(what):
        _spec(what, options)
        return Playback(what, options, 1, seed, episodes)
    if not is_native(what) and not Path(what).is_dir():
        return Playback(what, options, 1, seed, episodes, shows=_look(what, options, {}))
    from hotloop.episodes.episode import fresh_seed
    from hotloop.loading import checkpoint_policy
    from hotloop.training.checkpoint import open_policy

    path = run_lookup.find(what, [entry["name"] for entry in _core.list_envs()])
    agent = checkpoint_policy(open_policy(path, trust=trust, warn=tell))
    load_env(agent.env)
    changed = {**agent.options, **options}
    folder = agent.path.parent.parent
    shows = None if is_native(agent.env) else _look(agent.env, changed, agent.wrap, folder, trust=trust)
    before = _spec(agent.env, agent.options) if shows is None else agent.spec
    after = _spec(agent.env, changed) if shows is None else shows.spec
    if not before.fits(after):
        how = f"with {' '.join(changes)}" if changes else "as it is here"
        raise UserError(f"the policy of {path.name} does not fit {agent.env} {how}: the spaces differ")
    parts = Playback(agent.env, changed, agent.action_repeat, fresh_seed(seed), episodes, agent, run=path.name)
    parts.shows = shows
    return parts


def _look(
    env: str, options: dict[str, Any], wrap: dict[str, Any], run: Path | None = None, *, trust: bool = False
) -> RenderModes:
    """Make a Python env to learn its spaces and render modes; `run` is the policy's run."""
    from hotloop.episodes.local_env import look
    from hotloop.errors import EnvError
    from hotloop.training.trust import stored_config

    try:
        return look(env, options, wrap)
    except EnvError as error:
        has_config = run is not None and (run / "config.yaml").is_file()
        python = stored_config(run, trust=trust).runner.worker_python if run is not None and has_config else None
        if python is None:
            raise
        raise UserError(
            f"{error}; the run made its envs with {python}, play makes them with {sys.executable}"
        ) from None


def _spec(env: str, options: dict[str, Any]) -> EnvSpec:
    from hotloop.envs.spec import native_spec

    try:
        return native_spec(env, options)
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


def _env_options(changes: list[str]) -> dict[str, Any]:
    from hotloop.config.loader import parse_overrides

    parts = parse_overrides(changes)
    if others := parts.keys() - {"env"}:
        raise UserError(f"only options of the env can be set here, as env.KEY=VALUE, not {min(others)}.")
    return dict(parts.get("env", {}))
