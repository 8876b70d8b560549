"""Train Stable-Baselines3's PPO on the native cartpole.

Needs `pip install 'hotloop[sb3]'`. Run: python examples/sb3_cartpole.py [STEPS]
"""

import sys

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from hotloop.integrations.sb3 import SB3VecEnv


def main(steps: int = 50_000) -> float:
    """Trains, evaluates, and gives the mean return."""
    # The net is small: more threads would only wait for each other.
    torch.set_num_threads(1)
    envs = SB3VecEnv("cartpole", num_envs=16)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=256, learning_rate=1e-3, gae_lambda=0.9, device="cpu", seed=0)
    model.learn(steps)
    returns, _ = evaluate_policy(model, envs, n_eval_episodes=32, return_episode_rewards=True, warn=False)
    print(f"after {steps} steps: mean return {np.mean(returns):.0f} of at most 500")
    envs.close()
    return float(np.mean(returns))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
