"""Hyperparameter searches that are functions of their files: the same trials whatever slots, speed or interruptions."""
