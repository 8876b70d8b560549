"""What a policy is, in data, and how one that was learned acts."""
