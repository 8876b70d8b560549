"""Records of runs: a journal in each run's folder, and one store over all runs that can be queried."""
