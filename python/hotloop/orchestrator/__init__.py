"""Jobs: a durable queue in the store, and the process that runs it on one machine."""
