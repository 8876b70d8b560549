"""The CAGE-2 challenge: its network as the native env `cage2` has it."""
