"""Flask apps of the server of one project."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flask import Flask, jsonify, request

from covalt_git.catalog.current_config import current_config
from covalt_git.catalog.token_holders import TokenHolders
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import startup_config
from covalt_git.workspaces.server_notes import notes_of
from covalt_server import request_context, static_files
from covalt_server.api import errors, http, tool_registry
from covalt_server.api.every_operation import OPERATIONS, api_document
from covalt_server.git import smart_http
from covalt_server.pages import (
    approvals,
    branches,
    calls,
    chats,
    config,
    conversation,
    elicitation,
    home,
    imports,
    index_building,
    layout,
    live,
    new_toolset,
    policy,
    preview,
    reference,
    registered_tools,
    scripts,
    search,
    sources,
    tools,
    toolset_files,
    toolset_permissions,
    toolset_sources,
    toolsets,
    transfer,
    workspace,
)
from covalt_server.preview import files as preview_files
from covalt_server.preview.keys import AnyPreviewKeys, PreviewKeys
from covalt_server.preview.shared_keys import NOTES, SharedPreviewKeys
from covalt_server.render import artifacts
from covalt_server.security import Guard

if TYPE_CHECKING:
    from pathlib import Path

    from werkzeug.wrappers import Response

    from covalt_git.project_watch import WatchedProject

MAX_BODY_BYTES = 16 << 20
"""Maximum size of a request in bytes; operations with uploads have their own limits."""

PAGES = (
    home.pages,
    toolsets.pages,
    new_toolset.pages,
    toolset_files.pages,
    config.pages,
    toolset_permissions.pages,
    toolset_sources.pages,
    imports.pages,
    sources.pages,
    tools.pages,
    policy.pages,
    registered_tools.pages,
    conversation.pages,
    chats.pages,
    branches.pages,
    calls.pages,
    workspace.pages,
    approvals.pages,
    scripts.pages,
    search.pages,
    reference.pages,
    elicitation.pages,
    artifacts.pages,
    preview.pages,
    preview_files.pages,
)


def create_app(
    root: Path,
    *,
    token: str,
    port: int,
    role: str | None = None,
    followed: WatchedProject | None = None,
    stopping: threading.Event | None = None,
    holders: TokenHolders | None = None,
) -> Flask:
    """Return the server of the project at ``root``, which listens on ``port``.

    Requests with ``token`` act as the user of this machine, with ``role`` unless it is None.  With
    ``followed``, every page shows the project's problems, and reloads when the project changes.  When
    ``stopping`` is set, event streams end, so that open pages do not delay the end of the server.  ``holders`` are those
    of access tokens of issuers, which the API accepts.
    """
    app = Flask("covalt_server", static_folder=None)
    app.config.update(
        COVALT_PORT=port,
        COVALT_STOPPING=stopping or threading.Event(),
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        # Flask's default of 500 kB would refuse larger texts of the editor and larger JSON arguments.
        MAX_FORM_MEMORY_SIZE=MAX_BODY_BYTES,
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    # Flask calls before_request functions in the order of their registration, so the guard refuses a
    # request before any other function reads it; after_request functions in the reverse order, so sealed()
    # sees a 304.
    find_holder = (holders or TokenHolders(root)).find
    settings = startup_config(current_root(root))
    is_shared = settings.storage.type == "git"
    guard = Guard(token, port, settings.server.allowed_hosts, find_holder, is_shared=is_shared)
    keys: AnyPreviewKeys = PreviewKeys()
    if is_shared:
        keys = SharedPreviewKeys(
            guard.preview_secret,
            lambda: notes_of(current_config(current_root(root)).workspace, NOTES),
        )
    app.config["COVALT_PREVIEWS"] = keys
    guard = guard._replace(is_preview=keys.opens)
    guard.install(app)
    app.add_url_rule("/sign-out", "sign_out", guard.sign_out, methods=["POST"])
    request_context.install(app, root, role, followed)
    http.install(app, OPERATIONS)
    tool_registry.install(app)
    app.add_url_rule("/api/openapi.json", "openapi", _document)
    for pages in PAGES:
        app.register_blueprint(pages)
    index_building.install(app)
    live.install(app, followed)
    static_files.install(app)
    layout.install(app, guard)
    transfer.install(app)
    errors.install(app, [operation.name for operation in OPERATIONS])
    return app


def create_git_app(root: Path, *, token: str, port: int, role: str | None = None) -> Flask:
    """Return the app that serves git below ``/git``; the arguments are those of :func:`create_app`.

    It is a separate app because pushes may be large and slow, and because its errors are for git.
    """
    app = Flask("covalt_server", static_folder=None)
    smart_http.install(
        app, Guard(token, port, startup_config(current_root(root)).server.allowed_hosts)
    )
    request_context.install(app, root, role)
    return app


def _document() -> Response:
    return jsonify(api_document(request.host_url.rstrip("/")))
