"""Render plans of results, and HTML pages with their data; without I/O."""
