"""An MCP server over HTTP, of protocol version 2026-07-28, whose answers a test chooses, also wrong ones."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, dict[str, Any]], dict[str, Any] | None]
"""Returns the result of a method with its parameters; with the key ``error`` an error, and None for the usual result."""

META = {"io.modelcontextprotocol/serverInfo": {"name": "liar", "version": "1"}}
_FACTS = {"resultType": "complete", "_meta": META, "cacheScope": "private", "ttlMs": 0}
_TIMES = {"createdAt": "2026-11-29T10:00:00.000Z", "lastUpdatedAt": "2026-11-29T10:00:00.000Z"}
_EXTENSION: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}


class LyingServer:
    """The server; ``requests`` has the methods that it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _, __: None
        self.requests: list[str] = []
        lying = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._send(405, b"")

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                lying.requests.append(request["method"])
                if "id" not in request:
                    self._send(202, b"")
                    return
                result = lying.result(request["method"], request.get("params") or {})
                answer = {"jsonrpc": "2.0", "id": request["id"], **result}
                self._send(200, json.dumps(answer).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/mcp"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result, or the error, of a request."""
        usual: dict[str, Any] = {
            "server/discover": {
                "capabilities": {"tools": {}, "prompts": {}, "extensions": _EXTENSION},
                "supportedVersions": ["2026-07-28"],
            },
            "tools/list": {"tools": [{"name": "job", "inputSchema": {"type": "object"}}]},
            "prompts/list": {"prompts": [{"name": "ask"}]},
            "prompts/get": {"messages": []},
            "tasks/cancel": {},
            "tasks/update": {},
        }
        answer = self.answer(method, params) or usual.get(method)
        if answer is None:
            return {"error": {"code": -32601, "message": "no"}}
        return answer if "error" in answer else {"result": _FACTS | answer}

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def task(task_id: str = "t1") -> dict[str, Any]:
    """Return the answer that makes a task of a call."""
    return state("working", taskId=task_id) | {"resultType": "task"}


def state(status: str, **more: Any) -> dict[str, Any]:
    """Return the state of a task."""
    return _TIMES | {"taskId": "t1", "status": status, "ttlMs": None, "pollIntervalMs": 50} | more
