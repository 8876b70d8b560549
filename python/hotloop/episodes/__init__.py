"""Single episodes, move by move: played, kept as replays, and shown again exactly."""
