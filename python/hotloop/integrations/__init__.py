"""Adapters that present envs and policies through the interfaces of other libraries."""
