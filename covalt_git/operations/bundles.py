"""The API's bundles: toolsets that come and go as one file, and toolsets that go for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from covalt_git.access import confirmation
from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import Problem
from covalt_git.installs import uninstall, updating
from covalt_git.installs.importing import Imported
from covalt_git.installs.importing import import_toolset as take_in
from covalt_git.installs.local_changes import differences
from covalt_git.installs.pending_imports import Bundle
from covalt_git.installs.signatures import MAX_SIGNATURE
from covalt_git.models.toolset_state import Signer
from covalt_git.operations.context import Context, ForbiddenError
from covalt_git.operations.registry import File, Request, Result, Upload, UploadField, operation
from covalt_git.operations.toolsets import (
    GrantAsked,
    McpServerRow,
    ToolsetFile,
    file_rows,
    grants_asked,
    packages,
    server_rows,
)
from covalt_git.text.media_types import BYTES
from covalt_git.toolsets.export import bundle_name, pack_bundle

if TYPE_CHECKING:
    from covalt_git.installs.updating import Update
    from covalt_git.models.tool import Tool

MOST_FORM_BYTES = MAX_ARCHIVE + (64 << 10)
"""The size of a form with a bundle: the largest bundle, and what is around it."""


_DRY_RUN = "Tell what would come, and change nothing."
_FORCE = "Over one that was imported before: take its files, and give up what was changed here."
_ACCEPT = "Over one that another key signed before, or if nobody signed this one."


class ImportSent(Request):
    """A bundle to take in: the ZIP itself."""

    file: Annotated[tuple[UploadField, ...], Field(min_length=1, max_length=1)]
    signature: Annotated[
        tuple[UploadField, ...],
        Field(max_length=1, description="Its signature, as ssh-keygen makes it: FILE.sig."),
    ] = ()
    dry_run: bool = Field(default=False, description=_DRY_RUN)
    force: bool = Field(default=False, description=_FORCE)
    accept_signer: bool = Field(default=False, description=_ACCEPT)


class ImportFetched(Request):
    """A bundle to take in: where it is."""

    url: str = Field(
        max_length=2000, description="An https address of a ZIP; its signature is that with .sig."
    )
    dry_run: bool = Field(default=False, description=_DRY_RUN)
    force: bool = Field(default=False, description=_FORCE)
    accept_signer: bool = Field(default=False, description=_ACCEPT)


class UpdateToolset(Request):
    """Which toolset to update, from where it came from."""

    toolset_id: str = Field(max_length=200)
    dry_run: bool = Field(default=False, description=_DRY_RUN)
    force: bool = Field(default=False, description=_FORCE)
    accept_signer: bool = Field(default=False, description=_ACCEPT)


class DiffToolset(Request):
    """Which toolset to compare with what it was."""

    toolset_id: str = Field(max_length=200)
    grant: str | None = Field(
        None,
        max_length=200,
        description="The key of a grant: since that was given, not since the import.",
    )


class ExportToolset(Request):
    """Which toolset to send."""

    toolset_id: str = Field(max_length=200)
    allow_guesses: bool = Field(
        default=False, description="Also with what only looks like a credential."
    )


class UninstallToolset(Request):
    """Which toolset to remove."""

    toolset_id: str = Field(max_length=200)
    force: bool = Field(default=False, description="Also where nothing could bring its files back.")


class ImportedTool(Result):
    """A tool that came with a bundle; ``requires_confirmation`` says why a person would be request."""

    tool_id: str
    name: str
    description: str
    kind: Literal["python", "http"]
    requires_confirmation: tuple[str, ...]


class UpdateStep(Result):
    """What becomes of one file; ``kept`` is a local change that the new version does not touch."""

    path: str
    kind: Literal["added", "updated", "removed", "merged", "kept", "conflict"]
    words: str


class ToolsetUpdated(Result):
    """What an update did, or would do.

    Without ``base_known`` nobody has what was imported, so that every difference is a conflict.  Files in
    conflict hold both sides, and no tool can be called until somebody decides.  With ``replaced`` local
    changes were given up; it is the bundle of what was here.  ``problems`` are those of the result.
    """

    toolset_id: str
    old_version: str | None
    new_version: str | None
    digest: str
    files: tuple[UpdateStep, ...]
    conflicts: tuple[str, ...]
    base_known: bool
    ended_grants: tuple[str, ...]
    replaced: str | None
    problems: tuple[Problem, ...]
    dry_run: bool


class FileDifference(Result):
    """A file that is not as it was, with git's patch of it."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    patch: str


class ToolsetDifference(Result):
    """What was changed here of a toolset."""

    toolset_id: str
    files: tuple[FileDifference, ...]


class ToolsetImported(Result):
    """A toolset that came here, or would: switched off, with nothing granted to it.

    ``update`` tells what becomes of the one that was imported before, which stays as switched and
    granted as it was.  ``signer`` is who signed what came, None for nobody.
    """

    toolset_id: str
    name: str
    version: str
    description: str
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    digest: str
    signer: Signer | None
    files: tuple[ToolsetFile, ...]
    tools: tuple[ImportedTool, ...]
    mcp_servers: tuple[McpServerRow, ...]
    python_packages: tuple[str, ...]
    asks: tuple[GrantAsked, ...]
    warnings: tuple[Problem, ...]
    update: ToolsetUpdated | None
    dry_run: bool


class ToolsetUninstalled(Result):
    """A toolset that is gone; ``undo`` is the command that brings its files back, if any does."""

    toolset_id: str
    digest: str
    undo: str | None


@operation(
    changes=True,
    errors=(409, 422, 502),
    upload_limit=lambda _: MOST_FORM_BYTES,
    admin="take in toolsets",
)
def import_toolset(context: Context, request: ImportSent | ImportFetched) -> ToolsetImported:
    """Take in the toolset of a ZIP: off, with nothing granted to it.

    It is sent as a form's ``file``, or as JSON with its address.  EmptyRequest of it runs, connects or is
    imported.  One that could be understood in two ways, that holds what a toolset may not, or whose
    signature is not good, is refused with every place, and nothing of it stays.  One that was imported
    before is updated: merged with what was changed here.
    """
    if isinstance(request, ImportFetched):
        bundle = Bundle.fetched(request.url)
    else:
        bundle = sent(request.file[0], *request.signature)
    return brought(
        context,
        bundle,
        dry_run=request.dry_run,
        force=request.force,
        accept_signer=request.accept_signer,
    )


@operation(changes=True, errors=(404, 409, 422, 502), admin="update toolsets")
def update_toolset(context: Context, request: UpdateToolset) -> ToolsetUpdated:
    """Merge what is newer where the toolset came from with what was changed here.

    Files are merged by lines, YAML key by key; where both sides changed the same, both are there as
    git shows it, and the toolset waits until somebody decides.
    """
    project = context.project
    found = updating.update(
        project.root,
        request.toolset_id,
        dry_run=request.dry_run,
        force=request.force,
        accept_signer=request.accept_signer,
    )
    if not request.dry_run:
        context.index().sync_toolsets()
    return _updated(context, found, dry_run=request.dry_run)


@operation(errors=(404, 409, 422))
def diff_toolset(context: Context, request: DiffToolset) -> ToolsetDifference:
    """Tell what was changed here of a toolset since it was imported, or since a grant of it."""
    catalog = context.catalog
    toolset = catalog.find_toolset(request.toolset_id)
    if not catalog.sees_all_of(toolset.id, toolset.tool_ids):
        raise ForbiddenError(
            f"your role does not see all of {toolset.id!r}", hint="a role that does may"
        )
    found = differences(context.project.root, toolset.id, request.grant)
    return ToolsetDifference(
        toolset_id=toolset.id,
        files=tuple(
            FileDifference(path=one.path, kind=one.kind, patch=one.patch.decode(errors="replace"))
            for one in found
        ),
    )


@operation(errors=(404, 409, 416))
def export_toolset(context: Context, request: ExportToolset) -> File:
    """Send a toolset as a ZIP: the same files make the same bytes.

    What this project decided about it is not in it.  Where a file of it holds a credential, or the
    value of a secret of this machine, nothing is sent, and every such place is told.
    """
    catalog = context.catalog
    toolset = catalog.find_toolset(request.toolset_id)
    if not catalog.sees_all_of(toolset.id, toolset.tool_ids):
        raise ForbiddenError(
            f"your role does not see all of {toolset.id!r}", hint="a role that does may"
        )
    content = pack_bundle(
        context.project.root,
        toolset,
        SecretStore.of_this_machine().known(),
        allow_guesses=request.allow_guesses,
    )
    etag = toolset.digest.partition(":")[2]
    return File.of_bytes(content, bundle_name(toolset), BYTES, etag=etag)


@operation(changes=True, errors=(404, 409), admin="remove toolsets")
def uninstall_toolset(context: Context, request: UninstallToolset) -> ToolsetUninstalled:
    """Remove a toolset with what this project decided about it; chats keep what it did.

    It has to be in the last commit as it is, so that Git can bring it back, unless ``force``.
    """
    project = context.project
    undo = uninstall.undo_command(project.root, request.toolset_id)
    gone = uninstall.uninstall(project.root, request.toolset_id, force=request.force)
    context.index().sync_toolsets()
    return ToolsetUninstalled(
        toolset_id=gone.id, digest=gone.digest, undo=None if request.force else undo
    )


def sent(file: Upload, signature: Upload | None = None) -> Bundle:
    """Return the file of a form; one byte more than a bundle may have is enough to refuse it."""
    signed = signature.stream.read(MAX_SIGNATURE + 1) if signature else None
    return Bundle.sent(file.stream.read(MAX_ARCHIVE + 1), file.name, signed)


def brought(
    context: Context,
    bundle: Bundle,
    *,
    dry_run: bool,
    force: bool = False,
    accept_signer: bool = False,
) -> ToolsetImported:
    """Take in a bundle, or with ``dry_run`` tell what would come.

    Raises:
        CovaltError: as :func:`covalt_git.installs.importing.import_toolset`.
    """
    found = take_in(
        context.project.root,
        bundle,
        dry_run=dry_run,
        force=force,
        accept_signer=accept_signer,
    )
    if not dry_run:
        context.index().sync_toolsets()
    return _told(context, found, dry_run=dry_run)


def _told(context: Context, found: Imported, *, dry_run: bool) -> ToolsetImported:
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
        signer=found.signer,
        files=file_rows(toolset),
        tools=tuple(_tool(context, tool) for tool in toolset.tools),
        mcp_servers=server_rows(toolset, manifest.mcp_servers),
        python_packages=packages(toolset),
        asks=grants_asked(toolset),
        warnings=tuple(one for one in toolset.problems if one.severity == "warning"),
        update=None if found.update is None else _updated(context, found.update, dry_run=dry_run),
        dry_run=dry_run,
    )


def _updated(context: Context, found: Update, *, dry_run: bool) -> ToolsetUpdated:
    root = context.project.root
    return ToolsetUpdated(
        toolset_id=found.toolset.id,
        old_version=found.old_version,
        new_version=found.new_version,
        digest=found.toolset.digest,
        files=tuple(
            UpdateStep(path=one.path, kind=one.kind, words=one.words) for one in found.steps
        ),
        conflicts=tuple(one.path for one in found.conflicts),
        base_known=found.base_known,
        ended_grants=found.ended_grants,
        replaced=found.replaced and found.replaced.relative_to(root).as_posix(),
        problems=found.toolset.problems,
        dry_run=dry_run,
    )


def _tool(context: Context, tool: Tool) -> ImportedTool:
    return ImportedTool(
        tool_id=tool.tool_id,
        name=tool.name,
        description=tool.description,
        kind=tool.kind,
        requires_confirmation=confirmation(context.project.config, tool, {}),
    )
