"""Policies: their specs, and trained ones that act."""
