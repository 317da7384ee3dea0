"""Our MCP server for agents: the tools of a project, in the protocol's two eras.

Up to 2025-11-25 a client begins with a handshake; since 2026-07-28 every request stands for itself.
The SDK speaks both, so that what is here says what there is and makes the calls.
"""
