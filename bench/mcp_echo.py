"""One tool over MCP's low-level server and stdio, with which bench/tool_calls.py compares.

    PYTHON -m bench.mcp_echo            makes a call for each line that comes, and prints its seconds
    PYTHON -m bench.mcp_echo serve      is the server

The interpreter needs ``mcp`` 2 only.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server import Server
from mcp.server.stdio import stdio_server

ECHO = types.Tool(
    name="echo",
    description="gives back",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
)


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[ECHO])


async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
    text = (asked.arguments or {})["text"]
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content={"text": text}
    )


async def serve() -> None:
    server = Server("echo", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def call_for_each_line() -> None:
    argv = ["-m", "bench.mcp_echo", "serve"]
    here = str(Path(__file__).parents[1])
    parameters = StdioServerParameters(command=sys.executable, args=argv, cwd=here)
    async with Client(stdio_client(parameters)) as client:
        for line in sys.stdin:
            started = time.perf_counter()
            await client.call_tool("echo", {"text": line})
            print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    anyio.run(serve if sys.argv[1:] == ["serve"] else call_for_each_line)
