"""A registry of npm and an index of PyPI on this machine, with packages that tests write.

Tests point npm and pip to it by variables, so that no test contacts a public host.
"""

import base64
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import unquote

import pytest

NODE_SERVER = """#!/usr/bin/env node
const tool = {name: "%s", description: "Says it.", inputSchema: {type: "object"}};
const answers = {
  initialize: (p) => ({protocolVersion: p.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "said", version: "1"}}),
  "tools/list": () => ({tools: [tool]}),
  "tools/call": () => ({content: [{type: "text", text: require("%s")}]}),
};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method, params} = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const rest = answer ? {result: answer(params)} : {error: {code: -32601, message: "unknown"}};
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...rest}));
}).on("close", () => process.exit(0));
"""


class Registry:
    """The packages of both registries; ``requests`` are the paths and the authorization that clients sent."""

    def __init__(self) -> None:
        self.npm: dict[str, dict[str, dict[str, Any]]] = {}
        self.files: dict[str, bytes] = {}
        self.pypi: dict[str, list[str]] = {}
        self.requests: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path)
                registry.requests.append((path, self.headers.get("Authorization")))
                answer = registry.answer(path)
                self.send_response(404 if answer is None else 200)
                kind, content = answer or ("text/plain", b"not found")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Return the content type and the content of a path."""
        if path in self.files:
            return "application/octet-stream", self.files[path]
        if path.startswith("/npm/") and (versions := self.npm.get(path.removeprefix("/npm/"))):
            latest = list(versions)[-1]
            packument = {
                "name": path.removeprefix("/npm/"),
                "dist-tags": {"latest": latest},
                "versions": versions,
            }
            return "application/json", json.dumps(packument).encode()
        name = path.removeprefix("/simple/").strip("/")
        if path.startswith("/simple/") and name in self.pypi:
            files = [
                {
                    "filename": file,
                    "url": f"{self.url}/files/{file}",
                    "hashes": {"sha256": hashlib.sha256(self.files[f"/files/{file}"]).hexdigest()},
                }
                for file in self.pypi[name]
            ]
            listing = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
            return "application/vnd.pypi.simple.v1+json", json.dumps(listing).encode()
        return None

    def node(self, name: str, version: str, files: Mapping[str, str], **manifest: Any) -> str:
        """Add a version of a package of npm; return the path of its archive."""
        whole = {"name": name, "version": version, **manifest}
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(whole), **files}.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        path = f"/npm/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.files[path] = content.getvalue()
        digest = base64.b64encode(hashlib.sha512(content.getvalue()).digest()).decode()
        dist = {"tarball": self.url + path, "integrity": f"sha512-{digest}"}
        scripts = manifest.get("scripts", {})
        extra = {"hasInstallScript": True} if "postinstall" in scripts else {}
        self.npm.setdefault(name, {})[version] = {**whole, **extra, "dist": dist}
        return path

    def wheel(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        needs: str = "",
        program: str = "",
        python: str = "",
    ) -> str:
        """Add a wheel of a package of PyPI; return the path of its file."""
        stem = f"{name.replace('-', '_')}-{version}"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        metadata += f"Requires-Dist: {needs}\n" if needs else ""
        metadata += f"Requires-Python: {python}\n" if python else ""
        info = {
            f"{stem}.dist-info/METADATA": metadata,
            f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if program:
            info[f"{stem}.dist-info/entry_points.txt"] = f"[console_scripts]\n{program}\n"
        whole = {**files, **info}
        record = f"{stem}.dist-info/RECORD"
        whole[record] = "".join(f"{path},,\n" for path in (*whole, record))
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for path, text in whole.items():
                archive.writestr(zipfile.ZipInfo(path), text)
        return self.file(name, f"{stem}-py3-none-any.whl", content.getvalue())

    def file(self, name: str, file: str, content: bytes) -> str:
        """Add a file of a package of PyPI; return its path."""
        self.files[f"/files/{file}"] = content
        if file not in self.pypi.setdefault(name, []):
            self.pypi[name].append(file)
        return f"/files/{file}"

    def node_server(self, version: str, tool: str = "said", says: str = "one") -> str:
        """Add a version of the package ``said``, an MCP server whose dependency has what its tool says."""
        self.node("words", version, {"index.js": f'module.exports = "{says}";'}, main="index.js")
        return self.node(
            "said",
            version,
            {"cli.js": NODE_SERVER % (tool, "words")},
            bin={"said": "cli.js"},
            dependencies={"words": version},
        )

    def __enter__(self) -> Self:
        """Answer requests until the end of the block."""
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def used_registry(patch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Yield a registry that npm and pip use in place of the user's."""
    for name in list(os.environ):
        if name.lower().startswith(("pip_", "npm_config_")):
            patch.delenv(name)
    with Registry() as registry:
        patch.setenv("npm_config_registry", f"{registry.url}/npm/")
        patch.setenv("npm_config_userconfig", os.devnull)
        # Another file: npm refuses to read one twice.
        patch.setenv("npm_config_globalconfig", f"{os.devnull}.missing")
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_INDEX_URL", f"{registry.url}/simple")
        yield registry
