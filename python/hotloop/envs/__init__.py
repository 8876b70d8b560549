"""Envs: the registry of native ones, specs, adapters for other libraries, and compiled envs."""
