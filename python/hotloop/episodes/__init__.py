"""Single episodes: played step by step, saved as replays and replayed exactly."""
