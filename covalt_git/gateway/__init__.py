"""MCP server for agents: the tools of a project, in both protocol versions.

Up to 2025-11-25 a client begins with a handshake and has a session; since 2026-07-28 requests are stateless.
The SDK implements both protocols; this package lists tools, resources and prompts, and makes the calls.
"""
