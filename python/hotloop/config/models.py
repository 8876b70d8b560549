"""The config's parts. Each field says what it does where it is declared; all else follows from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Schedule = Literal["constant", "linear"]
Convolution = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=3, max_length=3)]
TableSchedule = Literal["constant", "linear", "exponential", "visits"]


class Part(BaseModel):
    """One part of the config: unknown keys are errors, and nothing changes after it was checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EnvConfig(Part):
    """Which env, and its own options beside the name: `env.map=8x8`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(description="A native env, `gymnasium:ID`, `module:factory`, ...; `hotloop envs` lists them.")

    @property
    def options(self) -> dict[str, Any]:
        """The env's options that differ from their defaults."""
        return dict(self.model_extra or {})


class RunnerConfig(Part):
    """How many envs are stepped, and by what."""

    num_envs: int = Field(default=64, ge=1, description="Envs stepped at once; each adds a row per agent.")
    num_threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads that collect and learn; left out: one per core. Results never depend on it.",
    )
    action_repeat: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Ticks that a step spans, repeating the action and adding up rewards; for envs that forbid none.",
    )
    num_workers: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="Processes that step Python envs; left out: one per core. 0 steps them in the trainer's, to debug.",
    )
    envs_per_worker: int | None = Field(
        default=None, ge=1, description="Envs of each process, in place of runner.num_workers."
    )
    groups_per_worker: int = Field(
        default=2, ge=1, description="Groups that a process's envs are cut into; a group moves as a unit."
    )
    groups_per_batch: int = Field(
        default=1, ge=1, description="Groups of Python envs that are waited for; the first to be ready are taken."
    )
    step_timeout: float | None = Field(
        default=60.0, gt=0, description="Seconds that a Python env's step may take before its process is replaced."
    )
    reset_timeout: float | None = Field(
        default=120.0, gt=0, description="Seconds that a Python env's reset may take before its process is replaced."
    )
    memory_limit: int | None = Field(
        default=None, ge=16, description="Megabytes that a process may hold before it is replaced; left out: any."
    )
    restart_limit: int | None = Field(
        default=100, ge=0, description="Faults of one process within an hour that the run survives; null: any number."
    )
    worker_cores: int | None = Field(
        default=None, ge=1, description="Cores that each process is tied to; left out: the system decides."
    )
    numa_node: int | None = Field(default=None, ge=0, description="The NUMA node whose cores the processes use.")
    worker_python: str | None = Field(
        default=None, description="The interpreter of the processes, if another than this one has what envs need."
    )


class PolicyConfig(Part):
    """The policy, described by data, or a torch module of your own."""

    encoder: Literal["auto", "mlp", "cnn"] = Field(
        default="auto",
        description="What looks at observations first; auto takes cnn for pictures (three axes, 16 pixels or more).",
    )
    convolutions: list[Convolution] = Field(
        default=[[16, 3, 1], [32, 3, 2]],
        min_length=1,
        description="Layers of the cnn before the dense ones: channels, kernel and stride of each.",
    )
    hidden: list[int] = Field(default=[64, 64], min_length=1, description="Sizes of the dense layers.")
    activation: Literal["tanh", "relu", "silu", "gelu"] = Field(
        default="tanh", description="What stands between the layers."
    )
    shared: bool = Field(default=True, description="Whether policy and value share the dense layers.")
    embedding: int = Field(
        default=0,
        ge=0,
        description="Length of the vector that stands for a discrete observation; 0 takes it as one-hot.",
    )
    log_std: float = Field(
        default=0.0, ge=-10, le=5, description="Logarithm of the first standard deviation of continuous actions."
    )
    memory: Literal["none", "lstm", "gru"] = Field(
        default="none", description="What the policy remembers with from step to step, after its dense layers."
    )
    memory_size: int = Field(default=128, ge=1, le=4096, description="Units of each layer of the memory.")
    memory_layers: int = Field(default=1, ge=1, le=16, description="Layers of the memory, one on top of the other.")
    module: str | None = Field(
        default=None, description="A torch module of your own, as `package.module:Class`, in place of all of these."
    )
    module_options: dict[str, Any] = Field(default={}, description="Keyword arguments for its constructor.")


class PPOConfig(Part):
    """Proximal policy optimisation."""

    horizon: int = Field(default=64, ge=1, description="Steps of every row per iteration.")
    epochs: int = Field(default=4, ge=1, description="Passes over the rollout per iteration.")
    minibatch_size: int = Field(default=1024, ge=1, description="Steps per gradient step.")
    sequence_length: int | None = Field(
        default=None,
        ge=1,
        description="Steps that gradients go back through the memory; divides the horizon. Left out: all of it.",
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="Step size of Adam.")
    learning_rate_schedule: Schedule = Field(
        default="constant", description="`linear` lets the learning rate fall to zero over train.steps."
    )
    gamma: float = Field(default=0.99, ge=0, le=1, description="Discount per step.")
    gae_lambda: float = Field(
        default=0.95, ge=0, le=1, description="How far advantages look ahead, from 0 (one step) to 1."
    )
    clip: float = Field(default=0.2, gt=0, description="How far the ratio of probabilities may move from one.")
    value_clip: float | None = Field(
        default=None, gt=0, description="How far a value may move per iteration; left out: without limit."
    )
    value_weight: float = Field(default=0.5, ge=0, description="Weight of the value's loss.")
    entropy: float = Field(default=0.0, ge=0, description="Weight of the entropy bonus.")
    entropy_schedule: Schedule = Field(
        default="constant", description="`linear` lets the bonus fall to zero over train.steps."
    )
    max_gradient_norm: float = Field(default=0.5, gt=0, description="Longer gradients are shortened to this norm.")
    normalize_advantages: bool = Field(
        default=True, description="Whether advantages are brought to mean 0 and deviation 1 over the rollout."
    )
    target_kl: float | None = Field(
        default=None, gt=0, description="Epochs end early once the policy has moved this far; left out: never."
    )
    reward_scale: float = Field(
        default=1.0, gt=0, description="Rewards are multiplied with this first; with shared layers it is decisive."
    )
    reward_clip: float | None = Field(
        default=None, gt=0, description="The largest scaled reward in size; left out: without limit."
    )
    normalize_observations: bool = Field(
        default=False, description="Whether observations are brought to mean 0 and deviation 1 by running statistics."
    )
    normalize_rewards: bool = Field(
        default=False, description="Whether rewards are divided by the running deviation of the discounted return."
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam's decay of the mean gradient.")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam's decay of the mean squared gradient.")
    epsilon: float = Field(default=1e-5, gt=0, description="Adam's smallest divisor.")


class TabularConfig(Part):
    """Learning a table; schedules go by transition."""

    gamma: float = Field(default=0.99, ge=0, le=1, description="Discount per step.")
    learning_rate: float = Field(
        default=0.1, gt=0, le=1, description="How far a value moves to what a transition says; at the start."
    )
    learning_rate_schedule: TableSchedule = Field(
        default="constant", description="`constant`, `linear`, `exponential`, or `visits` of the state and action."
    )
    learning_rate_floor: float = Field(default=0.0, ge=0, le=1, description="What it ends with, or never falls below.")
    learning_rate_scale: float | None = Field(
        default=None, gt=0, description="Transitions to the end of a line or to a half, or visits to a half."
    )
    exploration: float = Field(default=0.3, ge=0, le=1, description="Chance of an action that is drawn; at the start.")
    exploration_schedule: TableSchedule = Field(
        default="constant", description="`constant`, `linear`, `exponential`, or `visits` of the state."
    )
    exploration_floor: float = Field(default=0.0, ge=0, le=1, description="What it ends with, or never falls below.")
    exploration_scale: float | None = Field(
        default=None, gt=0, description="Transitions to the end of a line or to a half, or visits to a half."
    )
    initial_value: float = Field(default=0.0, description="What values are before anything was learned.")
    batch_size: int = Field(
        default=1, ge=1, le=65536, description="Transitions that a table learns from at once, per env loop."
    )
    replay_size: int = Field(default=0, ge=0, description="Past transitions kept to learn from again; 0: none.")
    replay_updates: int = Field(default=1, ge=1, le=1024, description="Past transitions learned from after each new.")
    table: Literal["dense", "sparse", "torch"] = Field(
        default="dense",
        description="A row for every state, for those that were seen, or an array on a GPU.",
    )
    storage: Literal["f32", "f16"] = Field(default="f32", description="How values are kept; f16 takes half the memory.")
    device: str = Field(default="auto", description="Where a table of kind torch lies; auto: the first GPU.")
    runtime: Literal["one", "shared", "private", "mpi"] = Field(
        default="one",
        description="One thread, threads on one table, threads with tables that are merged, or MPI ranks.",
    )
    iteration: int = Field(
        default=65536, ge=1, le=2**32, description="Steps per iteration of all threads; private tables merge after it."
    )
    staleness: int = Field(
        default=4, ge=1, description="Rounds that an MPI rank may be ahead of the slowest before it waits."
    )


class TrainConfig(Part):
    """How long to train, and what happens on the way. A run ends at the first limit it reaches."""

    algorithm: Literal["ppo", "q-learning", "sarsa", "expected-sarsa", "double-q-learning"] = Field(
        default="ppo", description="What learns: ppo a network; q-learning, sarsa and their relatives a table."
    )
    learner: Literal["auto", "native", "torch"] = Field(
        default="auto", description="Which implementation of it; auto takes native wherever it can serve."
    )
    steps: int | None = Field(default=None, ge=1, description="End after this many steps (decisions of rows).")
    episodes: int | None = Field(
        default=None, ge=1, description="End after this many finished episodes, looked at once per record."
    )
    minutes: float | None = Field(default=None, gt=0, description="End after this many minutes of training.")
    until: float | None = Field(
        default=None,
        description="End when the mean return of the last episodes reaches this and an evaluation confirms it.",
    )
    until_episodes: int = Field(default=100, ge=1, le=4096, description="How many finished episodes `until` looks at.")
    seed: int = Field(default=0, ge=0, lt=2**64, description="Decides everything random.")
    evaluate_every: int = Field(
        default=0, ge=0, description="Iterations from an evaluation to the next; 0: only at the end."
    )
    evaluate_episodes: int = Field(
        default=100, ge=0, description="Episodes of an evaluation, on envs of its own; 0: no evaluation at all."
    )
    checkpoint_every: int = Field(
        default=1000, ge=0, description="Iterations from a checkpoint to the next; 0: only at the end."
    )
    keep_last: int = Field(default=3, ge=1, description="How many checkpoints are kept, beside the best.")


class TorchConfig(Part):
    """What the torch learner runs on; nothing here concerns the native one."""

    device: str = Field(default="auto", description="`cpu`, `cuda`, `cuda:1`, ...; auto takes a GPU if there is one.")
    memory_fraction: float | None = Field(
        default=None, gt=0, le=1, description="The part of a GPU's memory that may be used; left out: all of it."
    )
    amp: Literal["off", "bfloat16", "float16"] = Field(
        default="off", description="Mixed precision: the type that networks are computed in. For GPUs."
    )
    compile: bool = Field(
        default=False,
        description="Whether the policy is compiled; if that fails, it runs as it is, and the run says why.",
    )
    pin_memory: bool = Field(
        default=False, description="Whether rollouts lie in pinned memory, from where a GPU copies faster."
    )
    inference_batch: int | None = Field(
        default=None, ge=1, description="Most rows that go through the policy at once; left out: all."
    )
    num_threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads of torch's operations; left out: as many as the work is worth.",
    )
    interop_threads: int | None = Field(
        default=None, ge=1, le=1024, description="Threads between torch's operations; left out: torch decides."
    )
    accumulate: int = Field(
        default=1, ge=1, description="Parts that a minibatch's gradient is summed up from, to save memory."
    )
    losses: list[str] = Field(
        default=[], description="Further loss terms, as `package.module:function`; see docs/torch.md."
    )


class TrackConfig(Part):
    """What is recorded, by fixed counts of iterations, so that it is the same in every repetition."""

    interval: int = Field(default=16, ge=1, description="Iterations per record.")
    statistics_every: int = Field(
        default=0,
        ge=0,
        description="Iterations from one set of statistics of gradients, weights and actions to the next; 0: none.",
    )
    trackers: list[Literal["tensorboard", "wandb", "mlflow"]] = Field(
        default=[], description="Who is told besides the store: `tensorboard`, `wandb`, `mlflow`, where installed."
    )


class Config(Part):
    """All that a run is told."""

    env: EnvConfig
    runner: RunnerConfig = RunnerConfig()
    policy: PolicyConfig = PolicyConfig()
    ppo: PPOConfig = PPOConfig()
    tabular: TabularConfig = TabularConfig()
    train: TrainConfig = TrainConfig()
    torch: TorchConfig = TorchConfig()
    track: TrackConfig = TrackConfig()

    def to_yaml(self) -> str:
        """The whole config as YAML, every default spelled out."""
        import yaml

        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        return text


def dotted_names() -> list[str]:
    """Every key of the config but the options of envs, in order."""
    names = []
    for part, field in Config.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Part)
        names += [f"{part}.{name}" for name in kind.model_fields]
    return names
