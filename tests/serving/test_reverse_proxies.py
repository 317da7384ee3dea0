"""The configurations of docs/how-to/behind-tls.md, in Caddy and nginx with a certificate of this machine."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from email.message import Message
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest

from tests.api_client import make_project
from tests.browser import missing
from tests.examples import one_in
from tests.operations_client import Operations
from tests.page_reader import blocks
from tests.uvicorn_server import PATIENCE_S, TOKEN, served
from tests.workspaces.stores import run_git

PAGE = (Path(__file__).parents[2] / "docs/how-to/behind-tls.md").read_text(encoding="utf-8")
HOST = "tools.example.com"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
NO_HEADERS: Mapping[str, str] = {}
LARGE = 8 << 20
"""Bytes of a push and of an upload; nginx refuses more than 1 MB by default."""


def text_of(language: str) -> str:
    (text,) = [text for name, _, text in blocks(PAGE) if name == language]
    return text


def nginx(folder: Path, ours: int, theirs: int) -> list[str]:
    server = (
        text_of("nginx")
        .replace("443", f"127.0.0.1:{ours}")
        .replace(":8787", f":{theirs}")
        .replace("/etc/ssl/certs/tools.example.com.pem", f"{folder}/cert.pem")
        .replace("/etc/ssl/private/tools.example.com.key", f"{folder}/key.pem")
    )
    paths = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    head = f"daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1; events {{}}"
    config.write_text(f"{head}\nhttp {{\naccess_log off;\n{paths}\n{server}\n}}\n")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(config)]


def caddy(folder: Path, ours: int, theirs: int) -> list[str]:
    site = (
        text_of("caddy")
        .replace(
            f"{HOST} {{", f"https://{HOST}:{ours} {{\n\ttls {folder}/cert.pem {folder}/key.pem"
        )
        .replace(":8787", f":{theirs}")
    )
    config = folder / "Caddyfile"
    config.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)]


PROXIES = {"nginx": nginx, "caddy": caddy}


@contextmanager
def running(command: list[str], port: int, folder: Path) -> Iterator[None]:
    env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
        yield
    finally:
        process.terminate()
        process.wait()


class Site:
    """The server as clients on other machines meet it."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port, self.folder = port, folder
        self._context = ssl.create_default_context(cafile=str(folder / "cert.pem"))

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
    ) -> tuple[int, Message, bytes]:
        """Return the status, the headers and the body of an answer."""
        with self.opened(method, path, headers, body) as response:
            return response.status, response.headers, response.read()

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
    ) -> Iterator[HTTPResponse]:
        """Send a request as to port 443, which a test cannot have."""
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.sock = self._context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), PATIENCE_S), server_hostname=HOST
        )
        with closing(connection):
            connection.request(method, path, body, {"Host": HOST, **headers})
            with closing(connection.getresponse()) as response:
                yield response

    def git(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        return run_git(
            self.folder,
            *("-c", f"http.sslCAInfo={self.folder}/cert.pem"),
            *("-c", f"http.curloptResolve={HOST}:{self.port}:127.0.0.1"),
            *("-c", f"http.extraHeader=Host: {HOST}"),
            *args,
        )


@pytest.fixture(params=one_in(2, PROXIES))
def proxied(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, Operations]]:
    program = request.param
    if shutil.which(program) is None:
        missing(program, f"apt-get install {program}")
    root = make_project(tmp_path / "project")
    (added,) = [text for _, file, text in blocks(PAGE) if file == "covalt.yaml+"]
    (root / "covalt.yaml").write_text(f"version: 1\n{added}")
    owner = Operations(root)
    owner("create_chat", chat_id="c1")
    subject = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}")
    keys = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    command = ["openssl", "req", "-x509", *keys, *subject]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)
    with socket.socket() as available:
        available.bind(("127.0.0.1", 0))
        ours = available.getsockname()[1]
    with (
        served(root) as theirs,
        running(PROXIES[program](tmp_path, ours, theirs), ours, tmp_path),
    ):
        yield Site(ours, tmp_path), owner


def test_everything_works_behind_the_proxy_of_the_page(proxied: tuple[Site, Operations]) -> None:
    site, owner = proxied

    # Browsers
    assert site.request("GET", "/")[0] == 401
    status, headers, _ = site.request("GET", f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/")
    assert "; Secure" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].partition(";")[0]
    browser = {"Cookie": cookie, "Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}
    assert site.request("GET", "/chats/c1", browser)[0] == 200

    # Events arrive while the connection is open
    with site.opened("GET", "/api/events", BEARER) as events:
        edit = {"path": "a.txt", "content": "a"}
        owner("call_tool", chat_id="c1", tool_id="workspace:write_file", args=edit)
        while b"CommitAdded" not in events.readline():
            pass

    # Agents: the URL of the resource is the one that they use
    challenge = site.request("POST", "/mcp")[1]["WWW-Authenticate"]
    match = re.search(rf'resource_metadata="https://{HOST}(\S+)"', challenge)
    assert match is not None
    assert f'"resource":"https://{HOST}/mcp"'.encode() in site.request("GET", match[1])[2]

    # A push and an upload that are larger than the default limit of nginx
    url = f"https://x:{TOKEN}@{HOST}:{site.port}/git/c1"
    clone = site.folder / "clone"
    assert site.git("clone", "-q", url, str(clone)).returncode == 0
    (clone / "large.bin").write_bytes(os.urandom(LARGE))
    run_git(clone, "add", ".")
    run_git(clone, "commit", "-qm", "large")
    pushed = site.git("-C", str(clone), "push", "-q", "origin", "HEAD:large")
    assert pushed.returncode == 0, pushed.stderr
    head = b'--x\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\nc1\r\n--x\r\n'
    head += b'Content-Disposition: form-data; name="files"; filename="up.bin"\r\n\r\n'
    body = head + bytes(LARGE) + b"\r\n--x--\r\n"
    multipart = {**BEARER, "Content-Type": "multipart/form-data; boundary=x"}
    status, _, uploaded = site.request("POST", "/api/upload_files", multipart, body)
    assert status == 200, uploaded
    assert owner.workspace("c1").joinpath("up.bin").stat().st_size == LARGE
