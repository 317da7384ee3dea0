"""Operations on the MCP servers in the configuration files of this machine's MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.errors import CovaltError, UnknownNameError, WrongCallError
from covalt_git.formats import recognition
from covalt_git.formats.conversion import LostValue
from covalt_git.formats.mcp_clients import host_files
from covalt_git.formats.mcp_clients.host_files import HostFileRow
from covalt_git.formats.mcp_clients.hosts import HOSTS
from covalt_git.formats.recognition import AmbiguousFormatError
from covalt_git.installs.pending_imports import shown_source
from covalt_git.operations.context import Context
from covalt_git.operations.formats.conversions import DocumentBundle, bundle_of, document_at
from covalt_git.operations.registry import EmptyRequest, Request, Result, operation
from covalt_git.operations.toolset_imports import ToolsetImported, import_bundle

if TYPE_CHECKING:
    from covalt_git.formats.documents import Document
    from covalt_git.formats.mcp_clients.hosts import Host

_HOST = "The host, such as claude-code; null: recognized from the content."


class ListHostServers(Request):
    """Request: the file of a host whose servers are listed."""

    path: Path
    host: str | None = Field(None, description=_HOST)


class ImportHostServers(Request):
    """Request: the file of a host, and the servers to import from it."""

    path: Path
    host: str | None = Field(None, description=_HOST)
    servers: tuple[str, ...] = Field(description="The names of the servers; empty: all of them.")
    dry_run: bool = Field(default=False, description="Only return what would be imported.")


class HostFileList(Result):
    """The configuration files of MCP clients that exist for this project and this user."""

    files: tuple[HostFileRow, ...]


class HostServers(Result):
    """The servers of a file that can be imported."""

    host: str
    servers: tuple[str, ...]


class ServerLeftOut(Result):
    """A server of a file that was not imported, and why."""

    server: str
    reason: str


class HostServersImported(Result):
    """The imported servers, each a toolset that is disabled and has no grants."""

    imported: tuple[ToolsetImported, ...]
    secrets: tuple[str, ...] = Field(description="Names of the secrets that replace credentials.")
    lost: tuple[LostValue, ...]
    notes: tuple[str, ...] = Field(description="What an author should know of the import.")
    left_out: tuple[ServerLeftOut, ...] = Field(
        description="Servers that cannot be imported, if all were requested."
    )


@operation(local=True)
def list_host_files(context: Context, _request: EmptyRequest) -> HostFileList:
    """List the configuration files of MCP clients that exist; no file is parsed."""
    return HostFileList(files=tuple(host_files.existing_files(context.project.root)))


@operation(local=True)
def list_host_servers(context: Context, request: ListHostServers) -> HostServers:
    """List the MCP servers of a host's file, of which some can be for the project's folder only."""
    document, host = _document(context, request.path, request.host)
    return HostServers(host=host.name, servers=tuple(host_files.servers(document, host)))


@operation(changes=True, admin="import toolsets", local=True)
def import_host_servers(context: Context, request: ImportHostServers) -> HostServersImported:
    """Import MCP servers of a host's file, each as a toolset that is disabled and has no grants.

    Credentials become references to secrets.  No program is started.  Of all servers of a file, those that
    cannot be imported are left out, for example because a toolset with the name exists.
    """
    document, host = _document(context, request.path, request.host)
    named = host.name, request.path.name, shown_source(request.path)
    bundles: list[DocumentBundle] = []
    imported: list[ToolsetImported] = []
    left_out: list[ServerLeftOut] = []
    names = request.servers or host_files.servers(document, host)
    if not request.servers:
        others = [name for name in host.servers(document.value) or {} if name not in names]
        entries = host.servers(document.value) or {}
        left_out += [
            ServerLeftOut(server=name, reason=_why_not(document, host, name)) for name in others
        ]
        own = [name for name in names if host_files.is_own(host, entries[name])]
        left_out += [ServerLeftOut(server=name, reason="it is covalt-git itself") for name in own]
        names = [name for name in names if name not in own]
    for name in names:
        # Alone, so that its toolset contains no part of the file's other servers.
        server = host_files.only_server(document, host, name)
        try:
            bundle = bundle_of(server, *named)
            if not request.servers:
                _check_new(context, bundle, name)
            imported.append(
                import_bundle(
                    context,
                    bundle.bundle,
                    dry_run=request.dry_run,
                    existing="replace" if request.servers else None,
                )
            )
        except CovaltError as error:
            # A server that the user named has to be imported; of all servers, a wrong one stops no other.
            if request.servers:
                raise
            left_out.append(ServerLeftOut(server=name, reason=_reason(error)))
            continue
        bundles.append(bundle)
    return HostServersImported(
        imported=tuple(imported),
        secrets=tuple(dict.fromkeys(name for bundle in bundles for name in bundle.secrets)),
        # The rules of a file beside its servers concern each of them; one line is enough.
        lost=tuple(dict.fromkeys(value for bundle in bundles for value in bundle.lost)),
        notes=tuple(dict.fromkeys(note for bundle in bundles for note in bundle.notes)),
        left_out=tuple(left_out),
    )


def _why_not(document: Document, host: Host, name: str) -> str:
    """Return why an entry of a file is not a server that can be imported, with its place."""
    try:
        bundle_of(host_files.only_server(document, host, name), host.name, name, "")
    except CovaltError as error:
        return _reason(error)
    return "it has no command and no URL of a server"


def _reason(error: CovaltError) -> str:
    """Return the message of an error, or the first of its problems with its place, for one server of several."""
    problem = next(iter(error.problems), None)
    # Of the file, "nothing was written" would be wrong: its other servers are imported.
    return (
        f"{problem.path}:{problem.line}:{problem.col} {problem.message}"
        if problem
        else error.message
    )


def _check_new(context: Context, bundle: DocumentBundle, name: str) -> None:
    """Refuse a server whose toolset exists: it may come from the file of another host."""
    preview = import_bundle(context, bundle.bundle, dry_run=True)
    if preview.update is not None:
        raise CovaltError(
            f"the toolset {preview.toolset_id!r} already exists; --server {name} updates it"
        )


def _document(context: Context, path: Path, name: str | None) -> tuple[Document, Host]:
    hosts = {host.name: host for host in HOSTS}
    if name is not None and name not in hosts:
        raise UnknownNameError("host", name, list(hosts), list_with="covalt-git mcp import")
    document = host_files.with_local_servers(document_at(path), context.project.root)
    try:
        file_format = recognition.recognize(document, name)
    except AmbiguousFormatError as error:
        error.hint = error.hint.replace("--from", "--host")
        raise
    if file_format.name not in hosts:
        raise WrongCallError(
            f"{str(path)!r} is {file_format.title}, not a file of an MCP client",
            hint=f"covalt-git bundle import {path}",
        )
    return document, hosts[file_format.name]
