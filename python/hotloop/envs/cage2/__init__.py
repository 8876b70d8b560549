"""Conveniences around the native env `cage2`, for code and recordings that were made for the real simulator."""

from hotloop.envs.cage2.agent import ChallengeAgent
from hotloop.envs.cage2.replay import Difference, replay
from hotloop.envs.cage2.vectorized import VectorizedCAGE2Envs

__all__ = ["ChallengeAgent", "Difference", "VectorizedCAGE2Envs", "replay"]
