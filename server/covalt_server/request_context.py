"""Context of the operations of one HTTP request, and shared objects of the server's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import current_app, g, has_request_context, request
from flask.logging import default_handler

from covalt_git.access import NamedTool, Principal
from covalt_git.calls.background import BackgroundCalls
from covalt_git.index.change_feed import ChangeFeed
from covalt_git.index.server_follower import ServerFollower
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import startup_config, unchanged_config
from covalt_git.names import LOCAL_USER
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.system.node_folder import commit_of, data_of, node_of
from covalt_git.text.log_format import LogFormatter, escape_logs

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask

    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.project_source import ProjectSource
    from covalt_git.operations.registry import Operation, RequestT, ResultT
    from covalt_git.project_watch import WatchedProject
    from covalt_server.api.call_streams import CallStream


_LOG_LINE = "[%(asctime)s] %(levelname)s in %(module)s: %(message)s"
"""Flask's format."""


def install(
    app: Flask, root: Path, role: str | None, followed: WatchedProject | None = None
) -> None:
    """Let the requests of an app work on the project at ``root``; ``followed`` is the watch of its files."""
    app.config["COVALT_ROOT"] = root
    app.config["COVALT_ROLE"] = role
    app.config["COVALT_STREAMS"] = BackgroundCalls()
    app.config["COVALT_FEED"] = open_feed(root, role, followed)
    app.teardown_request(_close)
    escape_logs()
    # The path of a request in an error could otherwise forge lines, or hide others
    # (test_logs_hide_nothing).
    default_handler.setFormatter(LogFormatter(_LOG_LINE))


def open_feed(root: Path, role: str | None, followed: WatchedProject | None = None) -> ChangeFeed:
    """Return a new feed of the changes of the project at ``root``; arguments as of :func:`install`."""
    is_shared = startup_config(current_root(root)).storage.type == "git"
    return ChangeFeed(
        data_of(root) / "chats",
        lambda: Project.cached(root, role).chat_index(),
        lambda: "" if followed is None else followed.last.version,
        ServerFollower(lambda: Project.cached(root, role).chats) if is_shared else None,
    )


def context() -> Context:
    """Return the context of the request, which is closed when the request ends.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
    """
    if "context" not in g:
        # Once, so that one request sees one version of the project.
        root = current_root(current_app.config["COVALT_ROOT"])
        role = current_app.config["COVALT_ROLE"]
        # The project is opened when an operation needs it, so that pages of errors work while covalt.yaml
        # is broken.
        pages = request.host_url if has_request_context() else ""
        holder = token()

        def open_project() -> Project:
            opened = Project.cached(root, role).over("http")
            return opened if holder is None else opened.held_by(holder)

        g.context = Context(
            root,
            open_project,
            page=lambda execution_id: f"{pages}approvals/{execution_id}" if pages else None,
            principal=Principal(LOCAL_USER, role, "http", holder),
        )
    operation_context: Context = g.context
    return operation_context


def token() -> AccessToken | None:
    """Return the facts of the access token of an issuer that the request has; None for the server's own token."""
    holder: AccessToken | None = g.get("access_token")
    return holder


def ask(operation: Operation[RequestT, ResultT], **fields: object) -> ResultT:
    """Perform an operation for the request, with the rules of the API.

    Raises:
        InvalidRequestError: if a field is missing, unknown or invalid.
        CovaltError: as the operation.
    """
    return operation(context(), **fields)


def as_admin(action: str) -> Project:
    """Return the project, for an action of a role with ``admin: true``, such as "grant anything".

    Raises:
        ForbiddenError: if the request's principal has another role.
    """
    context().require_admin(action)
    return project()


def changes_files() -> bool:
    """Return whether the principal may change the project's files here: an admin, unless a node follows a repository."""
    return context().is_admin and commit_of(context().root) is None


def followed_source() -> ProjectSource | None:
    """Return the git repository that the project's files come from; None if they are this folder's own."""
    root = context().root
    return None if commit_of(root) is None else unchanged_config(node_of(root)).project


def project() -> Project:
    """Return the project with its current ``covalt.yaml``.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
    """
    return context().project


def streams() -> BackgroundCalls[CallStream]:
    """Return the calls whose events clients follow."""
    background_calls: BackgroundCalls[CallStream] = current_app.config["COVALT_STREAMS"]
    return background_calls


def feed() -> ChangeFeed:
    change_feed: ChangeFeed = current_app.config["COVALT_FEED"]
    return change_feed


def decidable_approvals() -> int:
    """Return the number of pending approvals that the principal may decide about, as ``list_needs`` has them."""
    visibility, rows = context().visibility, context().chat_index().approvals("pending")
    return sum(
        visibility.may_approve(NamedTool(row["tool_id"])).allowed
        and context().chat_exists(row["chat_id"])
        for row in rows
    )


def _close(_: BaseException | None) -> None:
    if "context" in g:
        g.pop("context").close()
