"""Tables of values: Q-learning and its relatives, on one thread, many threads, or many nodes."""
