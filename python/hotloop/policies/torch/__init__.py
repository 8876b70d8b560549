"""Policies built of torch: the described ones, and modules of users."""
