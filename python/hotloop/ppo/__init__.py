"""Proximal policy optimisation: the learners and what they are told."""
