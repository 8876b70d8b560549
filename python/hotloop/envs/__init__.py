"""What can be played: the registry of native envs, and their faces in Gymnasium and Stable-Baselines3."""
