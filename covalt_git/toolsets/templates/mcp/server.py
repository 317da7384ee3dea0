"""An MCP server with one tool. It needs no package: each message is a line of JSON.

The specification is at https://modelcontextprotocol.io; for larger servers, use its Python SDK.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

CURRENT_TIME = {
    "name": "current_time",
    "title": "Current Time",
    "description": "Return the current date and time.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "utc_offset": {
                "type": "number",
                "minimum": -12,
                "maximum": 14,
                "default": 0,
                "description": "Hours ahead of UTC.",
            }
        },
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


def current_time(utc_offset: float = 0) -> str:
    """Return the time in the zone that is so many hours ahead of UTC."""
    zone = timezone(timedelta(hours=utc_offset))
    return datetime.now(zone).isoformat(timespec="seconds")


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "my-toolset", "version": "0.1.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [CURRENT_TIME]}
    if method == "tools/call" and params["name"] == "current_time":
        text = current_time(**params.get("arguments", {}))
        return {"content": [{"type": "text", "text": text}]}
    raise LookupError(f"unknown method or tool: {method}")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:  # a notification gets no answer
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        answer["result"] = result_of(message["method"], message.get("params", {}))
    except LookupError as error:
        answer["error"] = {"code": -32601, "message": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
