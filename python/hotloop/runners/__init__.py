"""Runners: many envs stepped together, by threads or worker processes, with results in batches of rows."""
