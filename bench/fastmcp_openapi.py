"""FastMCP's tools of an OpenAPI document, for :mod:`bench.sources`.

    python fastmcp_openapi.py FILE        # seconds and bytes of the definitions of a document
    python fastmcp_openapi.py --requests  # what it sends for each case of openapi_requests.py

It prints JSON.  It does not import covalt-git, so that it can run in its own environment.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import FastMCP

sys.path.insert(0, str(Path(__file__).parent))
from openapi_requests import HOSTILE, REQUESTS, document


async def definitions(text: str) -> dict[str, Any]:
    """Return the time from a document to its definitions, and their size."""
    started = time.perf_counter()
    server: Any = FastMCP.from_openapi(json.loads(text), httpx2.AsyncClient(base_url="http://x"))
    tools = await server.list_tools()
    seconds = time.perf_counter() - started
    size = sum(
        len(json.dumps(tool.parameters)) + len(json.dumps(tool.output_schema)) for tool in tools
    )
    return {"seconds": seconds, "tools": len(tools), "bytes": size}


async def requests() -> list[dict[str, str] | str]:
    """Return the request of each case, or the message of its refusal."""
    sent: list[dict[str, str]] = []

    def answer(request: Any) -> Any:
        target = request.url.raw_path.decode("latin-1")
        sent.append({**request.headers, "target": target, "body": request.read().decode()})
        return httpx2.Response(200, json={})

    transport = httpx2.MockTransport(answer)
    client = httpx2.AsyncClient(base_url="https://api.example.com/v1", transport=transport)
    server: Any = FastMCP.from_openapi(document(), client, validate_output=False)
    results: list[dict[str, str] | str] = []
    for case in (*REQUESTS, *HOSTILE):
        sent.clear()
        try:
            await server.call_tool(case.operation, case.args)
        except Exception as error:  # noqa: BLE001 - each refusal has its own type
            results.append(f"{type(error).__name__}: {error}")
        else:
            results.append(sent[-1])
    return results


if __name__ == "__main__":
    if sys.argv[1] == "--requests":
        print(json.dumps(asyncio.run(requests())))
    else:
        print(json.dumps(asyncio.run(definitions(Path(sys.argv[1]).read_text(encoding="utf-8")))))
