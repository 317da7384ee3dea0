"""Serving one project: its pages, its chats for git, and the token that opens them."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import UnknownRoleError
from covalt_git.calls.running import RUNNING
from covalt_git.credentials.agent_tokens import PREFIX
from covalt_git.errors import CovaltError
from covalt_git.gateway.http import PLACE
from covalt_git.manifests.project_config import read_config
from covalt_git.project import Project
from covalt_git.serving.body_timeout import TIMEOUT_S, BodyTimeout
from covalt_git.serving.listen_socket import OWN_HOSTS, Listener, listen
from covalt_git.serving.mcp_endpoint import WELL_KNOWN, Agents, Guarded, resource_metadata
from covalt_git.serving.router import router, with_access_log
from covalt_git.serving.server_registry import announced
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import WSGIBridge
from covalt_server.app import create_app, create_git_app
from covalt_server.security import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp

    from covalt_git.credentials.agent_tokens import AgentToken
    from covalt_git.project_watch import WatchedProject

GIT_THREADS = 8
"""How many fetches and pushes run at a time, beside the pages."""

TOKEN_VARIABLE = "COVALT_GIT_TOKEN"  # noqa: S105 - where a token is found, not one
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")


class WeakTokenError(CovaltError):
    """The token that the environment gives would not do."""

    code = "weak_token"


class Serving(NamedTuple):
    """A project that is being served: where, and the token that opens it."""

    root: Path
    listener: Listener
    token: str

    @property
    def url(self) -> str:
        """The address that opens the project in a browser; whoever has it may do everything."""
        return f"{self.listener.address}/?token={self.token}"


def serve(
    start: Path,
    *,
    on_ready: Callable[[Serving], None],
    on_request: Callable[[str], None] | None = None,
    host: str | None = None,
    port: int | None = None,
    role: str | None = None,
    followed: WatchedProject | None = None,
) -> None:
    """Serve the project that ``start`` is in until Ctrl-C or SIGTERM, which end the calls that run.

    ``on_ready`` is called once the server accepts requests, ``on_request`` a line for each of them.  The pages
    of a ``followed`` project tell what is wrong with it, and load again when it changes.

    Raises:
        NotAProjectError: when there is no project.
        BrokenConfigError: when its ``covalt.yaml`` cannot be used.
        UnknownRoleError: when that does not define ``role``.
        CannotListenError: when it cannot listen where it should.
        WeakTokenError: when ``COVALT_GIT_TOKEN`` is too easy to guess, does not fit an address, or is
            an agent's.
    """
    project = Project.open(start, role=role)
    if role is not None and role not in project.config.roles:
        raise UnknownRoleError(role, project.config.roles)
    token = _token()
    listener = listen(project.config.server, host=host, port=port)
    with listener.socket, announced(project.root, listener.address):
        serving = Serving(project.root, listener, token)
        app = faces(
            project.root,
            token=token,
            port=listener.port,
            role=role,
            followed=followed,
            host=listener.host,
        )
        server = Server(
            app if on_request is None else with_access_log(app, on_request),
            lambda: on_ready(serving),
        )
        project.chats.finish_left()
        try:
            server.run([listener.socket])
        finally:
            RUNNING.cancel_all()


def faces(
    root: Path,
    *,
    token: str,
    port: int,
    role: str | None = None,
    followed: WatchedProject | None = None,
    host: str = OWN_HOSTS[0],
    timeout_s: float = TIMEOUT_S,
) -> ASGIApp:
    """Return all that answers for the project at ``root`` on ``port``, each in its place.

    ``host`` is as browsers on this machine write it.  A client has ``timeout_s`` seconds for the next
    part of a request's body.

    Raises:
        BrokenConfigError: when ``covalt.yaml`` cannot be used.
    """
    guard = Guard(token, port, read_config(root).server.allowed_hosts)
    # Who opens it has been let in by the token before, which is in no address that an agent sees.
    approvals = f"http://{host}:{port}/approvals"
    agents = Agents(root, role, pages=lambda execution_id: f"{approvals}/{execution_id}")

    def check(headers: Mapping[str, str]) -> AgentToken | None:
        return guard.check_client(headers, agents.known)

    clients = Guarded(agents, check, metadata=f"{WELL_KNOWN}{PLACE}")
    metadata = Guarded(resource_metadata(["", PLACE]), guard.check_from)
    pages = create_app(root, token=token, port=port, role=role, followed=followed)
    git = create_git_app(root, token=token, port=port, role=role)
    places: dict[str, ASGIApp] = {
        "/git": WSGIBridge(git, threads=GIT_THREADS),
        PLACE: clients,
        WELL_KNOWN: metadata,
    }
    return BodyTimeout(router(WSGIBridge(pages), places, agents.running), timeout_s=timeout_s)


def _token() -> str:
    """Return the token that the environment gives, or a new one."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return secrets.token_urlsafe(32)
    if token.startswith(PREFIX):
        raise WeakTokenError(
            f"{TOKEN_VARIABLE} has an agent's token, which would open everything",
            hint=f"an agent's host has it in another variable: unset {TOKEN_VARIABLE}",
        )
    if not _TOKEN.fullmatch(token):
        raise WeakTokenError(
            f"{TOKEN_VARIABLE} has to be 16 or more letters, digits or any of -._~",
            hint=f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32)",
        )
    return token
