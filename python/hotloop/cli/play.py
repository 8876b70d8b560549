"""`hotloop play`: watch a trained or a random policy play episodes; save them as replays or videos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError, count, emit, tell

if TYPE_CHECKING:
    from hotloop.cli.playback import Playback
    from hotloop.cli.screen import Screen
    from hotloop.episodes.episode import Episode
    from hotloop.episodes.replay import Replay


def play(
    what: Annotated[str | None, typer.Argument(metavar="RUN|ENV", help="A run, or an env for a random policy.")] = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="env.KEY=VALUE", help="Env options to change.")] = None,
    episodes: Annotated[int, typer.Option(parser=count, metavar="N", help="Number of episodes.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the episodes, as in 'hotloop eval'.")] = 0,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions, as in training.")] = False,
    steps: Annotated[int, typer.Option(parser=count, metavar="N", help="Maximum length of an episode.")] = 10_000,
    pace: Annotated[
        float | None, typer.Option(metavar="N", help="Steps per second on a terminal and in a video; 0 for no limit.")
    ] = None,
    by_step: Annotated[bool, typer.Option("--step", help="Wait for a key after every step; q quits.")] = False,
    video: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an .mp4 or a .gif instead.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the best episode as a replay.")] = None,
    replay: Annotated[Path | None, typer.Option(metavar="FILE", help="Show this replay.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Allow code named by a run made elsewhere.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Show nothing; print one JSON object per line.")] = False,
) -> None:
    """Watch episodes in the terminal, or write a video of them.

    \b
      hotloop play cartpole                 a random policy
      hotloop play last                     the newest run's policy
      hotloop play last --step              one step per key press
      hotloop play last --video solved.mp4
      hotloop play frozen-lake env.map=8x8 --seed 3
      hotloop play gymnasium:Taxi-v4        or MODULE:FACTORY, made here
      hotloop play last --episodes 20 --save best.replay
      hotloop play --replay best.replay

    When stdout is not a terminal, frames are printed one after another. A run
    keeps the best episodes of its evaluations in its folder `replays`.
    """
    if what is not None and replay is not None:
        raise UserError(f"a replay has its own env and actions: leave out {what!r}, or --replay")
    if what is None and replay is None:
        raise UserError("nothing to play: name a run, or an env ('hotloop envs' lists them), or a replay with --replay")
    for option, value, least in (("--episodes", episodes, 1), ("--seed", seed, 0), ("--steps", steps, 1)):
        if not least <= value < 2**63:
            raise UserError(f"{option} is {value}: expected {least} or more")
    if pace is not None and not 0 <= pace <= 1000:
        raise UserError(f"--pace is {pace:g}: expected 0 to 1000")

    from hotloop.cli.playback import from_name, from_replay
    from hotloop.cli.signals import INTERRUPTED
    from hotloop.errors import ConfigError, EnvError, RenderError, ReplayError, TrainingError

    try:
        parts = (
            from_replay(replay, options, trust)
            if replay is not None
            else from_name(what or "", options or [], seed, episodes, trust)
        )
        parts.stochastic = stochastic
        show = _Show(parts, steps=steps, pace=pace, by_step=by_step, video=video, save=save, as_json=as_json)
        show.run()
    except (ConfigError, EnvError, RenderError, ReplayError, TrainingError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        raise UserError(f"cannot write {error.filename or video or save}: {error.strerror or error}") from None


class _Show:
    """Play the episodes, and show, record or save them."""

    def __init__(
        self,
        parts: Playback,
        *,
        steps: int,
        pace: float | None,
        by_step: bool,
        video: Path | None,
        save: Path | None,
        as_json: bool,
    ) -> None:
        from hotloop.cli.screen import keys_can_be_read

        self._parts = parts
        self._steps = parts.last_step(steps)
        self._pace = parts.pace if pace is None else pace
        self._video, self._save, self._as_json = video, save, as_json
        self._by_step = by_step
        self._best: Replay | None = None
        self._returns: list[float] = []
        if by_step and (video is not None or as_json or not keys_can_be_read()):
            raise UserError("--step waits for keys: it needs a terminal, and neither --video nor --json")
        if video is not None:
            from hotloop.rendering.video import check_video

            check_video(video)
            parts.draw()
            self._pace = self._pace or parts.pace
        elif not as_json:
            parts.write()
        if save is not None and not save.absolute().parent.is_dir():
            raise UserError(f"cannot write {save}: there is no folder {save.absolute().parent}")

    def run(self) -> None:
        """Play all episodes."""
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
            self._check_repeatable(self._best)
            write_replay(self._save, self._best)
            tell(f"saved {self._save}; show it with: hotloop play --replay {self._save}")
        if self._as_json and self._returns:
            emit("end", **self._summary())

    def _check_repeatable(self, replay: Replay) -> None:
        """Reject a replay that does not repeat: some Python envs use randomness beyond their seed."""
        from hotloop.errors import ReplayError

        if self._parts.shows is None:
            return
        try:
            replay.check()
        except ReplayError as error:
            raise UserError(f"{replay.env} cannot be replayed, so nothing was saved: {error}") from None

    def _watch(self) -> None:
        from hotloop.cli.screen import Screen

        for index in range(self._parts.episodes):
            screen = Screen(self._pace, by_key=self._by_step)
            with screen:
                going = self._show_episode(screen, index)
            if not going:
                break

    def _show_episode(self, screen: Screen, index: int) -> bool:
        return all(
            screen.show(f"{episode.text()}\n{_caption(self._parts, episode)}") for episode in self._moments(index)
        )

    def _film(self, path: Path) -> None:
        from hotloop.rendering.video import write_video

        pictures = (episode.picture() for index in range(self._parts.episodes) for episode in self._moments(index))
        count = write_video(path, pictures, self._pace)
        tell(f"{path}: {count} frames, {self._pace:g} per second")

    def _moments(self, index: int) -> Iterator[Episode]:
        """Yield an episode at its start and after every step."""
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


def _caption(parts: Playback, episode: Episode) -> str:
    from hotloop.rendering import action_text

    facts = [f"{parts.env}, {parts.who}", f"step {episode.steps}"]
    if episode.ended is not None:
        facts.append(episode.ended)
    if episode.actions:
        facts.append(", ".join(action_text(parts.env, action) for action in episode.actions[-1]))
        facts.append(f"reward {_numbers(episode.rewards[-1])}")
    facts.append(f"return {_numbers(episode.returns)}")
    return " · ".join(facts)


def _conclusion(episode: Episode, index: int) -> str:
    how = episode.ended or "stopped"
    return f"episode {index}: return {_numbers(episode.returns)} in {episode.steps} steps, {how}"


def _numbers(values: Any) -> str:
    return " ".join(f"{value:g}" for value in values)
