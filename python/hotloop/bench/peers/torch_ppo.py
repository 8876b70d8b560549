"""A plain PPO loop in PyTorch over our own runner: careful hand-written code with almost free envs.

Truncated episodes count as ended, as in most such scripts, which saves it the values of their final observations.
"""

import itertools
import math
import sys
from collections import deque
from contextlib import ExitStack
from typing import Any

import hotloop
from hotloop.bench.measure import Contender
from hotloop.bench.peers import Entry, Peer
from hotloop.bench.ppo import PpoCase, use_torch_threads


class TorchPpo:
    """Policy, optimiser, envs and one rollout's tensors."""

    def __init__(self, case: PpoCase, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        self.case = case
        envs: Any = hotloop.make_vec(case.env, num_envs=case.num_envs, autoreset_mode="same_step")
        self.envs = envs
        features = envs.single_observation_space.shape[0]
        self.net = _network((features, *case.hidden, int(envs.single_action_space.n) + 1))
        self.adam = torch.optim.Adam(self.net.parameters(), case.learning_rate, eps=1e-5, foreach=True)
        shape = (case.horizon, case.num_envs)
        self.obs = torch.zeros(*shape, features)
        self.action = torch.zeros(shape, dtype=torch.int64)
        self.old, self.value, self.reward, self.done = (torch.zeros(shape) for _ in range(4))
        self.now = torch.from_numpy(self.envs.reset(seed=seed)[0])

    def collect(self) -> Any:
        """Collect a rollout; return the values of the observations after it."""
        import torch

        with torch.no_grad():
            for slot in range(self.case.horizon):
                out = self.net(self.now)
                logits = out[:, :-1].log_softmax(1)
                # The largest of logits plus Gumbel noise is a sample.
                action = (logits - torch.empty_like(logits).exponential_().log()).argmax(1)
                self.obs[slot], self.action[slot], self.value[slot] = self.now, action, out[:, -1]
                self.old[slot] = logits.gather(1, action[:, None])[:, 0]
                obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
                self.reward[slot] = torch.from_numpy(reward)
                self.done[slot] = torch.from_numpy(terminated | truncated)
                self.now = torch.from_numpy(obs)
            return self.net(self.now)[:, -1]

    def learn(self, next_value: Any) -> None:
        """Advantages, then every epoch's minibatches."""
        import torch

        case, advantage = self.case, torch.zeros_like(self.reward)
        chain = torch.zeros_like(next_value)
        for slot in reversed(range(case.horizon)):
            alive = case.gamma * (1 - self.done[slot])
            delta = case.reward_scale * self.reward[slot] + alive * next_value - self.value[slot]
            chain = delta + case.gae_lambda * alive * chain
            advantage[slot], next_value = chain, self.value[slot]
        target = (advantage + self.value).flatten()
        advantage = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).flatten()
        obs, action, old = self.obs.flatten(0, 1), self.action.flatten(), self.old.flatten()
        for _ in range(case.epochs):
            for rows in torch.randperm(case.steps).chunk(case.minibatches):
                out = self.net(obs[rows])
                logits = out[:, :-1].log_softmax(1)
                ratio = (logits.gather(1, action[rows, None])[:, 0] - old[rows]).exp()
                gain = torch.minimum(
                    ratio * advantage[rows], ratio.clamp(1 - case.clip, 1 + case.clip) * advantage[rows]
                )
                entropy = -(logits.exp() * logits).sum(1).mean()
                loss = 0.25 * (out[:, -1] - target[rows]).square().mean() - gain.mean() - case.entropy * entropy
                self.adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), case.max_gradient_norm)
                self.adam.step()

    def iterate(self, _: object = None) -> None:
        """One iteration."""
        # Set each time: another peer in this process may change it.
        use_torch_threads(self.case.minibatch_size)
        self.learn(self.collect())


def _network(sizes: tuple[int, ...]) -> Any:
    """A shared trunk with one head that gives both logits and value."""
    import torch

    layers: list[Any] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.Tanh()]
        torch.nn.init.orthogonal_(layers[-2].weight, math.sqrt(2))
        torch.nn.init.zeros_(layers[-2].bias)
    with torch.no_grad():
        layers[-2].weight[:-1] *= 0.01 / math.sqrt(2)
        layers[-2].weight[-1] /= math.sqrt(2)
    return torch.nn.Sequential(*layers[:-1])


def _enter(case: PpoCase, stack: ExitStack) -> list[Entry]:
    if case.env != "cartpole" or case.separate or case.memory != "none":
        return []
    loop = TorchPpo(case, seed=0)
    stack.callback(loop.envs.close)
    return [Entry(Contender("torch loop", loop.iterate, [None], work_per_pass=case.steps), case.num_envs)]


def solve(case: PpoCase, seed: int) -> int:
    """Train until the last 100 episodes have a mean of 475; return the number of steps."""
    loop = TorchPpo(case, seed)
    last: deque[float] = deque(maxlen=100)
    steps = 0
    while True:
        loop.iterate()
        steps += case.steps
        last.extend(loop.envs.episodes().recent.returns)
        if len(last) == 100 and sum(last) >= 475 * 100:
            return steps


PEER = Peer("torch", "torch loop", "as many envs, ours, in a plain PyTorch loop", "torch", _enter)

if __name__ == "__main__":
    from hotloop.bench.ppo import SOLVE

    print(solve(SOLVE, seed=int(sys.argv[1])))
