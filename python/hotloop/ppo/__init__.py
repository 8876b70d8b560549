"""Proximal policy optimisation: learners, collecting and schedules."""
