"""Storage server: the bare repositories of a folder for the nodes of projects, by ``git http-backend``.

``/git`` of a project is for people: it accepts commits of branches, and checks each of them.  A storage server has no project.
It stores what the nodes push, moves the refs of a push together, compares their old values, and decides nothing else.  Git's
own ``receive-pack`` does this, so this module only checks the request and creates repositories.

A repository is created by the first push to it.  The names are those of chats, and that of the list of chats.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

from flask import Blueprint, Flask, Response, current_app, request

from covalt_git.errors import CovaltError
from covalt_git.names import is_id
from covalt_git.system import atomic_write, locked_folder, programs
from covalt_git.workspaces.storage import REGISTRY
from covalt_server.git import smart_http
from covalt_server.git.smart_http import NotGitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_server.security import Guard

MOST_BYTES = 4 << 30
"""Maximum size of a push in bytes, decompressed by the server's git if it is a fetch."""

_PART = 1 << 16
_NEW = ".new-"
_HEADERS = ("CONTENT_TYPE", "HTTP_CONTENT_ENCODING", "HTTP_GIT_PROTOCOL")

routes = Blueprint("storage", __name__)


class StorageServerError(CovaltError):
    """The repositories cannot be served from the folder."""

    code = "storage_server"
    http_status = 500


def create_storage_app(folder: Path, guard: Guard) -> Flask:
    """Return the app that serves the repositories in a folder to the holder of the guard's token."""
    app = Flask("covalt_server", static_folder=None)
    app.config.update(COVALT_STORAGE=folder)
    smart_http.install(
        app, guard, routes, hint="set storage.username and storage.password in covalt.yaml"
    )
    return app


@routes.get("/<name>.git/info/refs")
def advertise_refs(name: str) -> Response:
    """Return the refs of a repository, which a push creates."""
    service = request.args.get("service")
    if service not in {"git-upload-pack", "git-receive-pack"}:
        raise NotGitError("only git's smart HTTP is supported", hint="covalt-git storage check")
    return _answer(name, "info/refs", creates=service == "git-receive-pack")


@routes.post("/<name>.git/git-upload-pack")
def fetch(name: str) -> Response:
    """Answer one request of a fetch."""
    return _answer(name, "git-upload-pack")


@routes.post("/<name>.git/git-receive-pack")
def push(name: str) -> Response:
    """Perform a push."""
    return _answer(name, "git-receive-pack")


def _answer(name: str, place: str, *, creates: bool = False) -> Response:
    """Return the answer of ``git http-backend``."""
    if not (is_id(name) or name == REGISTRY):
        error = NotGitError(f"{name!r} is not the id of a chat", hint="covalt-git storage check")
        error.http_status = 404
        raise error
    folder: Path = current_app.config["COVALT_STORAGE"]
    if creates:
        _create(folder, name)
    with contextlib.ExitStack() as stack:
        body = stack.enter_context(tempfile.TemporaryFile())
        size = _spool(request.stream, body)
        variables = {
            **programs.environment(),
            "GIT_PROJECT_ROOT": str(folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "3",
            # The folder can be a volume of another user.
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": str(folder / f"{name}.git"),
            "GIT_CONFIG_KEY_1": "receive.fsckObjects",
            "GIT_CONFIG_VALUE_1": "true",
            # An acknowledged push must survive a power cut.
            "GIT_CONFIG_KEY_2": "core.fsync",
            "GIT_CONFIG_VALUE_2": "committed,loose-object,pack,pack-metadata,reference",
            "REMOTE_USER": "node",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": f"/{name}.git/{place}",
            "QUERY_STRING": request.query_string.decode("latin-1"),
            "CONTENT_LENGTH": str(size),
            **{key: request.environ[key] for key in _HEADERS if key in request.environ},
        }
        process = programs.start(
            ["git", "http-backend"],
            env=variables,
            stdin=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(_end, process)
        assert process.stdout is not None  # it is a pipe
        status, headers = _head(process.stdout)
        answer = Response(_parts(process.stdout), status=status, headers=headers)
        answer.call_on_close(stack.pop_all().close)
    return answer


def _create(folder: Path, name: str) -> None:
    """Create an empty repository, unless it exists."""
    final = folder / f"{name}.git"
    if final.exists():
        return
    locked_folder.clear(folder, _NEW)
    options = ("--quiet", "--bare", "--initial-branch=main", "--template=")
    with locked_folder.create(folder, _NEW) as new:
        outcome = programs.run(
            ["git", "init", *options, "--", str(new)], stdin=subprocess.DEVNULL, capture_output=True
        )
        if outcome.returncode:
            raise StorageServerError("git cannot create a repository in the folder")
        atomic_write.fsync_tree(new)
        with contextlib.suppress(OSError):  # another request was faster
            atomic_write.rename(new, final)


def _spool(stream: IO[bytes], file: IO[bytes]) -> int:
    """Copy a body to a file, because git and the client would otherwise wait for each other."""
    size = 0
    while part := stream.read(_PART):
        size += len(part)
        if size > MOST_BYTES:
            raise smart_http.RequestTooLargeError(
                "the push is too large", hint="push fewer commits at once"
            )
        file.write(part)
    file.seek(0)
    return size


def _head(stream: IO[bytes]) -> tuple[int, list[tuple[str, str]]]:
    """Read the status and the headers of a CGI program's answer."""
    status, headers = 200, []
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(": ")
        if name == "Status":
            status = int(value.split()[0])
        else:
            headers.append((name, value))
    if not headers and status == 200:  # noqa: PLR2004 - the default above
        raise StorageServerError("git http-backend ended without an answer")
    return status, headers


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    while part := stream.read(_PART):
        yield part


def _end(process: subprocess.Popen[bytes]) -> None:
    # Closed first: a client that disconnected leaves git waiting for a reader.  It ends by itself, with its push complete
    # or without it.
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
