"""``git http-backend`` behind nginx and fcgiwrap, as Debian packages them: a real git server for stress tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = ("/usr/sbin/nginx", "/usr/sbin/fcgiwrap")
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


@contextmanager
def git_server(
    repositories: Path,
    folder: Path,
    *,
    workers: int = 8,
    render: Callable[[int], str] | None = None,
) -> Iterator[str]:
    """Serve the repositories in a folder, and yield the URL; ``folder`` is for files of the programs.

    ``render`` returns another configuration for a port; its socket is ``fcgi.sock`` in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    path = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True)
    config = folder / "nginx.conf"
    backend = Path(path.stdout.strip()) / "git-http-backend"
    text = _CONFIG.format(folder=folder, port=port, backend=backend, repositories=repositories)
    config.write_text(text if render is None else render(port))
    nginx, fcgiwrap = PROGRAMS
    commands = (
        [fcgiwrap, "-c", str(workers), "-s", f"unix:{folder}/fcgi.sock"],
        [nginx, "-c", str(config), "-p", str(folder)],
    )
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(process.wait)
            # With its workers, which fcgiwrap leaves behind.
            stack.callback(os.killpg, process.pid, signal.SIGTERM)
        _wait_for(port, folder / "fcgi.sock")
        # The worker of nginx runs as another user, who has to reach the socket.
        (folder / "fcgi.sock").chmod(0o666)
        yield f"http://127.0.0.1:{port}"


def _wait_for(port: int, file: Path) -> None:
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0 and file.exists():
                return
        time.sleep(0.05)
    raise AssertionError("nginx does not answer")
