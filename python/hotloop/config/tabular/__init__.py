"""Config of tabular learning: checks, spaces, and settings for the core."""
