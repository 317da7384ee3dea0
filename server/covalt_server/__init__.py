"""The preview server's package: its pages and its HTTP API live here, and nothing else does."""
