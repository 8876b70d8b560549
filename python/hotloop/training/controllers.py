"""The controllers that a config can ask for: linear schedules, and stages that are passed one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.errors import unknown_key
from hotloop.errors import ConfigError
from hotloop.training.control import Controller, Decision, Situation

if TYPE_CHECKING:
    from hotloop.config import Config
    from hotloop.config.models import LinearSchedule, StageConfig
    from hotloop.training.sources import Source

# A schedule moves at most this often, so that many iterations can be made in one native call.
_MOVES: Final = 32


class Schedule:
    """Moves one env option or reward weight linearly from one value to another."""

    def __init__(self, config: LinearSchedule, steps_per_iteration: int, *, whole: bool) -> None:
        self.name = config.key
        self._config = config
        self._part, _, self._key = config.key.partition(".")
        self._whole = whole
        iterations = math.ceil((config.end_step - config.begin_step) / steps_per_iteration)
        self._every = max(1, math.ceil(iterations / _MOVES))
        self._value: float | None = None
        self._over = False

    @property
    def finished(self) -> bool:
        """Whether the last value is set."""
        return self._over

    def next_decision(self, iteration: int) -> int | None:
        """Ask at equal distances, until the end is reached."""
        return None if self._over else (iteration // self._every + 1) * self._every

    def decide(self, situation: Situation) -> Decision | None:
        """Return the value at this step, if it is another than before."""
        config = self._config
        way = (situation.steps - config.begin_step) / (config.end_step - config.begin_step)
        self._over = way >= 1.0
        value = config.start + (config.end - config.start) * min(1.0, max(0.0, way))
        if self._over:
            value = config.end
        if self._whole:
            value = round(value)
        if value == self._value:
            return None
        self._value = value
        changed, what = {self._key: value}, f"{self.name} = {value:g}"
        return Decision(env=changed, what=what) if self._part == "env" else Decision(reward=changed, what=what)

    def state(self) -> dict[str, Any]:
        """Return the value that is set, and whether it is the last."""
        return {"value": self._value, "over": self._over}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self._value, self._over = state["value"], state["over"]


class Stages:
    """Promotes the run to the next stage when an evaluation on the current one reaches its `until`."""

    name = "stages"

    def __init__(
        self, stages: list[StageConfig], every: int, env: Mapping[str, Any], reward: Mapping[str, float]
    ) -> None:
        self._stages = stages
        self._every = every
        # Options that a stage does not name return to the config's values, whatever the stage before set.
        self._env = {key: env[key] for stage in stages for key in stage.env}
        self._reward = {key: reward[key] for stage in stages for key in stage.reward}
        self._stage = 0

    @property
    def finished(self) -> bool:
        """Whether the last stage is reached."""
        return self._stage == len(self._stages) - 1

    def next_decision(self, iteration: int) -> int | None:
        """Ask after every regular evaluation, until the last stage is reached."""
        return None if self.finished else (iteration // self._every + 1) * self._every

    def decide(self, situation: Situation) -> Decision | None:
        """Return the options of the first stage at the start, of the next one after a promotion."""
        if situation.iterations == 0:
            return self._enter()
        until, found = self._stages[self._stage].until, situation.evaluation
        if situation.evaluated_at != situation.iterations or found is None or until is None or not found.mean >= until:
            return None
        self._stage += 1
        return self._enter(f": mean return {found.mean:.6g} reached {until:g}")

    def _enter(self, why: str = "") -> Decision:
        stage = self._stages[self._stage]
        what = f"stage {stage.name} ({self._stage + 1} of {len(self._stages)}){why}"
        return Decision(env={**self._env, **stage.env}, reward={**self._reward, **stage.reward}, what=what)

    def state(self) -> dict[str, Any]:
        """Return the index of the stage."""
        return {"stage": self._stage}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self._stage = state["stage"]


def controllers_from(config: Config, source: Source, steps_per_iteration: int) -> list[Controller]:
    """Return the controllers that a config asks for; a `ConfigError` names a key that cannot be controlled."""
    control = config.control
    _check(config, source)
    made: list[Controller] = []
    if control.stages:
        options, weights = source.options, source.reward_weights
        made.append(Stages(control.stages, config.train.evaluate_every, options, weights))
    made += [
        Schedule(schedule, steps_per_iteration, whole=_stays_whole(schedule, source)) for schedule in control.schedules
    ]
    return made


def _stays_whole(schedule: LinearSchedule, source: Source) -> bool:
    part, _, key = schedule.key.partition(".")
    if part == "reward" or isinstance(source.options.get(key), float):
        return False
    return isinstance(schedule.start, int) and isinstance(schedule.end, int)


def _check(config: Config, source: Source) -> None:
    control = config.control
    for number, schedule in enumerate(control.schedules):
        where, (part, dot, key) = f"control.schedules[{number}]", schedule.key.partition(".")
        if not dot or part not in ("env", "reward"):
            raise ConfigError(f"{where}.key is {schedule.key!r}: expected env.OPTION or reward.TERM")
        if schedule.end_step <= schedule.begin_step:
            raise ConfigError(
                f"{where} ends at step {schedule.end_step}, but begins at step {schedule.begin_step}: raise end_step"
            )
        for value in (schedule.start, schedule.end):
            _check_value(source, where, part, {key: value})
    keys = [schedule.key for schedule in control.schedules]
    if len(set(keys)) < len(keys):
        raise ConfigError(f"control.schedules has {max(keys, key=keys.count)} twice: leave one of them out")
    for number, stage in enumerate(control.stages):
        where = f"control.stages[{number}]"
        _check_value(source, where, "env", stage.env)
        _check_value(source, where, "reward", stage.reward)
        if stage.until is None and number < len(control.stages) - 1:
            raise ConfigError(f"{where} ({stage.name}) has no until, so the stages after it are never reached: set it")
        for key in (*(f"env.{key}" for key in stage.env), *(f"reward.{key}" for key in stage.reward)):
            if key in keys:
                raise ConfigError(f"{where} and control.schedules both set {key}: leave one of them out")
    if len(control.stages) > 1 and not (config.train.evaluate_every and config.train.evaluate_episodes):
        raise ConfigError(
            "control.stages are passed by evaluations: set train.evaluate_every and train.evaluate_episodes above 0"
        )
    named = {key for stage in control.stages for key in stage.env}
    if missing := next((key for key in named if key not in source.options), None):
        raise ConfigError(
            f"control.stages sets env.{missing}, which has no value in the config to go back to: set env.{missing}"
        )


def _check_value(source: Source, where: str, part: str, values: Mapping[str, Any]) -> None:
    """Raise unless the envs take these options or reward weights between iterations."""
    if part == "reward":
        known = source.reward_weights
        for key in values:
            if key not in known:
                raise ConfigError(f"{where}: {unknown_key(f'reward.{key}', [f'reward.{name}' for name in known])}")
        return
    try:
        source.check_options(values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None
