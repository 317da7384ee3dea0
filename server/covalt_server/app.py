"""The Flask apps: the parts of the server, put together for one project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, jsonify, request

from covalt_git.toolsets.project_files import read_config
from covalt_server import request_context
from covalt_server.api import (
    approvals,
    branches,
    bundles,
    calls,
    chat_store,
    chats,
    errors,
    grants,
    http,
    merges,
    messages,
    openapi,
    overrides,
    sources,
    streams,
    tools,
    toolsets,
    workspace,
)
from covalt_server.git import smart_http
from covalt_server.pages import approvals as pages_approvals
from covalt_server.pages import branches as pages_branches
from covalt_server.pages import calls as pages_calls
from covalt_server.pages import chats as pages_chats
from covalt_server.pages import elicitation, home, imports, layout, live_reload
from covalt_server.pages import tools as pages_tools
from covalt_server.pages import toolsets as pages_toolsets
from covalt_server.pages import workspace as pages_workspace
from covalt_server.render import artifacts
from covalt_server.security import Guard

if TYPE_CHECKING:
    from pathlib import Path

    from werkzeug.wrappers import Response

    from covalt_git.project_watch import WatchedProject

MAX_BODY_BYTES = 16 << 20
"""What a request may send; only an upload may send more, as its operation says."""

OPERATIONS: tuple[http.Operation[Any, Any], ...] = (
    *toolsets.OPERATIONS,
    *bundles.OPERATIONS,
    *grants.OPERATIONS,
    *tools.OPERATIONS,
    *overrides.OPERATIONS,
    *sources.OPERATIONS,
    *chats.OPERATIONS,
    *merges.OPERATIONS,
    *chat_store.OPERATIONS,
    *branches.OPERATIONS,
    *messages.OPERATIONS,
    *workspace.OPERATIONS,
    *calls.OPERATIONS,
    *streams.OPERATIONS,
    *approvals.OPERATIONS,
)

PAGES = (
    home.pages,
    pages_toolsets.pages,
    imports.pages,
    pages_tools.pages,
    pages_chats.pages,
    pages_branches.pages,
    pages_calls.pages,
    pages_workspace.pages,
    pages_approvals.pages,
    elicitation.pages,
    artifacts.pages,
)


def create_app(
    root: Path,
    *,
    token: str,
    port: int,
    role: str | None = None,
    followed: WatchedProject | None = None,
) -> Flask:
    """Return the server of the project at ``root``, which listens on ``port``.

    Whoever brings ``token`` acts as the person at this machine, under ``role`` where it is given.
    With ``followed``, every page tells what is wrong with the project, and loads again when it changes.

    Raises:
        BrokenConfigError: when ``covalt.yaml`` cannot be used.
    """
    app = Flask("covalt_server")
    app.config.update(
        COVALT_PORT=port,
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        MAX_FORM_MEMORY_SIZE=MAX_BODY_BYTES,
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    Guard(token, port, read_config(root).server.allowed_hosts).install(app)
    request_context.install(app, root, role)
    http.install(app, OPERATIONS)
    app.add_url_rule("/api/openapi.json", "openapi", _document)
    for pages in PAGES:
        app.register_blueprint(pages)
    if followed is not None:
        live_reload.install(app, followed)
    layout.install(app, port)
    errors.install(app, [one.name for one in OPERATIONS])
    return app


def create_git_app(root: Path, *, token: str, port: int, role: str | None = None) -> Flask:
    """Return what answers git below ``/git``, beside :func:`create_app` and as that is made.

    It is an app of its own, as a push may be large and take long, and its errors are for git.

    Raises:
        BrokenConfigError: when ``covalt.yaml`` cannot be used.
    """
    app = Flask("covalt_server", static_folder=None)
    smart_http.install(app, Guard(token, port, read_config(root).server.allowed_hosts))
    request_context.install(app, root, role)
    return app


def _document() -> Response:
    return jsonify(openapi.document(OPERATIONS, request.host_url.rstrip("/")))
