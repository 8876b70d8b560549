"""Conveniences around the native env `cage2`, for code and recordings that were made for the real simulator."""

from hotloop.envs.cage2.replay import Difference, replay

__all__ = ["Difference", "replay"]
