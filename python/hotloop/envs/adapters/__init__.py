"""Envs of other libraries as rows. Runs in worker processes: imports nothing of this package but what stands here."""
