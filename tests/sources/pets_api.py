"""A small REST API with a document of its own, served on this machine."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "key-of-the-shelter"


def document(base_url: str, **more: Any) -> dict[str, Any]:
    """Return the OpenAPI document of the API."""
    pet = {"$ref": "#/components/schemas/Pet"}
    answer = {"200": {"description": "a pet", "content": {"application/json": {"schema": pet}}}}
    pets = {"type": "array", "items": pet}
    by_id = {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}
    body = {"required": True, "content": {"application/json": {"schema": pet}}}
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string", "description": "How it is called."},
            "tag": {"type": "string"},
            "owner": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "Shelter", "version": "1"},
        "servers": [{"url": f"{base_url}/v1"}],
        "security": [{"apiKey": []}],
        "components": {
            "schemas": {"Pet": schema},
            "securitySchemes": {"apiKey": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        },
        "paths": {
            "/pets": {
                "get": {
                    "operationId": "listPets",
                    "description": "List the pets.",
                    "parameters": [{"name": "tag", "in": "query", "schema": {"type": "string"}}],
                    "responses": {
                        "200": {
                            "description": "pets",
                            "content": {"application/json": {"schema": pets}},
                        }
                    },
                },
                "post": {
                    "operationId": "addPet",
                    "description": "Add a pet.",
                    "requestBody": body,
                    "responses": answer,
                },
            },
            "/pets/{petId}": {
                "parameters": [by_id],
                "get": {"operationId": "getPet", "responses": answer},
                "put": {"operationId": "setPet", "requestBody": body, "responses": answer},
                "delete": {"operationId": "removePet", "responses": {"204": {"description": "-"}}},
            },
        },
    } | more


class _Api(BaseHTTPRequestHandler):
    pets: dict[int, dict[str, Any]]

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, value: Any = None) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(size)
        path, _, query = self.path.partition("?")
        if self.headers.get("X-Key") != KEY:
            return self._answer(401, {"message": "no key"})
        if path == "/v1/pets" and self.command == "GET":
            tag = query.removeprefix("tag=")
            return self._answer(
                200, [pet for pet in self.pets.values() if not tag or pet.get("tag") == tag]
            )
        if path == "/v1/pets" and self.command == "POST":
            number = len(self.pets) + 1
            self.pets[number] = {"id": number, **json.loads(content)}
            return self._answer(200, self.pets[number])
        number = int(path.removeprefix("/v1/pets/"))
        if number not in self.pets:
            return self._answer(404, {"message": "no such pet"})
        if self.command == "PUT":
            self.pets[number] = {"id": number, **json.loads(content)}
        if self.command == "DELETE":
            del self.pets[number]
            return self._answer(204)
        return self._answer(200, self.pets[number])

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - names of the base class


@contextmanager
def served() -> Iterator[str]:
    """Serve the API, and yield its URL without the prefix ``/v1``."""
    handler = type("Api", (_Api,), {"pets": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_document(file: Path, base_url: str, **more: Any) -> Path:
    """Write the document of the API, and return its file."""
    file.write_text(json.dumps(document(base_url, **more), indent=2), encoding="utf-8")
    return file
