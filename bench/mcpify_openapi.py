"""The requests of mcpify (on PyPI: ``mcpify-openapi``) for the cases of :mod:`bench.sources`.

    python mcpify_openapi.py

It prints JSON.  It does not import covalt-git, so that it can run in its own environment.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mcpify.http_client import execute
from mcpify.tools import build_request, spec_to_tools

sys.path.insert(0, str(Path(__file__).parent))
from openapi_requests import HOSTILE, REQUESTS, document

_sent: list[dict[str, str]] = []


class _Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        _sent.append({**headers, "target": self.path, "body": body})
        self.send_response(200)
        self.end_headers()

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def requests(base_url: str) -> list[dict[str, str] | str]:
    """Return the request of each case, or the message of its refusal."""
    tools = {tool["name"]: tool for tool in spec_to_tools(document())}
    results: list[dict[str, str] | str] = []
    for case in (*REQUESTS, *HOSTILE):
        tool = tools[case.operation]
        args = {
            name if name in tool["inputSchema"]["properties"] else f"header:{name}": value
            for name, value in case.args.items()
        }
        if case.place == "body":
            args = {"body": urlencode(case.args)}  # its tool asks for the encoded text
        try:
            request = build_request(base_url, tool["_meta"], args)
            if execute(request)["status"] != 200:
                raise ValueError("it could not be sent")
        except Exception as error:  # noqa: BLE001 - each refusal has its own type
            results.append(f"{type(error).__name__}: {error}")
        else:
            results.append(_sent[-1])
    return results


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), _Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps(requests(f"http://127.0.0.1:{server.server_port}/v1")))
