"""The API's bundles: toolsets that come and go as one file, and toolsets that go for good."""

# ruff: noqa: TC001, TC002 - the annotations are read when models and operations are made

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated, Literal

from flask import send_file
from pydantic import Field
from werkzeug.wrappers import Response

from covalt_git.access import confirmation
from covalt_git.errors import Problem
from covalt_git.files.bundle_reading import MAX_ARCHIVE
from covalt_git.files.bundles import bundle_name, pack_bundle
from covalt_git.installs import removing
from covalt_git.installs.importing import Imported
from covalt_git.installs.importing import import_toolset as take_in
from covalt_git.installs.incoming import Bundle
from covalt_git.secret_values import SecretStore
from covalt_server import current
from covalt_server.admin import ForbiddenError, as_admin
from covalt_server.api_toolsets import (
    GrantAsked,
    McpServerRow,
    ToolsetFile,
    file_rows,
    grants_asked,
    packages,
    server_rows,
)
from covalt_server.contract import Answer, Asked, FormFile, operation
from covalt_server.media_types import BYTES

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

    from covalt_git.models.tool import Tool

_AROUND = 64 << 10
"""What a form may have besides the bundle."""


class ImportSent(Asked):
    """A bundle to take in: the ZIP itself."""

    file: Annotated[tuple[FormFile, ...], Field(min_length=1, max_length=1)]
    dry_run: bool = Field(default=False, description="Tell what would come, and change nothing.")


class ImportFetched(Asked):
    """A bundle to take in: where it is."""

    url: str = Field(max_length=2000, description="An https address of a ZIP.")
    dry_run: bool = Field(default=False, description="Tell what would come, and change nothing.")


class ExportToolset(Asked):
    """Which toolset to send."""

    toolset_id: str = Field(max_length=200)
    allow_guesses: bool = Field(
        default=False, description="Also with what only looks like a credential."
    )


class UninstallToolset(Asked):
    """Which toolset to remove."""

    toolset_id: str = Field(max_length=200)
    force: bool = Field(default=False, description="Also where nothing could bring its files back.")


class ImportedTool(Answer):
    """A tool that came with a bundle; ``requires_confirmation`` says why a person would be asked."""

    tool_id: str
    name: str
    description: str
    kind: Literal["python", "http"]
    requires_confirmation: tuple[str, ...]


class ToolsetImported(Answer):
    """A toolset that came here, or would: switched off, with nothing granted to it."""

    toolset_id: str
    name: str
    version: str
    description: str
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    digest: str
    files: tuple[ToolsetFile, ...]
    tools: tuple[ImportedTool, ...]
    mcp_servers: tuple[McpServerRow, ...]
    python_packages: tuple[str, ...]
    asks: tuple[GrantAsked, ...]
    warnings: tuple[Problem, ...]
    dry_run: bool


class ToolsetUninstalled(Answer):
    """A toolset that is gone; ``undo`` is the command that brings its files back, if any does."""

    toolset_id: str
    digest: str
    undo: str | None


def most_bundle_bytes() -> int:
    """Return the most bytes that a form with a bundle may have."""
    return MAX_ARCHIVE + _AROUND


@operation("POST", errors=(409, 422, 502), multipart=most_bundle_bytes)
def import_toolset(asked: ImportSent | ImportFetched) -> ToolsetImported:
    """Take in the toolset of a ZIP: off, with nothing granted to it.

    It is sent as a form's ``file``, or as JSON with its address.  Nothing of it runs, connects or is
    imported.  One that could be understood in two ways, or that holds what a toolset may not, is
    refused with every place, and nothing of it stays.
    """
    as_admin("take in toolsets")
    if isinstance(asked, ImportFetched):
        return brought(Bundle.fetched(asked.url), dry_run=asked.dry_run)
    return brought(sent(asked.file[0]), dry_run=asked.dry_run)


@operation("GET", errors=(404, 409, 416), media="application/octet-stream", tagged=True)
def export_toolset(asked: ExportToolset) -> Response:
    """Send a toolset as a ZIP: the same files make the same bytes.

    What this project decided about it is not in it.  Where a file of it holds a credential, or the
    value of a secret of this machine, nothing is sent, and every such place is told.
    """
    catalog = current.catalog()
    toolset = catalog.find_toolset(asked.toolset_id)
    if not catalog.sees_all_of(toolset.id, toolset.tool_ids):
        raise ForbiddenError(
            f"your role does not see all of {toolset.id!r}", hint="a role that does may"
        )
    content = pack_bundle(
        current.project().root,
        toolset,
        SecretStore.of_this_machine().known(),
        allow_guesses=asked.allow_guesses,
    )
    return send_file(
        io.BytesIO(content),
        mimetype=BYTES,
        as_attachment=True,
        download_name=bundle_name(toolset),
        etag=toolset.digest.partition(":")[2],
    )


@operation("POST", errors=(404, 409))
def uninstall_toolset(asked: UninstallToolset) -> ToolsetUninstalled:
    """Remove a toolset with what this project decided about it; chats keep what it did.

    It has to be in the last commit as it is, so that Git can bring it back, unless ``force``.
    """
    project = as_admin("remove toolsets")
    gone = removing.uninstall(project.root, asked.toolset_id, force=asked.force)
    current.index().sync_toolsets()
    undo = None if asked.force else f"git checkout HEAD -- toolsets/{gone.id}"
    return ToolsetUninstalled(toolset_id=gone.id, digest=gone.digest, undo=undo)


def sent(file: FileStorage) -> Bundle:
    """Return the file of a form; one byte more than a bundle may have is enough to refuse it."""
    return Bundle.sent(file.stream.read(MAX_ARCHIVE + 1), file.filename or "")


def brought(bundle: Bundle, *, dry_run: bool) -> ToolsetImported:
    """Take in a bundle, or with ``dry_run`` tell what would come.

    Raises:
        CovaltError: as :func:`covalt_git.installs.importing.import_toolset`.
    """
    found = take_in(current.project().root, bundle, dry_run=dry_run)
    if not dry_run:
        current.index().sync_toolsets()
    return _told(found, dry_run=dry_run)


def _told(found: Imported, *, dry_run: bool) -> ToolsetImported:
    toolset = found.toolset
    manifest = toolset.manifest
    assert manifest is not None  # else it is refused
    return ToolsetImported(
        toolset_id=toolset.id,
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        source_type=found.source_type,
        source_ref=found.source_ref,
        digest=toolset.digest,
        files=file_rows(toolset),
        tools=tuple(_tool(tool) for tool in toolset.tools),
        mcp_servers=server_rows(toolset, manifest.mcp_servers),
        python_packages=packages(toolset),
        asks=grants_asked(toolset),
        warnings=tuple(one for one in toolset.problems if one.severity == "warning"),
        dry_run=dry_run,
    )


def _tool(tool: Tool) -> ImportedTool:
    return ImportedTool(
        tool_id=tool.tool_id,
        name=tool.name,
        description=tool.description,
        kind=tool.kind,
        requires_confirmation=confirmation(current.project().config, tool, {}),
    )


OPERATIONS = (import_toolset, export_toolset, uninstall_toolset)
