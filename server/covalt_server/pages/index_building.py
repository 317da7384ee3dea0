"""Page that is shown while the index of a large project is built, such as after an upgrade; it reloads itself.

Without it, the first page would keep the browser waiting without a word until all commits of all chats are read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flask import current_app, g, make_response, request

from covalt_git.errors import CovaltError
from covalt_git.index import database
from covalt_git.project import Project
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask
    from werkzeug.wrappers import Response

PATIENCE_S = 2.0
"""How long a page waits for the index before it is replaced by the one that says so."""


@dataclass(slots=True)
class IndexBuild:
    """Building of a missing or outdated index, in a thread, so that requests can show its progress."""

    project: Project
    done: int = 0
    total: int = 0
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        """Begin to build."""
        self.thread = threading.Thread(target=self._build, name="index", daemon=True)
        self.thread.start()

    def _build(self) -> None:
        from covalt_git.index.index import Index  # noqa: PLC0415 - loads the chat store

        project = self.project
        try:
            with Index.open(project.root, project.config.workspace, self._note) as index:
                index.sync()
        except (CovaltError, OSError):
            pass  # the page that needs the index reports it

    def _note(self, count: int, total: int) -> None:
        self.done, self.total = count, total


def install(app: Flask) -> None:
    """Let pages wait for the index of the app's project."""
    app.config["COVALT_BUILDS"] = _Builds()
    app.before_request(_wait)


class _Builds:
    """The build that runs or ran last; one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._build: IndexBuild | None = None

    def current(self, root: Path, role: str | None) -> IndexBuild | None:
        """Return the build that a page must wait for; None if the index is there."""
        # Pages are requested at the same time. One build serves all of them; each further one would read
        # all commits again.
        with self._lock:
            is_running = self._build is not None and self._build.thread.is_alive()
            if not is_running:
                self._build = None
                index = data_of(root) / "index.db"
                # In a read-only project each request has an index in memory.
                if database.is_writable(index) and not database.is_current(index):
                    self._build = IndexBuild(Project.cached(root, role))
            return self._build


def _wait() -> Response | None:
    """Answer a request for a page while the index is built."""
    # Clients of the API, whose routes are in no blueprint, wait for their answer: they cannot read this page.
    if request.method != "GET" or request.blueprint is None or request.is_json:
        return None
    builds: _Builds = current_app.config["COVALT_BUILDS"]
    root, role = current_app.config["COVALT_ROOT"], current_app.config["COVALT_ROLE"]
    try:
        build = builds.current(root, role)
    except CovaltError:
        return None  # the page reports it
    if build is None:
        return None
    build.thread.join(PATIENCE_S)
    if not build.thread.is_alive():
        return None
    # Not `render_template`: the values of other pages, such as the number of approvals, are read from the index.
    page = current_app.jinja_env.get_template("index_building.html").render(build=build, g=g)
    response = make_response(page, 503)
    response.headers["Retry-After"] = "1"
    response.headers["Cache-Control"] = "no-store"
    return response
