"""Sections of the config. CLI, YAML files and the table in docs/training.md follow from the fields declared here."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationInfo,
    field_validator,
)

from hotloop.text import parse_number

# All of an evaluation's episodes are kept until its end.
MOST_EPISODES: Final = 10_000_000
Schedule = Literal["constant", "linear"]


def _check_convolution(layer: list[int]) -> list[int]:
    if min(layer[:3]) < 1:
        raise ValueError("channels, kernel size and stride of 1 or more")
    return layer


Convolution = Annotated[list[NonNegativeInt], Field(min_length=3, max_length=4), AfterValidator(_check_convolution)]
TableSchedule = Literal["constant", "linear", "exponential", "visits"]


class Part(BaseModel):
    """A section of the config: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _read_number(cls, value: object, info: ValidationInfo) -> object:
        """Accept `1e6`, `100k` and `2M` for numeric fields; YAML reads them as strings."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or not isinstance(value, str):
            return value
        kinds = get_args(field.annotation) or (field.annotation,)
        return parse_number(value) if {int, float} & set(kinds) else value


class EnvConfig(Part):
    """Environment, and its options: `env.map=8x8`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(
        description="Environment: a native env, `gymnasium:ID`, `module:factory`, ...; `hotloop envs` lists them."
    )

    @property
    def options(self) -> dict[str, Any]:
        """The env's options that were set."""
        return dict(self.model_extra or {})


class RunnerConfig(Part):
    """Number of envs, and the threads or processes that step them."""

    num_envs: int = Field(
        default=64, ge=1, description="Number of parallel envs; each contributes one row of the batch per agent."
    )
    num_threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads for rollouts and updates (default: one per core). Does not affect results.",
    )
    action_repeat: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Action repeat (frame skip) in ticks; rewards are summed. Not for envs with action masks.",
    )
    num_workers: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="Worker processes for Python envs (default: one per core); 0: in the trainer process, to debug.",
    )
    envs_per_worker: int | None = Field(
        default=None, ge=1, description="Envs per worker process; an alternative to runner.num_workers."
    )
    groups_per_worker: int = Field(
        default=2,
        ge=1,
        description="Groups that the envs of a worker are split into; a group is stepped and received as a unit.",
    )
    groups_per_batch: int = Field(
        default=1, ge=1, description="Groups of Python envs per inference batch; the first ones ready are taken."
    )
    step_timeout: float | None = Field(
        default=60.0,
        gt=0,
        description="Timeout in seconds for a step of a Python env; its worker is restarted after that. null: none.",
    )
    reset_timeout: float | None = Field(
        default=120.0,
        gt=0,
        description="Timeout in seconds for a reset of a Python env; its worker is restarted after that. null: none.",
    )
    memory_limit: int | None = Field(
        default=None,
        ge=16,
        description="Memory limit of a worker process in megabytes; it is restarted above that. null: none.",
    )
    restart_limit: int | None = Field(
        default=100,
        ge=0,
        description="Maximum number of faults of one worker per hour before the run fails. null: no limit.",
    )
    worker_cores: int | None = Field(
        default=None, ge=1, description="CPU cores that each worker process is pinned to. null: no pinning."
    )
    numa_node: int | None = Field(
        default=None, ge=0, description="NUMA node whose cores the worker processes use. null: any."
    )
    worker_python: str | None = Field(
        default=None,
        description="Python interpreter of the worker processes, where the envs are installed. null: this one.",
    )


class WrapConfig(Part):
    """Wrappers of Python envs with Gymnasium's interface, applied in the worker processes."""

    scale_actions: bool = Field(
        default=True,
        description="Whether continuous actions are scaled from [-1, 1] to the bounds of the action space.",
    )
    frame_stack: int | None = Field(
        default=None, ge=2, le=64, description="Number of recent observations that are stacked. null: no stacking."
    )
    frame_skip: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Frame skip (action repeat) in steps of the env; rewards are summed. Native: runner.action_repeat.",
    )
    max_frames: bool = Field(
        default=False, description="Whether frame_skip returns the maximum of the last two frames (against flicker)."
    )
    sticky_actions: float = Field(
        default=0.0, ge=0, lt=1, description="Probability that the previous action is repeated instead."
    )
    no_op_start: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Maximum number of random no-op steps (action 0) at the start of episodes.",
    )
    end_on_life_loss: bool = Field(
        default=False, description="Whether a lost life ends the episode (Atari); not in evaluations."
    )
    grey_scale: bool = Field(default=False, description="Whether RGB images are converted to grey scale.")
    resize: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="Size that images are resized to: [height, width]. null: no resizing."
    )
    clip_reward: float | None = Field(
        default=None,
        gt=0,
        description="Clipping range of the reward; not in evaluations. null: no clipping. See also ppo.reward_clip.",
    )
    time_limit: int | None = Field(
        default=None, ge=1, description="Maximum episode length in steps; longer episodes are truncated. null: none."
    )

    @property
    def in_use(self) -> dict[str, Any]:
        """The settings of wrappers that the envs get, without defaults."""
        return {key: value for key, value in self.model_dump(exclude_defaults=True).items() if key != "scale_actions"}

    @property
    def in_evaluations(self) -> dict[str, Any]:
        """The same for evaluations, whose returns are those of the env itself."""
        return {key: value for key, value in self.in_use.items() if key not in ("clip_reward", "end_on_life_loss")}


class PolicyConfig(Part):
    """Architecture of the policy network."""

    encoder: Literal["auto", "mlp", "cnn"] = Field(
        default="auto",
        description="Observation encoder; auto selects cnn for images (three axes, 16 pixels or more), else mlp.",
    )
    convolutions: list[Convolution] | None = Field(
        default=None,
        min_length=1,
        description="Convolutional layers of the cnn encoder: [channels, kernel size, stride] each, and as a fourth "
        "number the padding (default: half the kernel size). null: chosen by the size of the image.",
    )
    hidden: list[int] = Field(default=[64, 64], min_length=1, description="Sizes of the hidden layers.")
    activation: Literal["tanh", "relu", "silu", "gelu"] = Field(default="tanh", description="Activation function.")
    shared: bool = Field(default=True, description="Whether policy and value function share the hidden layers.")
    embedding: int = Field(
        default=0,
        ge=0,
        description="Embedding size for discrete observations; 0 encodes them as one-hot vectors.",
    )
    log_std: float = Field(
        default=0.0, ge=-10, le=5, description="Initial log standard deviation of continuous actions."
    )
    memory: Literal["none", "lstm", "gru"] = Field(
        default="none", description="Recurrent layer after the hidden layers."
    )
    memory_size: int = Field(default=128, ge=1, le=4096, description="Hidden size of each recurrent layer.")
    memory_layers: int = Field(default=1, ge=1, le=16, description="Number of stacked recurrent layers.")
    module: str | None = Field(
        default=None, description="Custom torch module, as `package.module:Class`; replaces the built-in network."
    )
    module_options: dict[str, Any] = Field(
        default={}, description="Keyword arguments of the custom module's constructor."
    )


class PPOConfig(Part):
    """Proximal policy optimization (PPO)."""

    horizon: int = Field(default=64, ge=1, description="Rollout length: steps per env and iteration.")
    epochs: int = Field(default=4, ge=1, description="Passes over the rollout per iteration.")
    minibatch_size: int = Field(default=1024, ge=1, description="Minibatch size in steps.")
    sequence_length: int | None = Field(
        default=None,
        ge=1,
        description="Length in steps of truncated backpropagation through time; divides the horizon (the default).",
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="Learning rate of Adam.")
    learning_rate_schedule: Schedule = Field(
        default="constant", description="Learning rate schedule; `linear` anneals to zero over train.steps."
    )
    gamma: float = Field(default=0.99, ge=0, le=1, description="Discount factor per step.")
    gae_lambda: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="Lambda of generalized advantage estimation: 0 is one-step TD, 1 is Monte Carlo.",
    )
    clip: float = Field(default=0.2, gt=0, description="Clipping range of the probability ratio.")
    value_clip: float | None = Field(
        default=None, gt=0, description="Clipping range of the value update. null: no clipping."
    )
    value_weight: float = Field(default=0.5, ge=0, description="Coefficient of the value loss.")
    entropy: float = Field(default=0.0, ge=0, description="Coefficient of the entropy bonus.")
    entropy_schedule: Schedule = Field(
        default="constant", description="Entropy coefficient schedule; `linear` anneals to zero over train.steps."
    )
    max_gradient_norm: float = Field(default=0.5, gt=0, description="Maximum gradient norm (clipping threshold).")
    normalize_advantages: bool = Field(
        default=True, description="Whether advantages are standardized (zero mean, unit variance) over each rollout."
    )
    target_kl: float | None = Field(
        default=None,
        gt=0,
        description="KL divergence above which the remaining epochs of an iteration are skipped. null: never.",
    )
    reward_scale: float = Field(
        default=1.0,
        gt=0,
        description="Factor that rewards are multiplied by; important if policy and value function share layers.",
    )
    reward_clip: float | None = Field(
        default=None, gt=0, description="Clipping range of the scaled reward. null: no clipping."
    )
    normalize_observations: bool = Field(
        default=False, description="Whether observations are standardized by running mean and variance."
    )
    normalize_rewards: bool = Field(
        default=False,
        description="Whether rewards are divided by the running standard deviation of the discounted return.",
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam's decay rate of the first moment.")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam's decay rate of the second moment.")
    epsilon: float = Field(default=1e-5, gt=0, description="Adam's epsilon, added to the denominator.")


class TabularConfig(Part):
    """Tabular learning. Schedules advance with each transition."""

    gamma: float = Field(default=0.99, ge=0, le=1, description="Discount factor per step.")
    learning_rate: float = Field(default=0.1, gt=0, le=1, description="Initial learning rate (alpha).")
    learning_rate_schedule: TableSchedule = Field(
        default="constant",
        description="Learning rate schedule, by transitions or by `visits` of the state-action pair.",
    )
    learning_rate_floor: float = Field(
        default=0.0, ge=0, le=1, description="Final learning rate of a linear schedule, lower bound of the others."
    )
    learning_rate_scale: float | None = Field(
        default=None,
        gt=0,
        description="Transitions until a linear schedule ends; half-life of the others, in transitions or visits.",
    )
    exploration: float = Field(default=0.3, ge=0, le=1, description="Initial exploration rate (epsilon).")
    exploration_schedule: TableSchedule = Field(
        default="constant", description="Exploration schedule, by transitions or by `visits` of the state."
    )
    exploration_floor: float = Field(
        default=0.0, ge=0, le=1, description="Final exploration rate of a linear schedule, lower bound of the others."
    )
    exploration_scale: float | None = Field(
        default=None,
        gt=0,
        description="Transitions until a linear schedule ends; half-life of the others, in transitions or visits.",
    )
    initial_value: float = Field(default=0.0, description="Initial Q-value.")
    batch_size: int = Field(default=1, ge=1, le=65536, description="Batch size in transitions per update and thread.")
    replay_size: int = Field(default=0, ge=0, description="Replay buffer size in transitions; 0 disables replay.")
    replay_updates: int = Field(default=1, ge=1, le=1024, description="Replayed transitions per new transition.")
    table: Literal["dense", "sparse", "torch"] = Field(
        default="dense",
        description="Table type: dense (all states), sparse (visited states only), or torch (array on a GPU).",
    )
    storage: Literal["f32", "f16"] = Field(
        default="f32", description="Number format of Q-values; f16 halves the memory."
    )
    device: str = Field(default="auto", description="Device of a torch table; auto selects the first GPU.")
    runtime: Literal["one", "shared", "private", "mpi"] = Field(
        default="one",
        description="Parallelism: one thread, threads sharing a table, threads with merged private tables, or MPI.",
    )
    iteration: int = Field(
        default=65536,
        ge=1,
        le=2**32,
        description="Steps per iteration over all threads; private tables are merged after each.",
    )
    staleness: int = Field(default=4, ge=1, description="Maximum lead of an MPI rank over the slowest one, in rounds.")


class TrainConfig(Part):
    """Stopping conditions, evaluations and checkpoints. A run stops at the first limit that it reaches."""

    algorithm: Literal["ppo", "q-learning", "sarsa", "expected-sarsa", "double-q-learning"] = Field(
        default="ppo", description="Algorithm: ppo trains a network; the others train a Q-table."
    )
    learner: Literal["auto", "native", "torch"] = Field(
        default="auto", description="PPO implementation; auto selects native wherever it supports the policy."
    )
    steps: int | None = Field(
        default=None, ge=1, description="Stop after this many env steps, summed over envs and agents."
    )
    episodes: int | None = Field(
        default=None, ge=1, description="Stop after this many finished episodes; checked at each record."
    )
    minutes: float | None = Field(default=None, gt=0, description="Stop after this many minutes of training.")
    until: float | None = Field(
        default=None,
        description="Stop once the mean return of recent episodes reaches this and an evaluation confirms it.",
    )
    until_episodes: int = Field(
        default=100, ge=1, le=4096, description="Number of recent episodes that train.until averages over."
    )
    seed: int = Field(default=0, ge=0, lt=2**64, description="Random seed.")
    evaluate_every: int = Field(default=0, ge=0, description="Evaluation interval in iterations; 0: only at the end.")
    evaluate_episodes: int = Field(
        default=100,
        ge=0,
        le=MOST_EPISODES,
        description="Episodes per evaluation, on separate envs; 0 disables evaluation.",
    )
    evaluate_env: dict[str, Any] = Field(
        default={}, description="Env options of evaluations that differ: `train.evaluate_env.KEY=VALUE`."
    )
    checkpoint_every: int = Field(
        default=1000, ge=0, description="Checkpoint interval in iterations; 0: only at the end."
    )
    keep_last: int = Field(
        default=3, ge=1, description="Number of recent checkpoints to keep, in addition to the best one."
    )


class TorchConfig(Part):
    """Device and precision of the torch learner; the native learner ignores this section."""

    device: str = Field(
        default="auto", description="Device: `cpu`, `cuda`, `cuda:1`, ...; auto selects a GPU if there is one."
    )
    memory_fraction: float | None = Field(
        default=None, gt=0, le=1, description="Fraction of the GPU's memory that may be allocated. null: all of it."
    )
    amp: Literal["off", "bfloat16", "float16"] = Field(
        default="off", description="Data type of automatic mixed precision, for GPUs."
    )
    compile: bool = Field(
        default=False,
        description="Whether to use torch.compile; falls back to eager mode, with a notice, if compilation fails.",
    )
    pin_memory: bool = Field(
        default=False, description="Whether rollouts are kept in pinned memory, for faster copies to the GPU."
    )
    inference_batch: int | None = Field(
        default=None, ge=1, description="Maximum number of rows per forward pass. null: no limit."
    )
    num_threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Intra-op threads of torch. null: chosen by the size of the work.",
    )
    interop_threads: int | None = Field(
        default=None, ge=1, le=1024, description="Inter-op threads of torch. null: torch's default."
    )
    accumulate: int = Field(
        default=1,
        ge=1,
        description="Gradient accumulation: number of parts that a minibatch is split into, to save memory.",
    )
    losses: list[str] = Field(
        default=[], description="Additional loss terms, as `package.module:function`; see docs/torch.md."
    )


class TrackConfig(Part):
    """Logging, at fixed iteration counts, so that repeated runs log the same."""

    interval: int = Field(default=16, ge=1, description="Logging interval in iterations.")
    statistics_every: int = Field(
        default=0,
        ge=0,
        description="Interval of gradient, weight and action statistics in iterations; 0 disables them.",
    )
    infos: list[str] = Field(
        default=[],
        description="Entries of a Python env's last `info` of an episode to log; `is_success` is logged anyway.",
    )
    trackers: list[Literal["tensorboard", "wandb", "mlflow"]] = Field(
        default=[], description="Additional trackers to log to: `tensorboard`, `wandb`, `mlflow`, where installed."
    )


class LinearSchedule(Part):
    """A value that moves linearly with the steps of the run."""

    key: str = Field(description="What moves: `env.OPTION` or `reward.TERM`.")
    start: int | float = Field(description="Initial value.")
    end: int | float = Field(description="Final value; a whole-number option is rounded.")
    begin_step: int = Field(default=0, ge=0, description="Step at which it begins to move.")
    end_step: int = Field(ge=1, description="Step at which it reaches its final value.")


class StageConfig(Part):
    """One stage of a curriculum."""

    name: str = Field(min_length=1, description="Name of the stage, for people.")
    env: dict[str, Any] = Field(default={}, description="Env options of this stage.")
    reward: dict[str, float] = Field(default={}, description="Weights of reward terms of this stage.")
    until: float | None = Field(
        default=None, description="Mean return of an evaluation that leads to the next stage; the last has none."
    )


class ControlConfig(Part):
    """Env options and reward weights that change while the run goes on."""

    schedules: list[LinearSchedule] = Field(
        default=[], description="Env options and reward weights that move linearly: key, start, end, end_step."
    )
    stages: list[StageConfig] = Field(
        default=[], description="Stages of a curriculum, each until an evaluation reaches its mean return."
    )


class OpponentsConfig(Part):
    """Frozen policies that play some of the seats."""

    policies: list[str] = Field(
        default=[], description="Runs or checkpoints whose policies play, by name or path; copied into the run."
    )
    seats: list[int] = Field(default=[], description="Seats that they play, from 0; the learner plays the others.")
    share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Fraction of the training envs with opponents; elsewhere the learner plays all seats. "
        "Evaluations always have opponents.",
    )


class Config(Part):
    """Complete config of a run."""

    env: EnvConfig
    wrap: WrapConfig = WrapConfig()
    runner: RunnerConfig = RunnerConfig()
    policy: PolicyConfig = PolicyConfig()
    ppo: PPOConfig = PPOConfig()
    tabular: TabularConfig = TabularConfig()
    train: TrainConfig = TrainConfig()
    torch: TorchConfig = TorchConfig()
    control: ControlConfig = ControlConfig()
    opponents: OpponentsConfig = OpponentsConfig()
    track: TrackConfig = TrackConfig()

    @property
    def evaluation_options(self) -> dict[str, Any]:
        """The env's options in evaluations."""
        return {**self.env.options, **self.train.evaluate_env}

    def to_yaml(self) -> str:
        """Return the config as YAML, including defaults."""
        import yaml

        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        return text


def dotted_names() -> list[str]:
    """Return every config key except env options, in order."""
    names = []
    for part, field in Config.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Part)
        names += [f"{part}.{name}" for name in kind.model_fields]
    return names
