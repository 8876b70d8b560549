"""The HTTP server: an API over one store, live events, Prometheus metrics and the built dashboard."""
