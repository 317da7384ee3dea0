"""``git http-backend`` as a WSGI app: a real git server over HTTP, for tests."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def http_backend(folder: Path, *, user: str = "", password: str = "") -> WSGIApplication:
    """Return the app that serves the repositories below ``folder``, to one user if there is a password."""
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if password and environ.get("HTTP_AUTHORIZATION") != expected:
            start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"')])
            return [b""]
        return _run(folder, environ, start_response)

    return app


def _run(
    folder: Path, environ: WSGIEnvironment, start_response: Callable[..., object]
) -> Iterable[bytes]:
    cgi = {name: value for name, value in environ.items() if isinstance(value, str)}
    variables = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "http.receivepack",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": "*",
        **{
            name: cgi[name]
            for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE")
            if name in cgi
        },
        **{name: cgi[name] for name in cgi if name.startswith("HTTP_")},
    }
    if encoding := cgi.get("HTTP_CONTENT_ENCODING"):
        variables["HTTP_CONTENT_ENCODING"] = encoding
    if protocol := cgi.get("HTTP_GIT_PROTOCOL"):
        variables["GIT_PROTOCOL"] = protocol
    # Only a chunked body ends by itself; the connection stays open after another one.
    is_chunked = environ.get("wsgi.input_terminated", False)
    size = -1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(size)
    variables["CONTENT_LENGTH"] = str(len(body))
    outcome = subprocess.run(
        ["git", "http-backend"], input=body, env=variables, capture_output=True, check=False
    )
    head, _, content = outcome.stdout.partition(b"\r\n\r\n")
    status, headers = "200 OK", []
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(": ")
        if name == "Status":
            status = value
        elif name:
            headers.append((name, value))
    start_response(status, headers)
    return [content]
