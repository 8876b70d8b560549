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
from hotloop.errors import CheckpointError, EnvError, TrainingError, UnusableCheckpointError, WorkersFailedError
from hotloop.files import remove_leftovers, unused_name
from hotloop.tracking.alerts import Alerts
from hotloop.training import checkpoint as checkpoints
from hotloop.training.callbacks import (
    Callback,
    CheckpointReport,
    ControlReport,
    EvaluationProgress,
    EvaluationReport,
    ProgressReport,
    StartReport,
    TroubleReport,
    ValuesReport,
)
from hotloop.training.control import ControlPlane, ControlState, timeless
from hotloop.training.interrupts import Interrupted, Interrupts
from hotloop.training.plan import PACE, Plan, Repetition
from hotloop.training.policy_ladder import PolicyLadder
from hotloop.training.recorder import Recorder, Unrecorded, plain
from hotloop.training.recovery import RecoverySchedule
from hotloop.training.resumption import replay_records
from hotloop.training.runs import Ending, Run, RunFolder, now
from hotloop.training.session_protocol import TrainingSession, open_session

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
        self._first = first
        self._debug = debug
        self._trust = trust
        recorder: type[Recorder] = Recorder if recorded else Unrecorded
        self._recorder = recorder(folder.path, store=store, trackers=config.track.trackers)
        self._alerts = Alerts(config.train.until_episodes)
        self._callbacks = tuple(callbacks)
        self._opponents = opponents
        self._session: TrainingSession = self._open()
        try:
            self._control = ControlPlane([*self._session.controllers(), *controllers])
        except BaseException:
            self._session.close()
            raise
        self._recovery = RecoverySchedule()
        self._ladder = PolicyLadder(folder.path) if repeated is None else None
        self._plan = Plan(config, self._session.steps_per_iteration, repeated)
        self._resumed_at: int | None = None
        self._notes = list(notes)
        self._saved_at: int | None = None
        self._is_best = False
        self._shown_at = (0, 0.0)
        self._collecting_since = self._evaluating_shown = 0.0
        self._ended_by_callback = False
        self._interrupts = Interrupts()
        self._threads: int | None = None

    def _open(self, attempt: int = 0) -> TrainingSession:
        return open_session(
            self._config, first=self._first, opponents=self._opponents, attempt=attempt, debug=self._debug
        )

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def session(self) -> TrainingSession:
        """The session, for inspection after the end."""
        return self._session

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
        return self._plan.ending(self._session.counters, interrupted=False, by_callback=False)

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
        found = self._newest_fitting(attempt=0)
        if found is not None:
            counters = self._session.counters
            self._resumed_at = found.steps
            self._saved_at = None if found.path.parent == folder.recovery else counters.iterations
            if self._saved_at is not None:
                # A kill may have come before it was done.
                checkpoints.prune(folder.path, self._config.train.keep_last)
            self._recovery.saved(counters, 0.0)
            self._shown_at = (counters.steps, counters.seconds)
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

    def _newest_fitting(self, *, attempt: int) -> Checkpoint | None:
        """Restore the newest intact checkpoint of this run, with the random keys of this attempt or its own."""
        damaged: dict[Path, str] = {}
        for path in checkpoints.newest_first(self._folder.path):
            try:
                found = checkpoints.open_checkpoint(path, trust=self._trust)
                self._rebuild(max(attempt, found.manifest["attempt"]))
                self._session.restore(found)
                self._control.restore(self._session.counters.control)
            except UnusableCheckpointError as error:
                raise UnusableCheckpointError(f"{error}. {self._advice}") from None
            except CheckpointError as error:
                damaged[path] = f"refused: {error}"
            else:
                if damaged:
                    aside = checkpoints.set_aside(self._folder.path, list(damaged))
                    self._notes += [f"{each}; it is now in {aside.name}" for each in damaged.values()]
                return found
        if damaged:
            raise CheckpointError(f"no checkpoint of the run is usable: {'; '.join(damaged.values())}. {self._advice}")
        self._rebuild(attempt)
        self._control.restore(ControlState())
        return None

    @property
    def _advice(self) -> str:
        return (
            "Nothing was deleted: undo the change, or begin again with "
            f"'hotloop train --resume {self._folder.path.name} --restart', which sets the old checkpoints aside"
        )

    def _rebuild(self, attempt: int) -> None:
        """Open a new session if this one is of another attempt, which is part of every random key."""
        if self._session.counters.attempt != attempt:
            self._session.close()
            self._session = self._open(attempt)

    def run(self) -> Run:
        """Train to the end."""
        folder = self._folder
        try:
            with self._interrupts, _unhindered():
                self._start()
                try:
                    run = self._finish(self._train())
                except WorkersFailedError as error:
                    self._report_faults()
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
            self._session.close()
            folder.release()
        return run

    def _train(self) -> Ending:
        """Run the loop, and what falls on the end of the run."""
        try:
            ending = self._loop()
            while self._plan.closes(ending) and self._session.counters.since.iterations and self._record():
                # The last record caused a rollback: train to the end again.
                ending = self._loop()
            # An interrupted run will go on; what it has not recorded or evaluated yet comes then.
            if self._plan.closes(ending) and self._config.train.evaluate_episodes:
                counters = self._session.counters
                if self._saved_at != counters.iterations:
                    self._save_recovery()
                if counters.evaluated_at != counters.iterations:
                    # The last checkpoint has the last evaluation, also if it was saved before.
                    self._saved_at = None
                self._evaluate()
        except Interrupted:
            return "interrupted"
        return ending

    def _note_failure(self, why: str) -> None:
        counters = self._session.counters
        with contextlib.suppress(OSError):
            self._recorder.fail(
                why, counters.steps, counters.iterations, counters.episodes, counters.seconds, counters.return_recent
            )
        with contextlib.suppress(OSError):
            self._folder.write_status("failed", why=why, **self._facts())

    def _start(self) -> None:
        summary = self._session.summary()
        report = StartReport(
            run=self._folder.path.name,
            path=self._folder.path,
            config=self._config,
            learner=summary.learner,
            work=summary.work,
            parameters=summary.parameters,
            num_threads=summary.num_threads,
            resumed_at=self._resumed_at,
            journal_bytes=None if self._resumed_at is None else self._session.counters.journal_bytes,
            notes=(*self._notes, *summary.notes),
        )
        with self._disk():
            self._folder.checkpoints.mkdir(exist_ok=True)
            self._folder.write_status("running", **self._facts())
        self._emit("start", report)

    def _loop(self) -> Ending:
        """Run iterations and everything that falls between them, until a limit is reached."""
        plan = self._plan
        while True:
            # Before the first iteration too: a resumed run may have been interrupted in the middle of this.
            if self._between_iterations():
                continue
            session = self._session
            asked = self._interrupts.asked
            ending = plan.ending(session.counters, interrupted=asked, by_callback=self._ended_by_callback)
            if ending is not None:
                return ending
            changes = session.next_change(), self._control.next_decision(session.counters.iterations)
            count = plan.iterations_to_go(session.counters, *changes)
            count = min(count, self._recovery.iterations_to_go(session.counters))
            if self._ladder is not None:
                count = min(count, self._ladder.iterations_to_go(session.counters.iterations))
            if self._threads is not None:
                session.set_threads(self._threads)
                self._threads = None
            self._collecting_since = time.perf_counter()
            session.advance(count, plan.seconds_to_go(session.counters), self._show_collecting)
            self._report_faults()
            self._show_progress()
            if self._ladder is not None:
                self._ladder.look(self._session)
                self._ladder.leave_newest(self._session)

    def _between_iterations(self) -> bool:
        """Do everything that is due at this iteration count and was not done yet; return whether it rolled back."""
        plan, counters = self._plan, self._session.counters
        done = counters.iterations
        if done and plan.is_record_due(done) and counters.since.iterations and self._record():
            return True
        if done and plan.is_evaluation_due(done):
            self._evaluate()
        if done and plan.is_record_due(done):
            self._look_whether_solved()
        if self._control.is_due(counters):
            self._decide()
        if self._is_best or (done and plan.is_checkpoint_due(done) and self._saved_at != done):
            self._checkpoint()
        elif self._recovery.is_due(counters):
            self._save_recovery()
        return False

    def _decide(self) -> None:
        """Ask the controllers, and set what they decide."""
        counters = self._session.counters
        decisions = self._control.decide(counters)
        for name, decision in decisions:
            try:
                self._session.apply(decision)
            except (TypeError, ValueError) as error:
                raise TrainingError(f"the controller {name!r} decided what cannot be set: {error}") from None
        if any(decision.env or decision.reward for _, decision in decisions):
            # Returns from before do not compare with those to come.
            counters.best = None
        if decisions:
            report = ControlReport(
                counters.iterations,
                counters.steps,
                "; ".join(decision.what or name for name, decision in decisions),
                [{"controller": name, **decision.changes()} for name, decision in decisions],
            )
            self._emit("control", report)

    def _report_faults(self) -> None:
        """Report Python envs and worker processes that were replaced."""
        counters = self._session.counters
        for fault in self._session.take_faults():
            native = fault.worker is None
            where = f"env {fault.env}" if native else f"env {fault.env} of worker {fault.worker}"
            happened = "was reset" if native else f"was replaced ({fault.kind})"
            what = f"{where} {'cannot be saved' if fault.kind == 'state' else happened}: {fault.what}"
            self._emit(
                "trouble",
                TroubleReport(
                    iterations=counters.iterations,
                    steps=counters.steps,
                    what=what,
                    attempt=counters.attempt,
                    kind="env-fault" if native else "worker-restarted",
                    facts=dataclasses.asdict(fault),
                ),
            )

    def _give_up(self, error: WorkersFailedError) -> NoReturn:
        """Save a checkpoint and end the run with an error."""
        if self._saved_at != self._session.counters.iterations:
            self._checkpoint()
        name = self._folder.path.name
        raise TrainingError(
            f"{error}\n\nThe run ended with a checkpoint at step {self._session.counters.steps}; once its envs are "
            f"repaired, resume it with: hotloop train --resume {name}"
        ) from error

    def _record(self) -> bool:
        """Emit the record of the iterations since the last one; return whether the run was rolled back instead."""
        session, every = self._session, self._config.track.statistics_every
        session.gather()
        counters = session.counters
        before, dropped = counters.iterations - counters.since.iterations, counters.since.dropped
        if dropped >= _REPEATED:
            self._roll_back(dropped)
            return True
        closely = every > 0 and counters.iterations // every != before // every
        report = session.record(with_statistics=closely)
        counters.control.record = timeless(report)
        self._emit("iteration", report)
        if dropped:
            self._report_trouble("not-finite", f"{dropped} non-finite gradient steps were skipped")
        for kind, what in self._alerts.look(report):
            self._report_trouble(kind, what)
        return False

    def _report_trouble(self, kind: str, what: str, **facts: Any) -> None:
        counters = self._session.counters
        report = TroubleReport(counters.iterations, counters.steps, what, counters.attempt, kind=kind, facts=facts)
        self._emit("trouble", report)

    def _roll_back(self, dropped: int) -> None:
        """Go back to the last good checkpoint, with new random keys and half the learning rate."""
        counters = self._session.counters
        attempt, spent = counters.attempt + 1, counters.seconds
        at = f"{dropped} gradient steps before step {counters.steps} were not finite"
        if attempt > _MOST_ATTEMPTS:
            batch = self._save_batch()
            raise TrainingError(
                f"{at}, after {_MOST_ATTEMPTS} rollbacks: the run cannot continue. "
                f"The last rollout is in {batch}; try a smaller ppo.learning_rate or ppo.reward_scale"
            )
        found = self._newest_fitting(attempt=attempt)
        # The time of the discarded iterations was spent all the same.
        self._session.counters.seconds = spent
        steps = 0 if found is None else found.steps
        best_replays.forget_after(self._folder.replays, steps)
        self._restore_alerts(steps)
        if self._ladder is not None:
            self._ladder.forget_after(steps)
        self._is_best = False
        rate = self._session.learning_rate
        what = f"{at}; the run continues from step {steps} with the learning rate halved to {rate:g}"
        counters = self._session.counters
        report = TroubleReport(counters.iterations, counters.steps, what, attempt, back_to=steps, kind="rolled-back")
        self._emit("trouble", report)
        # A run killed before its next checkpoint must not repeat the failed attempt.
        self._checkpoint()

    def _save_batch(self) -> Path:
        path = self._folder.path / "not-finite.safetensors"
        with self._disk():
            self._session.save_batch(path)
        return path

    def _evaluate(self, *, confirms: bool = False) -> None:
        """Evaluate once per iteration count; a request to end abandons the evaluation and raises `Interrupted`."""
        counters = self._session.counters
        if counters.evaluated_at != counters.iterations:
            with self._interrupts.raising():
                found = self._session.evaluate(self._show_evaluating)
            counters.evaluation, counters.evaluated_at = found, counters.iterations
            self._keep_best()
            if not math.isnan(found.mean) and (counters.best is None or found.mean > counters.best.mean):
                counters.best = found
                self._is_best = True
            report = EvaluationReport(counters.iterations, counters.steps, found, self._is_best, confirms)
            self._emit("evaluation", report)

    def _show_evaluating(self, done: int, episodes: int) -> None:
        self._interrupts.check()
        now = time.monotonic()
        if now - self._evaluating_shown >= PACE:
            self._evaluating_shown = now
            counters = self._session.counters
            report = EvaluationProgress(counters.iterations, counters.steps, done, episodes)
            self._recorder.evaluating(report)
            self._notify("evaluating", report)

    def _keep_best(self) -> None:
        """Keep the best episodes of all evaluations; there are none if the result was computed without playing."""
        if self._session.top is not None:
            folder, steps = self._folder.replays, self._session.counters.steps
            with self._disk():
                best_replays.keep(folder, self._session.top, run=self._folder.path.name, steps=steps, by="evaluation")

    def _look_whether_solved(self) -> None:
        """Check `train.until`: reached in training episodes, and confirmed by an evaluation."""
        counters, train = self._session.counters, self._config.train
        if (
            train.until is None
            or not self._control.finished
            or counters.episodes < max(counters.confirm_after, train.until_episodes)
            or not self._session.promises(train.until)
        ):
            return
        self._evaluate(confirms=True)
        assert counters.evaluation is not None
        counters.solved = counters.evaluation.mean >= train.until
        # Only again after as many new episodes: the same ones would give the same answer.
        counters.confirm_after = counters.episodes + train.until_episodes

    def _checkpoint(self) -> None:
        counters = self._session.counters
        start = time.perf_counter()
        path = self._folder.checkpoints / str(counters.steps)
        report = CheckpointReport(counters.iterations, counters.steps, path, self._is_best)
        with self._disk():
            # First the event, then the checkpoint: whichever a kill spares, resuming finds them in agreement.
            counters.journal_bytes = self._recorder.commit(report)
            try:
                self._session.save(self._folder.checkpoints, now())
            except OSError:
                with contextlib.suppress(OSError):
                    self._recorder.retract(report)
                raise
            checkpoints.prune(self._folder.path, self._config.train.keep_last)
        self._report_faults()
        self._saved_at = counters.iterations
        self._recovery.saved(counters, time.perf_counter() - start)
        self._is_best = False
        self._emit("checkpoint", report)

    def _save_recovery(self) -> None:
        """Save the state that a kill would lose; the next checkpoint replaces it, and no record mentions it."""
        start = time.perf_counter()
        with self._disk():
            self._session.counters.journal_bytes = self._recorder.sync()
            path = self._session.save(self._folder.recovery, now())
            checkpoints.keep_only(path)
        self._saved_at = None
        self._recovery.saved(self._session.counters, time.perf_counter() - start)

    def _finish(self, ending: Ending) -> Run:
        counters = self._session.counters
        if self._is_best or self._saved_at != counters.iterations:
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
        with self._disk():
            status = "interrupted" if ending == "interrupted" else "finished"
            self._folder.write_status(status, ended=ending, **self._facts())
        self._emit("end", run)
        return run

    def _facts(self) -> dict[str, Any]:
        counters = self._session.counters
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
        counters = self._session.counters
        steps, seconds = counters.steps + collected, counters.seconds + spent
        steps_before, seconds_before = self._shown_at
        if seconds - seconds_before < PACE:
            return
        self._shown_at = (steps, seconds)
        report = ProgressReport(
            steps=steps,
            iterations=counters.iterations,
            episodes=counters.episodes,
            seconds=seconds,
            steps_per_second=max(0.0, (steps - steps_before) / (seconds - seconds_before)),
            fraction=self._plan.fraction(counters),
            workers=self._session.workers(),
        )
        self._emit("progress", report)
        for notice in self._recorder.notices():
            self._report_trouble(notice.kind, notice.what, **notice.facts)

    def _emit(self, event: str, report: object) -> None:
        with self._disk():
            getattr(self._recorder, event)(report)
        if event == "end":
            self._report_last_notices()
        self._notify(event, report)

    def _notify(self, event: str, report: object) -> None:
        """Call every callback, record the values it logged, and note whether one wants the run to end."""
        for callback in self._callbacks:
            if getattr(callback, event)(report) is False:
                self._ended_by_callback = True
            if values := callback.take_logged():
                counters = self._session.counters
                with self._disk():
                    self._recorder.values(ValuesReport(counters.iterations, counters.steps, values))

    def _report_last_notices(self) -> None:
        """Report notices that came up while the journal was closed; only callbacks can still receive them."""
        counters = self._session.counters
        for notice in self._recorder.notices():
            report = TroubleReport(
                counters.iterations, counters.steps, notice.what, counters.attempt, kind=notice.kind, facts=notice.facts
            )
            for callback in self._callbacks:
                callback.trouble(report)

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        """Turn disk errors into a `TrainingError`; files written before are intact."""
        try:
            yield
        except OSError as error:
            saved = checkpoints.checkpoint_paths(self._folder.checkpoints)
            last = f"its checkpoint at step {saved[-1].name}" if saved else "its start"
            where = error.filename2 or error.filename or self._folder.path
            raise TrainingError(
                f"cannot write to {where}: {error.strerror or error}. Once that is settled the run can be "
                f"resumed from {last}: hotloop train --resume {self._folder.path.name}"
            ) from error
