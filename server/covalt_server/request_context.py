"""What one request works with: the project as its files are now, its index, and an open chat.

All of it is opened on first use and closed when the request ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from flask import current_app, g
from flask.logging import default_handler

from covalt_git.access import sees_everything
from covalt_git.calls.background import BackgroundCalls
from covalt_git.errors import CovaltError
from covalt_git.index.database import IndexUnusableError
from covalt_git.project import Project
from covalt_git.text.log_format import LogFormatter, escape_logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flask import Flask

    from covalt_git.catalog.catalog import Catalog
    from covalt_git.index.index import Index
    from covalt_git.json_values import JsonObject
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.writing import Writer
    from covalt_server.api.call_streams import CallStream


_LOG_LINE = "[%(asctime)s] %(levelname)s in %(module)s: %(message)s"
"""As Flask writes it."""


def install(app: Flask, root: Path, role: str | None) -> None:
    """Let the requests of an app work on the project at ``root``."""
    app.config["COVALT_ROOT"] = root
    app.config["COVALT_ROLE"] = role
    app.config["COVALT_STREAMS"] = BackgroundCalls()
    app.teardown_request(_close)
    escape_logs()
    default_handler.setFormatter(LogFormatter(_LOG_LINE))


def project() -> Project:
    """Return the project as its ``covalt.yaml`` says now.

    Raises:
        BrokenConfigError: when that cannot be used.
    """
    if "project" not in g:
        root, role = current_app.config["COVALT_ROOT"], current_app.config["COVALT_ROLE"]
        g.project = Project.cached(root, role)
    opened: Project = g.project
    return opened


def streams() -> BackgroundCalls[CallStream]:
    """Return the calls that are followed."""
    found: BackgroundCalls[CallStream] = current_app.config["COVALT_STREAMS"]
    return found


def catalog() -> Catalog:
    """Return what the principal may see and call."""
    return project().catalog


def index() -> Index:
    """Return the index as it is: whoever asks it for chats or toolsets brings those in first.

    Raises:
        IndexUnusableError: when it can be neither read nor made.
    """
    if "index" not in g:
        g.index = project().index()
    opened: Index = g.index
    return opened


def toolset_index() -> Index:
    """Return the index, the toolsets in it as their files are now.

    Raises:
        IndexUnusableError: when it can be neither read nor made.
    """
    if "toolsets_are_read" not in g:
        index().sync_toolsets()
        g.toolsets_are_read = True
    return index()


def waiting_approvals() -> list[JsonObject]:
    """Return the rows of the approvals that wait and exist for the principal, oldest first."""
    approvals = project().approvals()
    return [row for row in index().approvals("pending") if approvals.exists(row["tool_id"])]


def chat(chat_id: str) -> ChatStore:
    """Return a chat, open for reading until the request ends.

    Raises:
        UnknownNameError: naming the nearest one.
    """
    opened: dict[str, ChatStore] = g.setdefault("chats", {})
    if chat_id not in opened:
        opened[chat_id] = project().chats.open(chat_id)
    return opened[chat_id]


def indexed(store: ChatStore) -> None:
    """Bring what happened in a chat into the index; that it is a cache is no reason to fail."""
    try:
        index().sync_chat(store)
    except IndexUnusableError as error:
        current_app.logger.warning("%s", error.message)


@contextmanager
def writing(store: ChatStore) -> Iterator[Writer]:
    """Hold a chat for writing, and bring what happened into the index afterwards.

    Raises:
        ChatBusyError: when somebody else has been writing for too long.
    """
    with project().writing(store) as writer:
        yield writer
    indexed(store)


def _close(_: BaseException | None) -> None:
    for store in g.pop("chats", {}).values():
        store.store.close()
    if "index" in g:
        g.pop("index").connection.close()


class ForbiddenError(CovaltError):
    """The role may see that there is such a thing, and may not do it."""

    code = "forbidden"
    http_status = 403


def is_admin() -> bool:
    """Tell whether nothing could be hidden from the request's principal.

    Raises:
        UnknownRoleError: when its role is not defined.
    """
    opened = project()
    return sees_everything(opened.config, opened.principal)


def as_admin(what: str) -> Project:
    """Return the project, to do what is for such a role only, such as ``"grant anything"``.

    Raises:
        ForbiddenError: when the request's principal may not.
    """
    if not is_admin():
        raise ForbiddenError(f"your role may not {what}", hint="a role with admin: true may")
    return project()
