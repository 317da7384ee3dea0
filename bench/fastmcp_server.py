"""A FastMCP server, for :mod:`bench.gateway`: a file's text, and as many tools as are wanted.

    python fastmcp_server.py FOLDER TOOLS [PORT]

It speaks on its standard input and output, or over HTTP at ``/mcp`` of a port.

It does not import covalt-git, so that it can run in its own environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fastmcp import FastMCP

server = FastMCP("bench")
FOLDER = Path(sys.argv[1])


@server.tool
def read_file(path: str) -> dict[str, str]:
    """Read a text file of the workspace."""
    return {"path": path, "content": (FOLDER / path).read_text(encoding="utf-8")}


def echo(text: str) -> dict[str, str]:
    """Give back."""
    return {"text": text}


for number in range(int(sys.argv[2])):
    server.tool(echo, name=f"echo_{number}")

if __name__ == "__main__":
    if len(sys.argv) > 3:
        server.run(
            "http", show_banner=False, host="127.0.0.1", port=int(sys.argv[3]), log_level="error"
        )
    else:
        server.run(show_banner=False)
