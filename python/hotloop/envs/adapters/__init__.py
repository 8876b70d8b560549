"""Adapters of other libraries' envs. They run in worker processes, and import only what a foreign interpreter has."""
