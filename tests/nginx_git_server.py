"""``git http-backend`` behind nginx and fcgiwrap, as Debian packages them: a real git server for stress tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROGRAMS = ("/usr/sbin/nginx", "/usr/sbin/fcgiwrap")
DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
_CONFIG = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 2;
events {{}}
http {{
  access_log off;
  client_max_body_size 0;
  client_body_temp_path {folder}/body;
  fastcgi_temp_path {folder}/fastcgi;
  proxy_temp_path {folder}/proxy;
  scgi_temp_path {folder}/scgi;
  uwsgi_temp_path {folder}/uwsgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      fastcgi_pass unix:{folder}/fcgi.sock;
      fastcgi_request_buffering on;
      fastcgi_param SCRIPT_FILENAME {backend};
      fastcgi_param GIT_PROJECT_ROOT {repositories};
      fastcgi_param GIT_HTTP_EXPORT_ALL "1";
      fastcgi_param REMOTE_USER "node";
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
      fastcgi_param GIT_PROTOCOL $http_git_protocol;
    }}
  }}
}}
"""


def is_installed() -> bool:
    """Return whether the programs are there: ``apt install nginx-light fcgiwrap``."""
    return all(shutil.which(program) for program in PROGRAMS)


def free_port() -> int:
    """Return a port on loopback on which no program listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def rendered(path: Path, folder: Path, changes: Mapping[str, str]) -> str:
    """Return a configuration of nginx below ``deploy/``, whose files are in ``folder``, with other places."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in names)
    return text.replace("http {", f"http {{ {paths}").replace("pid ", "daemon off;\npid ", 1)


def deployed(repositories: Path, folder: Path) -> Callable[[int], str]:
    """Return a function that renders ``deploy/git-server/nginx.conf`` for a port."""

    def render(port: int) -> str:
        script = DEPLOY / "git-server" / "create-and-serve.sh"
        changes = {
            "user www-data;": "",
            "/run/nginx.pid": f"{folder}/nginx.pid",
            "error_log stderr;": f"error_log {folder}/error.log;",
            "listen 80;": f"listen 127.0.0.1:{port};",
            "/run/fcgi.sock": f"{folder}/fcgi.sock",
            "/usr/local/bin/create-and-serve.sh": str(script),
            "/srv/chats": str(repositories),
        }
        return rendered(DEPLOY / "git-server" / "nginx.conf", folder, changes)

    return render


class ProcessGroup:
    """A program with its child processes, which can be killed together and started again."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program as the leader of a process group."""
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to all of its processes, which fcgiwrap would leave behind, and wait for their end."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        self._process.wait()
        until = time.monotonic() + 30
        with suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(self._process.pid, 0)
                time.sleep(0.01)


class GitServer:
    """nginx and fcgiwrap; ``render`` returns another configuration for a port, with the socket ``fcgi.sock`` in the folder."""

    def __init__(
        self,
        repositories: Path,
        folder: Path,
        *,
        workers: int = 8,
        render: Callable[[int], str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._folder = folder
        self._repositories = repositories
        path = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True)
        config = folder / "nginx.conf"
        backend = Path(path.stdout.strip()) / "git-http-backend"
        text = _CONFIG.format(
            folder=folder, port=self.port, backend=backend, repositories=repositories
        )
        config.write_text(text if render is None else render(self.port))
        nginx, fcgiwrap = PROGRAMS
        self._groups = (
            ProcessGroup(fcgiwrap, "-c", str(workers), "-s", f"unix:{folder}/fcgi.sock"),
            ProcessGroup(nginx, "-c", str(config), "-p", str(folder)),
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self._folder / "fcgi.sock").unlink(missing_ok=True)
        # As deploy/git-server/start.sh does: git refuses each push to a ref with a lock that a killed push left.
        for lock in self._repositories.glob("*.git/**/*.lock"):
            lock.unlink()
        for group in self._groups:
            group.start()
        wait_for(self.port, self._folder / "fcgi.sock")
        # The worker of nginx runs as another user, who has to reach the socket.
        (self._folder / "fcgi.sock").chmod(0o666)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, with the requests that run."""
        for group in reversed(self._groups):
            group.end(number)


@contextmanager
def git_server(
    repositories: Path,
    folder: Path,
    *,
    workers: int = 8,
    render: Callable[[int], str] | None = None,
) -> Iterator[str]:
    """Serve the repositories in a folder, and yield the URL; ``folder`` is for files of the programs."""
    server = GitServer(repositories, folder, workers=workers, render=render)
    server.start()
    try:
        yield server.url
    finally:
        server.end()


def wait_for(port: int, file: Path | None = None) -> None:
    """Wait until a program listens on a port, and a file exists."""
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0 and (file is None or file.exists()):
                return
        time.sleep(0.05)
    raise AssertionError("nginx does not answer")
