"""The Flask apps: the parts of the server, put together for one project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Flask, jsonify, request

from covalt_git.files.project_files import read_config
from covalt_server import (
    api_approvals,
    api_branches,
    api_bundles,
    api_calls,
    api_chat_store,
    api_chats,
    api_grants,
    api_merges,
    api_messages,
    api_overrides,
    api_sources,
    api_streams,
    api_tools,
    api_toolsets,
    api_workspace,
    artifacts,
    contract,
    current,
    git_face,
    openapi,
    pages_approvals,
    pages_branches,
    pages_calls,
    pages_chats,
    pages_home,
    pages_imports,
    pages_live,
    pages_questions,
    pages_tools,
    pages_toolsets,
    pages_workspace,
    refusals,
    shell,
)
from covalt_server.guard import Guard

if TYPE_CHECKING:
    from pathlib import Path

    from werkzeug.wrappers import Response

    from covalt_git.following import FollowedProject

MAX_BODY_BYTES = 16 << 20
"""What a request may send; only an upload may send more, as its operation says."""

OPERATIONS: tuple[contract.Operation[Any, Any], ...] = (
    *api_toolsets.OPERATIONS,
    *api_bundles.OPERATIONS,
    *api_grants.OPERATIONS,
    *api_tools.OPERATIONS,
    *api_overrides.OPERATIONS,
    *api_sources.OPERATIONS,
    *api_chats.OPERATIONS,
    *api_merges.OPERATIONS,
    *api_chat_store.OPERATIONS,
    *api_branches.OPERATIONS,
    *api_messages.OPERATIONS,
    *api_workspace.OPERATIONS,
    *api_calls.OPERATIONS,
    *api_streams.OPERATIONS,
    *api_approvals.OPERATIONS,
)

PAGES = (
    pages_home.pages,
    pages_toolsets.pages,
    pages_imports.pages,
    pages_tools.pages,
    pages_chats.pages,
    pages_branches.pages,
    pages_calls.pages,
    pages_workspace.pages,
    pages_approvals.pages,
    pages_questions.pages,
    artifacts.pages,
)


def create_app(
    root: Path,
    *,
    token: str,
    port: int,
    role: str | None = None,
    followed: FollowedProject | None = None,
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
    current.install(app, root, role)
    contract.install(app, OPERATIONS)
    app.add_url_rule("/api/openapi.json", "openapi", _document)
    for pages in PAGES:
        app.register_blueprint(pages)
    if followed is not None:
        pages_live.install(app, followed)
    shell.install(app, port)
    refusals.install(app, [one.name for one in OPERATIONS])
    return app


def create_git_app(root: Path, *, token: str, port: int, role: str | None = None) -> Flask:
    """Return what answers git below ``/git``, beside :func:`create_app` and as that is made.

    It is an app of its own, as a push may be large and take long, and its errors are for git.

    Raises:
        BrokenConfigError: when ``covalt.yaml`` cannot be used.
    """
    app = Flask("covalt_server", static_folder=None)
    git_face.install(app, Guard(token, port, read_config(root).server.allowed_hosts))
    current.install(app, root, role)
    return app


def _document() -> Response:
    return jsonify(openapi.document(OPERATIONS, request.host_url.rstrip("/")))
