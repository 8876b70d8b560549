"""The torch learner: PPO on any device, with convolutions, users' modules and further loss terms."""
