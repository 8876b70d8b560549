"""Config of tabular learning: checks, spaces as tables see them, and settings as the core takes them."""
