"""Torch policies: the built-in networks, and users' own modules."""
