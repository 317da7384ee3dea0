"""Live connections to MCP servers: started when they are first used, watched, stopped, started again.

One thread runs the event loop, and one task owns each connection from its beginning to its end.  Whoever
uses one does so from any thread and waits.  What may be connected to is for callers to decide: here a
:class:`~covalt_git.connections.definition.Definition` has every reference resolved.
"""

import logging

# What the SDK logs is for whoever wants to see it: errors are told in words where they matter.
logging.getLogger("mcp").addHandler(logging.NullHandler())
