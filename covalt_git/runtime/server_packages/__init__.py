"""Packages that MCP servers are started from: resolved and installed once, in the sandbox, and read-only afterwards."""
