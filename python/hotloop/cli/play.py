"""`hotloop play`: watch a run's policy, or chance, play episodes; keep them as replays and videos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError, emit, tell

if TYPE_CHECKING:
    from hotloop.cli.screen import Screen
    from hotloop.episodes.episode import Chooser, Episode
    from hotloop.episodes.replay import Replay
    from hotloop.policies.agent import Agent


def play(
    what: Annotated[
        str | None, typer.Argument(metavar="[RUN|ENV]", help="A run, or an env to be played by chance.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[env.KEY=VALUE]...", help="Options of the env that differ.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="How many episodes.")] = 1,
    seed: Annotated[int, typer.Option(help="Which episodes; 'hotloop eval' plays the same ones.")] = 0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Draw actions, as in training.")] = False,
    steps: Annotated[int, typer.Option(help="Leave an episode after this many steps.")] = 10_000,
    pace: Annotated[
        float | None, typer.Option(help="Steps per second on a terminal and in a video; 0 for as fast as it goes.")
    ] = None,
    by_step: Annotated[bool, typer.Option("--step", help="Wait for a key after every step; q ends.")] = False,
    video: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an .mp4 or a .gif instead.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the best of the episodes as a replay.")
    ] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Show this replay again, exactly.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import code that a run made elsewhere names.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Show nothing; print one JSON object a line.")] = False,
) -> None:
    """Watch episodes in the terminal, or write a video of them.

    \b
      hotloop play cartpole                 chance plays
      hotloop play last                     the newest run's policy plays
      hotloop play last --step              one step at the press of a key
      hotloop play last --video solved.mp4
      hotloop play frozen-lake env.map=8x8 --seed 3
      hotloop play last --episodes 20 --save best.replay
      hotloop play --replay best.replay

    Frames follow each other when the output is no terminal. A run keeps the
    best episodes of its evaluations as replays, in its folder `replays`.
    """
    if (what is None) == (replay is None):
        raise UserError("play what? Name a run, or an env ('hotloop envs' lists them), or a replay with --replay")
    for option, value, least in (("--episodes", episodes, 1), ("--seed", seed, 0), ("--steps", steps, 1)):
        if not least <= value < 2**63:
            raise UserError(f"{option} is {value}: expected {least} or more")
    if pace is not None and not 0 <= pace <= 1000:
        raise UserError(f"--pace is {pace:g}: expected 0 to 1000")

    from hotloop.cli.interrupting import INTERRUPTED
    from hotloop.config import ConfigError
    from hotloop.episodes.replay import ReplayError
    from hotloop.rendering import RenderError
    from hotloop.training import TrainingError

    try:
        parts = (
            _replayed(replay, options, trust)
            if replay is not None
            else _played(what or "", options or [], seed, episodes, trust)
        )
        parts.stochastic = stochastic
        show = _Show(parts, steps=steps, pace=pace, by_step=by_step, video=video, save=save, as_json=as_json)
        show.run()
    except (ConfigError, RenderError, ReplayError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot write {error.filename or video or save}: {error.strerror or error}") from None


@dataclass
class _Parts:
    """What is to be played, and by whom."""

    env: str
    options: dict[str, Any]
    action_repeat: int
    seed: int
    episodes: int
    agent: Agent | None = None
    replay: Replay | None = None
    run: str | None = None
    stochastic: bool = False

    def begin(self, index: int) -> tuple[Episode, Chooser]:
        """An episode at its start, and what chooses its actions."""
        from hotloop.episodes import choosing
        from hotloop.episodes.episode import Episode

        if self.replay is not None:
            recorded = self.replay
            return recorded.begin(), lambda obs, mask, step: recorded.actions[step]
        episode = Episode(self.env, self.options, seed=self.seed, index=index, action_repeat=self.action_repeat)
        if self.agent is None:
            return episode, choosing.by_chance(self.env, self.options, seed=self.seed, index=index)
        return episode, choosing.by_policy(self.agent, episode, deterministic=not self.stochastic)

    def last_step(self, most: int) -> int:
        """After how many steps to leave an episode."""
        return most if self.replay is None else min(most, self.replay.steps)

    @property
    def who(self) -> str:
        """Who plays, in words."""
        if self.replay is not None:
            return "replay"
        if self.agent is None:
            return "chance"
        return f"{self.run} at step {self.agent.steps}" + (", drawn actions" if self.stochastic else "")


def _replayed(path: Path, options: list[str] | None, trust: bool) -> _Parts:
    from hotloop import _core
    from hotloop.envs.loading import brings_code, load_env
    from hotloop.episodes.replay import read_replay

    if options:
        raise UserError("a replay has its own options: leave out " + " ".join(options))
    replay = read_replay(path)
    if brings_code(replay.env) and not _core.has_env(replay.env):
        if not trust:
            raise UserError(f"{path} names code to be loaded ({replay.env}): look at that code, then say --trust")
        load_env(replay.env)
    replay.check()
    return _Parts(replay.env, replay.options, replay.action_repeat, replay.seed, 1, replay=replay)


def _played(what: str, changes: list[str], seed: int, episodes: int, trust: bool) -> _Parts:
    from hotloop import _core
    from hotloop.cli import naming
    from hotloop.envs.loading import load_env
    from hotloop.training.trust import load_trusted_env

    options = _env_options(changes)
    what = load_env(what)
    if _core.has_env(what):
        _describe(what, options)
        return _Parts(what, options, 1, seed, episodes)
    from hotloop.episodes.episode import fresh_seed
    from hotloop.policies.agent import load

    path = naming.find(what)
    agent = load(path, trust=trust)
    load_trusted_env(agent.path.parent.parent, agent.env, trust=trust)
    changed = {**agent.options, **options}
    before, after = _describe(agent.env, agent.options), _describe(agent.env, changed)
    if any(before[part] != after[part] for part in ("observation", "action", "masked")):
        raise UserError(f"the policy of {path.name} does not fit {agent.env} with {' '.join(changes)}: other spaces")
    return _Parts(agent.env, changed, agent.action_repeat, fresh_seed(seed), episodes, agent, run=path.name)


def _describe(env: str, options: dict[str, Any]) -> dict[str, Any]:
    from hotloop import _core

    try:
        return dict(_core.describe(env, options))
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


def _env_options(changes: list[str]) -> dict[str, Any]:
    from hotloop.config.loading import parse_overrides

    parts = parse_overrides(changes)
    if others := parts.keys() - {"env"}:
        raise UserError(f"only options of the env can be set here, as env.KEY=VALUE, not {min(others)}.")
    return dict(parts.get("env", {}))


class _Show:
    """Plays the episodes, and shows, films or keeps them."""

    def __init__(
        self,
        parts: _Parts,
        *,
        steps: int,
        pace: float | None,
        by_step: bool,
        video: Path | None,
        save: Path | None,
        as_json: bool,
    ) -> None:
        from hotloop import rendering
        from hotloop.cli.screen import keys_can_be_read

        self._parts = parts
        self._steps = parts.last_step(steps)
        self._pace = rendering.pace(parts.env) if pace is None else pace
        self._video, self._save, self._as_json = video, save, as_json
        self._by_step = by_step
        self._best: Replay | None = None
        self._returns: list[float] = []
        if by_step and (video is not None or as_json or not keys_can_be_read()):
            raise UserError("--step waits for keys: it needs a terminal, and neither --video nor --json")
        if video is not None:
            from hotloop.rendering.video import check_video

            check_video(video)
            if not rendering.has_picture(parts.env):
                raise UserError(f"{parts.env} has no picture, only text: leave out --video")
            self._pace = self._pace or rendering.pace(parts.env)
        if save is not None and not save.absolute().parent.is_dir():
            raise UserError(f"cannot write {save}: there is no folder {save.absolute().parent}")

    def run(self) -> None:
        """All of it."""
        from hotloop.episodes.replay import write_replay

        if self._video is not None:
            self._film(self._video)
        elif self._as_json:
            for index in range(self._parts.episodes):
                for _ in self._moments(index):
                    pass
        else:
            self._watch()
        if self._save is not None and self._best is not None:
            write_replay(self._save, self._best)
            tell(f"kept as {self._save}: hotloop play --replay {self._save}")
        if self._as_json and self._returns:
            emit("end", **self._summary())

    def _watch(self) -> None:
        from hotloop.cli.screen import Screen

        for index in range(self._parts.episodes):
            screen = Screen(self._pace, by_key=self._by_step)
            with screen:
                going = self._show_episode(screen, index)
            if not going:
                break

    def _show_episode(self, screen: Screen, index: int) -> bool:
        from hotloop.rendering import as_text

        return all(
            screen.show(f"{as_text(episode.scene())}\n{_caption(self._parts, episode)}")
            for episode in self._moments(index)
        )

    def _film(self, path: Path) -> None:
        from hotloop.rendering import as_picture
        from hotloop.rendering.video import write_video

        pictures = (
            as_picture(episode.scene()) for index in range(self._parts.episodes) for episode in self._moments(index)
        )
        count = write_video(path, pictures, self._pace)
        tell(f"{path}: {count} pictures, {self._pace:g} a second")

    def _moments(self, index: int) -> Iterator[Episode]:
        """An episode, at its start and after every step."""
        from hotloop.episodes.replay import Replay

        episode, choose = self._parts.begin(index)
        try:
            yield episode
            while episode.ended is None and episode.steps < self._steps:
                episode.step(choose(episode.obs, episode.mask, episode.steps))
                yield episode
        finally:
            episode.close()
        total = float(episode.returns.sum())
        self._returns.append(total)
        if self._save is not None and (self._best is None or total > self._best.total):
            about = {"run": self._parts.run, "by": self._parts.who}
            self._best = Replay.of(episode, **about)
        if self._as_json:
            facts = {"returns": episode.returns.tolist(), "steps": episode.steps, "ended": episode.ended}
            emit("episode", episode=index, **{"return": total}, **facts)
        elif self._video is not None:
            print(_conclusion(episode, index))

    def _summary(self) -> dict[str, Any]:
        parts = self._parts
        return {
            "env": parts.env,
            "run": parts.run,
            "by": parts.who,
            "seed": parts.seed,
            "episodes": len(self._returns),
            "mean": sum(self._returns) / len(self._returns),
            "video": None if self._video is None else str(self._video),
            "saved": None if self._save is None else str(self._save),
        }


def _caption(parts: _Parts, episode: Episode) -> str:
    from hotloop.rendering import action_text

    facts = [f"{parts.env}, {parts.who}", f"step {episode.steps}"]
    if episode.actions:
        facts.append(", ".join(action_text(parts.env, action) for action in episode.actions[-1]))
        facts.append(f"reward {_numbers(episode.rewards[-1])}")
    facts.append(f"return {_numbers(episode.returns)}")
    if episode.ended is not None:
        facts.append(episode.ended)
    return " · ".join(facts)


def _conclusion(episode: Episode, index: int) -> str:
    how = episode.ended or "left"
    return f"episode {index}: return {_numbers(episode.returns)} in {episode.steps} steps, {how}"


def _numbers(values: Any) -> str:
    return " ".join(f"{value:g}" for value in values)
