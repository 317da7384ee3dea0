"""Live connections to MCP servers: started at the first use, stopped when idle, restarted after a failure.

One thread runs the event loop, and one task owns each connection for its lifetime.  Any thread may use a
connection; it waits for the result.  Callers check access, and resolve all references of a
:class:`~covalt_git.connections.definition.Definition`.
"""

import logging

# Without a handler, Python prints warnings of the SDK to stderr; our errors report the same failures.
logging.getLogger("mcp").addHandler(logging.NullHandler())
