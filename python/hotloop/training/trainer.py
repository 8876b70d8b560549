"""The training loop: collect, learn, report. Everything else listens to it.

Records, evaluations and checkpoints fall on fixed iteration counts, so that an interrupted run records and saves the
same as an uninterrupted one. Only displays are paced by the clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop import _core
from hotloop.episodes import best_replays
from hotloop.errors import EnvError, TrainingError, WorkersFailedError
from hotloop.files import remove_leftovers, unused_name
from hotloop.tracking.alerts import Alerts
from hotloop.training import checkpoint as checkpoints
from hotloop.training.callbacks import Callback, EvaluationReport, StartReport
from hotloop.training.checkpoint_writer import CheckpointWriter
from hotloop.training.control import timeless
from hotloop.training.interrupts import Interrupted, Interrupts
from hotloop.training.plan import Plan, Repetition
from hotloop.training.policy_ladder import PolicyLadder
from hotloop.training.recorder import Recorder, Unrecorded, plain
from hotloop.training.reporter import Reporter
from hotloop.training.resumption import replay_records
from hotloop.training.run_state import RunState
from hotloop.training.runs import Ending, Run, RunFolder
from hotloop.training.session_protocol import TrainingSession

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.tracking.store_url import StoreUrl
    from hotloop.training.checkpoint import Arrays, Checkpoint
    from hotloop.training.control import Controller

# This many non-finite gradient steps within one record lead to a rollback.
_REPEATED: Final = 3
_MOST_ATTEMPTS: Final = 3


@contextlib.contextmanager
def _unhindered() -> Iterator[None]:
    """Let recorder threads yield to the training thread, which otherwise may wait 5 ms for each of them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 0.0005))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Trainer:
    """One run, from its start or a checkpoint to an end. Made by `start.begin` or `start.resume`; call `run` once."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        *,
        first: tuple[Arrays, Arrays] | None,
        opponents: Sequence[Checkpoint] = (),
        controllers: Sequence[Controller] = (),
        debug: bool,
        callbacks: Sequence[Callback],
        store: StoreUrl | None,
        repeated: Repetition | None = None,
        recorded: bool = True,
        notes: Sequence[str] = (),
        trust: bool = True,
    ) -> None:
        self._config = config
        self._folder = folder
        recorder: type[Recorder] = Recorder if recorded else Unrecorded
        self._recorder = recorder(folder.path, store=store, trackers=config.track.trackers)
        self._reporter = Reporter(folder, self._recorder, callbacks)
        self._alerts = Alerts(config.train.until_episodes)
        self._state = RunState(
            config, folder.path, first=first, opponents=opponents, controllers=controllers, debug=debug, trust=trust
        )
        self._checkpoints = CheckpointWriter(folder, self._recorder, self._reporter, config.train.keep_last)
        self._ladder = PolicyLadder(folder.path) if repeated is None else None
        self._plan = Plan(config, self.session.steps_per_iteration, repeated)
        self._resumed_at: int | None = None
        self._notes = list(notes)
        self._is_best = False
        self._collecting_since = 0.0
        self._interrupts = Interrupts()
        self._threads: int | None = None

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def session(self) -> TrainingSession:
        """The session, also for inspection after the end."""
        return self._state.session

    def request_stop(self) -> None:
        """End the run after the current iterations, with a checkpoint, as Ctrl-C does; from any thread.

        A running evaluation is abandoned, and made again if the run is resumed.
        """
        self._interrupts.request()

    def request_threads(self, count: int) -> None:
        """Use this many threads from the next iteration on, where results do not depend on it; from any thread."""
        self._threads = count

    def ending(self) -> Ending | None:
        """Return the limit that the run has reached already, if any."""
        return self._plan.ending(self.session.counters, interrupted=False, by_callback=False)

    def note(self, notice: str) -> None:
        """Add a notice to the report of the start."""
        self._notes.append(notice)

    def restore_newest(self, *, restart: bool = False) -> None:
        """Restore the newest checkpoint, or with `restart` none; what lies after it is set aside, not deleted."""
        folder = self._folder
        for each in (folder.path, folder.checkpoints, folder.recovery, folder.replays):
            remove_leftovers(each)
        if restart:
            for path in (folder.checkpoints, folder.recovery, folder.replays):
                if path.exists():
                    path.rename(unused_name(folder.path, f"{path.name}.old"))
        found, notes = self._state.restore_newest()
        self._notes += notes
        if found is not None:
            counters = self.session.counters
            self._resumed_at = found.steps
            self._checkpoints.resume(found, counters)
            self._reporter.resume(counters)
            self._restore_alerts(found.steps)
            _, unreadable = checkpoints.find_best(folder.checkpoints)
            self._notes += [f"{reason}; it is left as it is" for reason in unreadable.values()]
        else:
            self._notes.append("the run has no checkpoint, so it begins again")
        self._notes += best_replays.forget_after(folder.replays, -1 if found is None else found.steps)
        if self._ladder is not None:
            self._ladder.forget_after(-1 if found is None else found.steps)
            self._ladder.resume()

    def _restore_alerts(self, steps: int) -> None:
        """Bring the alerts to the state that they had at a step."""
        self._alerts = Alerts(self._config.train.until_episodes)
        replay_records(self._folder.path, steps, self._alerts)

    def run(self) -> Run:
        """Train to the end."""
        folder = self._folder
        try:
            with self._interrupts, _unhindered():
                self._start()
                try:
                    run = self._finish(self._train())
                except WorkersFailedError as error:
                    self._reporter.faults(self.session)
                    self._give_up(error)
                except EnvError as error:
                    # The iteration stopped halfway: the last checkpoint is the state to resume from.
                    raise TrainingError(str(error)) from error
        except BaseException as error:
            if isinstance(error, TrainingError) and error.worth_keeping:
                with contextlib.suppress(OSError):
                    self._checkpoint()
            self._note_failure(str(error) or type(error).__name__)
            raise
        finally:
            if self._ladder is not None:
                self._ladder.close()
            self.session.close()
            folder.release()
        return run

    def _train(self) -> Ending:
        """Run the loop, and what falls on the end of the run."""
        try:
            ending = self._loop()
            while self._plan.closes(ending) and self.session.counters.since.iterations and self._record():
                # The last record caused a rollback: train to the end again.
                ending = self._loop()
            # An interrupted run will go on; what it has not recorded or evaluated yet comes then.
            if self._plan.closes(ending) and self._config.train.evaluate_episodes:
                counters = self.session.counters
                if not self._checkpoints.has_saved(counters):
                    self._checkpoints.save_for_recovery(self.session)
                if counters.evaluated_at != counters.iterations:
                    # The last checkpoint has the last evaluation, also if it was saved before.
                    self._checkpoints.invalidate()
                self._evaluate()
        except Interrupted:
            return "interrupted"
        return ending

    def _note_failure(self, why: str) -> None:
        counters = self.session.counters
        with contextlib.suppress(OSError):
            self._recorder.fail(
                why, counters.steps, counters.iterations, counters.episodes, counters.seconds, counters.return_recent
            )
        with contextlib.suppress(OSError):
            self._folder.write_status("failed", why=why, **self._facts())

    def _start(self) -> None:
        summary = self.session.summary()
        report = StartReport(
            run=self._folder.path.name,
            path=self._folder.path,
            config=self._config,
            learner=summary.learner,
            work=summary.work,
            parameters=summary.parameters,
            num_threads=summary.num_threads,
            resumed_at=self._resumed_at,
            journal_bytes=None if self._resumed_at is None else self.session.counters.journal_bytes,
            notes=(*self._notes, *summary.notes),
        )
        with self._folder.writing():
            self._folder.checkpoints.mkdir(exist_ok=True)
            self._folder.write_status("running", **self._facts())
        self._reporter.emit("start", report, self.session.counters)

    def _loop(self) -> Ending:
        """Run iterations and everything that falls between them, until a limit is reached."""
        plan = self._plan
        while True:
            # Before the first iteration too: a resumed run may have been interrupted in the middle of this.
            if self._between_iterations():
                continue
            session = self.session
            asked = self._interrupts.asked
            ending = plan.ending(session.counters, interrupted=asked, by_callback=self._reporter.stop_requested)
            if ending is not None:
                return ending
            changes = session.next_change(), self._state.control.next_decision(session.counters.iterations)
            count = plan.iterations_to_go(session.counters, *changes)
            count = min(count, self._checkpoints.recovery.iterations_to_go(session.counters))
            if self._ladder is not None:
                count = min(count, self._ladder.iterations_to_go(session.counters.iterations))
            if self._threads is not None:
                session.set_threads(self._threads)
                self._threads = None
            self._collecting_since = time.perf_counter()
            session.advance(count, plan.seconds_to_go(session.counters), self._show_collecting)
            self._reporter.faults(self.session)
            self._show_progress()
            if self._ladder is not None:
                self._ladder.look(self.session)
                self._ladder.leave_newest(self.session)

    def _between_iterations(self) -> bool:
        """Do everything that is due at this iteration count and was not done yet; return whether it rolled back."""
        plan, counters = self._plan, self.session.counters
        done = counters.iterations
        if done and plan.is_record_due(done) and counters.since.iterations and self._record():
            return True
        if done and plan.is_evaluation_due(done):
            self._evaluate()
        if done and plan.is_record_due(done):
            self._check_solved()
        if self._state.control.is_due(counters):
            self._decide()
        if self._is_best or (done and plan.is_checkpoint_due(done) and not self._checkpoints.has_saved(counters)):
            self._checkpoint()
        elif self._checkpoints.recovery.is_due(counters):
            self._checkpoints.save_for_recovery(self.session)
        return False

    def _decide(self) -> None:
        """Ask the controllers, and set what they decide."""
        counters = self.session.counters
        decisions = self._state.control.decide(counters)
        for name, decision in decisions:
            try:
                self.session.apply(decision)
            except (TypeError, ValueError) as error:
                raise TrainingError(f"the controller {name!r} decided what cannot be set: {error}") from None
        if any(decision.env or decision.reward for _, decision in decisions):
            # Returns from before do not compare with those to come.
            counters.best = None
        if decisions:
            self._reporter.decisions(decisions, counters)

    def _give_up(self, error: WorkersFailedError) -> NoReturn:
        """Save a checkpoint and end the run with an error."""
        if not self._checkpoints.has_saved(self.session.counters):
            self._checkpoint()
        name = self._folder.path.name
        raise TrainingError(
            f"{error}\n\nThe run ended with a checkpoint at step {self.session.counters.steps}; once its envs are "
            f"repaired, resume it with: hotloop train --resume {name}"
        ) from error

    def _record(self) -> bool:
        """Emit the record of the iterations since the last one; return whether the run was rolled back instead."""
        session, every = self.session, self._config.track.statistics_every
        session.gather()
        counters = session.counters
        before, dropped = counters.iterations - counters.since.iterations, counters.since.dropped
        if dropped >= _REPEATED:
            self._roll_back(dropped)
            return True
        closely = every > 0 and counters.iterations // every != before // every
        report = session.record(with_statistics=closely)
        counters.control.record = timeless(report)
        self._reporter.emit("iteration", report, counters)
        if dropped:
            self._reporter.trouble(counters, "not-finite", f"{dropped} non-finite gradient steps were skipped")
        for kind, what in self._alerts.look(report):
            self._reporter.trouble(counters, kind, what)
        return False

    def _roll_back(self, dropped: int) -> None:
        """Go back to the last good checkpoint, with new random keys and half the learning rate."""
        counters = self.session.counters
        attempt, spent = counters.attempt + 1, counters.seconds
        at = f"{dropped} gradient steps before step {counters.steps} were not finite"
        if attempt > _MOST_ATTEMPTS:
            batch = self._checkpoints.save_batch(self.session)
            raise TrainingError(
                f"{at}, after {_MOST_ATTEMPTS} rollbacks: the run cannot continue. "
                f"The last rollout is in {batch}; try a smaller ppo.learning_rate or ppo.reward_scale"
            )
        found, _ = self._state.restore_newest(attempt=attempt)
        # The time of the discarded iterations was spent all the same.
        self.session.counters.seconds = spent
        steps = 0 if found is None else found.steps
        best_replays.forget_after(self._folder.replays, steps)
        self._restore_alerts(steps)
        if self._ladder is not None:
            self._ladder.forget_after(steps)
        self._is_best = False
        rate = self.session.learning_rate
        what = f"{at}; the run continues from step {steps} with the learning rate halved to {rate:g}"
        self._reporter.trouble(self.session.counters, "rolled-back", what, back_to=steps)
        # A run killed before its next checkpoint must not repeat the failed attempt.
        self._checkpoint()

    def _evaluate(self, *, confirms: bool = False) -> None:
        """Evaluate once per iteration count; a request to end abandons the evaluation and raises `Interrupted`."""
        counters = self.session.counters
        if counters.evaluated_at != counters.iterations:
            with self._interrupts.raising():
                found = self.session.evaluate(self._show_evaluating)
            counters.evaluation, counters.evaluated_at = found, counters.iterations
            self._keep_best()
            if not math.isnan(found.mean) and (counters.best is None or found.mean > counters.best.mean):
                counters.best = found
                self._is_best = True
            report = EvaluationReport(counters.iterations, counters.steps, found, self._is_best, confirms)
            self._reporter.emit("evaluation", report, counters)

    def _show_evaluating(self, done: int, episodes: int) -> None:
        self._interrupts.check()
        self._reporter.evaluating(done, episodes, self.session.counters)

    def _keep_best(self) -> None:
        """Keep the best episodes of all evaluations; there are none if the result was computed without playing."""
        if self.session.top is not None:
            folder, steps = self._folder.replays, self.session.counters.steps
            with self._folder.writing():
                best_replays.keep(folder, self.session.top, run=self._folder.path.name, steps=steps, by="evaluation")

    def _check_solved(self) -> None:
        """Check `train.until`: reached in training episodes, and confirmed by an evaluation."""
        counters, train = self.session.counters, self._config.train
        if (
            train.until is None
            or not self._state.control.finished
            or counters.episodes < max(counters.confirm_after, train.until_episodes)
            or not self.session.promises(train.until)
        ):
            return
        self._evaluate(confirms=True)
        assert counters.evaluation is not None
        counters.solved = counters.evaluation.mean >= train.until
        # Only again after as many new episodes: the same ones would give the same answer.
        counters.confirm_after = counters.episodes + train.until_episodes

    def _checkpoint(self) -> None:
        self._checkpoints.save(self.session, is_best=self._is_best)
        self._is_best = False

    def _finish(self, ending: Ending) -> Run:
        counters = self.session.counters
        if self._is_best or not self._checkpoints.has_saved(counters):
            self._checkpoint()
        run = Run(
            path=self._folder.path,
            steps=counters.steps,
            iterations=counters.iterations,
            episodes=counters.episodes,
            seconds=counters.seconds,
            steps_per_second=counters.steps / counters.seconds if counters.seconds else 0.0,
            return_mean=counters.return_recent,
            evaluation=counters.evaluation,
            best=counters.best,
            ended=ending,
            config=self._config,
        )
        with self._folder.writing():
            status = "interrupted" if ending == "interrupted" else "finished"
            self._folder.write_status(status, ended=ending, **self._facts())
        self._reporter.emit("end", run, counters)
        return run

    def _facts(self) -> dict[str, Any]:
        counters = self.session.counters
        facts = {
            "env": self._config.env.name,
            "seed": self._config.train.seed,
            "steps": counters.steps,
            "iterations": counters.iterations,
            "episodes": counters.episodes,
            "seconds": counters.seconds,
            "return_mean": counters.return_recent,
            "best": None if counters.best is None else dataclasses.asdict(counters.best),
            "version": _core.__version__,
        }
        result: dict[str, Any] = plain(facts)
        return result

    def _show_collecting(self, collected: int) -> None:
        """Show progress within an iteration, which may take minutes with slow envs."""
        self._show_progress(collected, time.perf_counter() - self._collecting_since)

    def _show_progress(self, collected: int = 0, spent: float = 0.0) -> None:
        self._reporter.progress(self.session, self._plan.fraction(self.session.counters), collected, spent)
