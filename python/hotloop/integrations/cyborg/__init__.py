"""The native env `cage2` for code and recordings that were made for CybORG, the challenge's simulator."""

from hotloop.integrations.cyborg.agent import ChallengeAgent
from hotloop.integrations.cyborg.replay import Difference, replay
from hotloop.integrations.cyborg.vectorized import VectorizedCAGE2Envs

__all__ = ["ChallengeAgent", "Difference", "VectorizedCAGE2Envs", "replay"]
