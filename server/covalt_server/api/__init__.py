"""HTTP API: the operations, and event streams of calls."""
