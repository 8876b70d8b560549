"""What steps many envs at once and hands back batches of rows."""
