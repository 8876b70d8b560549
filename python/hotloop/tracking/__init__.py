"""What stays of runs: a journal in each run's folder, and one store over all of them that can be searched."""
