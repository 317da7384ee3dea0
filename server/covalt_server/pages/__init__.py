"""Pages of the server."""
