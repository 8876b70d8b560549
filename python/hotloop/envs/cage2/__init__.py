"""CAGE-2: the scenario of the native env `cage2`, for Python code."""
