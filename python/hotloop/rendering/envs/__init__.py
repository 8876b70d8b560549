"""How each env is shown: one file per env, found by the env's name."""
