"""Renderers of the native envs: one module per env, found by the env's name."""
