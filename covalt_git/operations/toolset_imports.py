"""Operations that import, update and uninstall toolsets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from covalt_git.access import confirmation
from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.credentials.ssh_signatures import MAX_SIGNATURE
from covalt_git.errors import CovaltError, Problem
from covalt_git.grants.plans import requested_grants
from covalt_git.grants.requested import requested, variable_base_urls
from covalt_git.grants.status import missing_grants
from covalt_git.installs import importing, uninstall, updating
from covalt_git.installs.importing import Existing
from covalt_git.installs.pending_imports import Bundle
from covalt_git.installs.signatures import UnknownSignerError, verify
from covalt_git.installs.three_way import UpdateStep
from covalt_git.manifests.added_signer import add_signer
from covalt_git.models.allowed_signers import AllowedSigner, BadSignerLineError
from covalt_git.models.sources.server_definition import grant_facts
from covalt_git.models.toolset_state import Signer
from covalt_git.names import MAX_ID
from covalt_git.operations.context import Context
from covalt_git.operations.formats.conversions import (
    SOURCE_FORMAT,
    bundle_at,
    converted_upload,
    is_document,
    source_at,
)
from covalt_git.operations.grants import MOST_PERMISSIONS, Reason
from covalt_git.operations.namespace_problems import taken_namespaces
from covalt_git.operations.registry import (
    TRUSTING,
    Request,
    RequestFile,
    Result,
    ToolsetRequest,
    UploadField,
    invalid_field,
    operation,
)
from covalt_git.operations.results import Failure
from covalt_git.operations.script_folders import ScriptFolders, chosen_folders, offered_folders
from covalt_git.operations.sources import RefreshOutcome, trust_toolset
from covalt_git.operations.toolsets import ToolsetContent, content, planned_permissions
from covalt_git.operations.trust import PermissionRow
from covalt_git.toolsets.state_store import find_toolset

if TYPE_CHECKING:
    from covalt_git.installs.importing import ImportedToolset
    from covalt_git.installs.updating import Update
    from covalt_git.toolsets.toolset import Toolset

MOST_FORM_BYTES = MAX_ARCHIVE + (64 << 10)
"""Maximum size in bytes of a form with a bundle and its signature."""

MOST_SERVERS = 1000
"""Maximum number of MCP servers that an import names."""


class UpdateOptions(Request):
    """Options of imports and updates."""

    dry_run: bool = Field(
        default=False, description="Return what would be imported, and change nothing."
    )
    force: bool = Field(
        default=False,
        description="Replace the files of an imported toolset, and discard local changes.",
    )
    accept_signer: bool = Field(
        default=False,
        description="Also if the installed version was signed with another key, or the new one is not signed.",
    )
    reason: Reason = None


class ImportOptions(UpdateOptions):
    """Options of imports."""

    trust: str | None = Field(
        None,
        max_length=100,
        description="Digest of a dry run that the user has reviewed: grant everything in ``grants``, enable the "
        "toolset, and connect its MCP servers. It is refused for updates.",
    )
    permissions: tuple[str, ...] | None = Field(
        None,
        max_length=MOST_PERMISSIONS,
        description="With ``trust``: digests of the ``permissions`` of the dry run that the user has reviewed; null: all.",
    )
    script_folders: tuple[str, ...] = Field(
        (),
        max_length=MOST_SERVERS,
        description="With ``trust``: the MCP servers whose programs may also read the ``folders`` that"
        " ``script_folders`` of the dry run has for them.",
    )
    existing: Existing | None = Field(
        None,
        description="What to do if a document would remove or change parts of a toolset that exists: ``add`` its parts"
        " to the toolset, or ``replace`` the toolset. Without it, such an import is refused.",
    )
    toolset_id: str | None = Field(
        None, max_length=MAX_ID, description="Import it under this id; null: its own."
    )


class ImportSent(ImportOptions):
    """A bundle to import: the ZIP itself."""

    file: Annotated[tuple[UploadField, ...], Field(min_length=1, max_length=1)]
    signature: Annotated[
        tuple[UploadField, ...],
        Field(max_length=1, description="Its signature by ssh-keygen: FILE.sig."),
    ] = ()
    source_format: str | None = Field(None, max_length=200, description=SOURCE_FORMAT)


class ImportFetched(ImportOptions):
    """A bundle to import: its URL."""

    url: str = Field(
        max_length=2000,
        description="An https URL of a ZIP; its signature is at that URL with .sig.",
        json_schema_extra={"pattern": "^https?://[^/]"},
    )


class ImportToolsetFrom(ImportOptions):
    """Request: the source of a toolset to import, and its signature."""

    source: str = Field(
        description="A ZIP, a folder, an https URL, or a document in a format of list_formats."
    )
    source_format: str | None = Field(None, max_length=200, description=SOURCE_FORMAT)
    signature: Path | None = Field(None, description="Its signature, if it is not FILE.sig.")
    trusted_signer: str | None = Field(
        None,
        max_length=10_000,
        description="A line to add to signers in covalt.yaml, with the key that signed the bundle.",
    )
    unsigned: bool = Field(default=False, description="Import it as if it had no signature.")
    sha256: str | None = Field(
        None,
        pattern="^[0-9A-Fa-f]{64}$",
        description="Import only a file with this SHA-256, as ``fileSha256`` of a server.json.",
    )


def _decision(_: Context, request: UpdateOptions) -> str:
    """Return what a user decides by an import or an update, if it does more than to store the files."""
    if request.dry_run:
        return ""
    adds_signer = isinstance(request, ImportToolsetFrom) and request.trusted_signer is not None
    # Another signer may replace the code of a toolset that is enabled and has grants
    # (tests/security/test_decisions_need_a_user.py).
    if adds_signer or request.accept_signer:
        return "signers are trusted"
    return TRUSTING if isinstance(request, ImportOptions) and request.trust is not None else ""


class UpdateToolset(ToolsetRequest, UpdateOptions):
    """Request: the toolset to update from its source."""


class UpdateToolsetFrom(UpdateToolset):
    """A toolset to update, and the source of the newer version."""

    source: str | None = Field(None, description="A ZIP, a folder or an https URL.")
    signature: Path | None = Field(None, description="Its signature, if it is not FILE.sig.")


class UninstallToolset(ToolsetRequest):
    """Request: the toolset to remove."""

    force: bool = Field(default=False, description="Also if git cannot restore its files.")


class ImportedTool(Result):
    """A tool of a bundle; ``requires_confirmation`` has the reasons for an approval."""

    tool_id: str
    name: str
    description: str
    kind: Literal["python", "http"]
    requires_confirmation: tuple[str, ...]


class ToolsetUpdated(Result):
    """The result of an update or of its dry run.

    Without ``base_known`` the imported version no longer exists, so every difference is a conflict.  Files
    with conflicts contain both versions, and no tool can be called until a user resolves them.
    ``replaced`` is a bundle of the previous files, if local changes were discarded.  ``problems`` are those
    of the updated toolset.
    """

    toolset_id: str
    old_version: str | None
    new_version: str | None
    digest: str
    files: tuple[UpdateStep, ...]
    conflicts: tuple[str, ...]
    base_known: bool
    ended_grants: tuple[str, ...]
    ended: dict[str, tuple[str, ...]] = Field(
        description="The changes that ended each of these grants, and the HTTP tools that keep it."
    )
    replaced: str | None
    newly_wants: dict[str, tuple[str, ...]] = Field(
        description="The grants and packages that the toolset newly needs, by kind."
    )
    problems: tuple[Problem, ...]
    dry_run: bool


class GrantToAdd(Result):
    """A grant that a toolset requests and lacks; ``name`` is the secret or the MCP server."""

    kind: Literal["network", "secret", "server"]
    name: str | None
    host: str | None
    digest: str = Field(
        description="Digest of what is granted: the toolset's files, or the server with its files."
    )

    @property
    def words(self) -> str:
        """The grant in the words of ``grant add``."""
        return " ".join(filter(None, (self.kind, self.name, self.host)))


class ToolsetImported(ToolsetContent):
    """An imported toolset, disabled and without grants; with ``dry_run``, one that would be imported.

    ``update`` is set if the toolset was imported before; it stays enabled or disabled, and keeps its
    grants.  ``signer`` is null if the bundle is not signed.
    """

    toolset_id: str
    name: str
    version: str
    description: str
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    digest: str
    signer: Signer | None
    unknown_key: str = Field(
        "",
        description="With dry_run: the signing key, if signers in covalt.yaml does not contain it.",
    )
    signer_problem: Failure | None = Field(
        None, description="With dry_run: why an import would be refused because of that key."
    )
    tools: tuple[ImportedTool, ...]
    wants: dict[str, tuple[str, ...]] = Field(
        description="The grants and packages that the toolset needs, by kind."
    )
    warnings: tuple[Problem, ...]
    update: ToolsetUpdated | None
    replaces: tuple[str, ...] = Field(
        description="Parts of the existing toolset that a document would remove or change; then an import needs"
        " ``existing`` or another ``toolset_id``."
    )
    taken: tuple[str, ...] = Field(
        description="What happens to each of its namespaces that another toolset declares too, one line for each toolset."
    )
    free_id: str = Field(description="An id that no toolset of the project has.")
    conversion: tuple[str, ...] = Field(
        description="What a conversion from another format changed: lost values and credentials."
    )
    dry_run: bool
    grants: tuple[GrantToAdd, ...] = Field(description="What an import with ``trust`` grants.")
    permissions: tuple[PermissionRow, ...] = Field(
        description="Exactly what an import with ``trust`` trusts on this machine by these grants."
    )
    script_folders: tuple[ScriptFolders, ...] = Field(
        description="The MCP servers whose commands name files that the sandbox does not show, with the folders that an"
        " import with ``trust`` can also grant."
    )
    trusted: bool = Field(
        default=False, description="Whether the toolset was enabled and got ``grants``."
    )
    sources: tuple[RefreshOutcome, ...] = Field(
        (), description="With ``trust``: the result of connecting to each MCP server."
    )


class ToolsetUninstalled(Result):
    """A removed toolset; ``undo`` is the command that restores its files, if there is one."""

    toolset_id: str
    digest: str
    undo: str | None


@operation(
    changes=True,
    errors=(409, 422, 502),
    upload_limit=lambda _: MOST_FORM_BYTES,
    admin="import toolsets",
    decides=_decision,
)
def import_toolset(context: Context, request: ImportSent | ImportFetched) -> ToolsetImported:
    """Import the toolset of a ZIP or of a document in a format of list_formats, disabled and without grants.

    The request is a form with a ``file``, or JSON with the URL of a ZIP.  None of the toolset's code runs, and none
    of its servers is connected.  A bundle that is ambiguous, has forbidden files or an invalid signature is
    rejected with all problems, and not stored.  If the toolset was imported before, the new version is merged
    with the local changes.  A document that would replace parts of a toolset is refused without ``existing``.
    With ``trust``, it also gets the reviewed ``grants`` and is enabled.  ``script_folders`` adds the folders of the
    scripts of its servers to these grants.
    """
    if isinstance(request, ImportFetched):
        bundle = Bundle.download(request.url)
    else:
        bundle = uploaded_bundle(
            request.file[0], *request.signature, source_format=request.source_format
        )
    return _import(context, bundle, request)


@operation(
    changes=True,
    admin="import toolsets",
    local=True,
    decides=_decision,
)
def import_toolset_from(context: Context, request: ImportToolsetFrom) -> ToolsetImported:
    """Import the toolset of a ZIP, a folder or an https URL, as import_toolset does.

    ``trusted_signer`` is added to covalt.yaml once the bundle and its signature have been checked.
    """
    location = source_at(context, request.source)
    source = bundle_at(
        context, location, request.signature, request.source_format, sha256=request.sha256
    )
    signature = source.signature if isinstance(source, Bundle) else None
    if request.unsigned or request.trusted_signer is not None:
        if signature is None or not isinstance(source, Bundle):
            raise CovaltError("it has no signature", hint="leave out --trust-signer and --unsigned")
        if request.unsigned:
            source = replace(source, signature=None)
        elif request.trusted_signer is not None:
            trust_signer(
                context,
                source,
                request.trusted_signer,
                dry_run=request.dry_run,
                reason=request.reason,
            )
    return _import(context, source, request)


@operation(changes=True, errors=(404, 409, 422, 502), admin="update toolsets", decides=_decision)
def update_toolset(context: Context, request: UpdateToolset) -> ToolsetUpdated:
    """Merge the newest version of an imported toolset with the local changes.

    Files are merged by lines, YAML key by key.  If both sides changed the same lines, the file has both
    with conflict markers, and the toolset cannot be used until a user resolves them.
    """
    return _update(context, request)


@operation(changes=True, admin="update toolsets", local=True, decides=_decision)
def update_toolset_from(context: Context, request: UpdateToolsetFrom) -> ToolsetUpdated:
    """Merge a newer version of a ZIP, a folder or an https URL, as update_toolset does."""
    source = source_at(context, request.source) if request.source is not None else None
    return _update(context, request, source, request.signature)


@operation(changes=True, errors=(404, 409), admin="remove toolsets")
def uninstall_toolset(context: Context, request: UninstallToolset) -> ToolsetUninstalled:
    """Remove a toolset and its state; chats keep its results.

    Without ``force``, its files must be committed, so that git can restore them.
    """
    project = context.project
    # Before the removal, after which git has nothing to name.
    undo = uninstall.undo_command(project.root, request.toolset_id)
    gone = uninstall.uninstall(project.root, request.toolset_id, force=request.force)
    context.update_toolset_index()
    return ToolsetUninstalled(
        toolset_id=gone.id, digest=gone.digest, undo=None if request.force else undo
    )


def uploaded_bundle(
    file: RequestFile, signature: RequestFile | None = None, *, source_format: str | None = None
) -> Bundle:
    """Return the uploaded ZIP, or that of an uploaded document in another format, by default recognized.

    At most one byte more than the limit is read, so that a larger file is rejected.
    """
    signed = signature.stream.read(MAX_SIGNATURE + 1) if signature else None
    bundle = Bundle.upload(file.stream.read(MAX_ARCHIVE + 1), file.name, signed)
    return bundle if signed is not None else converted_upload(bundle, source_format)


def import_bundle(
    context: Context,
    bundle: Bundle | Path,
    *,
    dry_run: bool,
    force: bool = False,
    accept_signer: bool = False,
    trust: str | None = None,
    permissions: tuple[str, ...] | None = None,
    script_folders: tuple[str, ...] = (),
    reason: str | None = None,
    existing: Existing | None = None,
    toolset_id: str | None = None,
) -> ToolsetImported:
    """Import a bundle, or with ``dry_run`` return what would be imported.

    A dry run also accepts a bundle that is signed with an unknown key, if the signature is valid.  With
    ``trust``, the reviewed digest, the toolset also gets the requested grants, is enabled and connected; the ``reason``
    that a script states is stored with them.  ``permissions`` are the digests of those that the user has reviewed.
    ``script_folders`` are the servers whose programs may also read the folders of their scripts.

    Raises:
        InvalidRequestError: with ``script_folders``, without ``trust``, or if no folder is offered for a server;
            nothing is imported.
        CovaltError: ``trust_refused``, with ``trust``, if the toolset was imported before.
        SandboxNeededError: with ``trust``, if this machine has no sandbox.
        StaleError: with ``trust``, if it is not the digest of the toolset, or the permissions are others by now; then
            the toolset is imported, disabled and without grants.
        CovaltError: as :func:`covalt_git.installs.importing.import_toolset`.
    """
    install = partial(
        importing.import_toolset,
        context.project.root,
        dry_run=dry_run,
        force=force,
        reason=reason,
        # Compared under the lock, with the staged files: a folder may change after its review
        # (test_an_import_with_trust_checks_the_files_that_it_imports).
        reviewed=None if dry_run else trust,
        existing=existing,
        toolset_id=toolset_id,
    )
    if script_folders and not dry_run:
        if trust is None:
            raise invalid_field("script_folders", "folders are granted only with trust")
        # Before the import, which a wrong name must not leave half done.
        preview = install(bundle, accept_signer=accept_signer, dry_run=True, reviewed=None)
        if preview.update is None:  # an update is refused with ``trust``
            chosen_folders(offered_folders(context, preview.toolset), script_folders)
    try:
        imported_toolset = install(bundle, accept_signer=accept_signer)
    except UnknownSignerError as error:
        # The signature was verified with this key, so the key did sign what the user reviews; only whose key it is
        # stays open.
        if not dry_run or not error.public_key or not isinstance(bundle, Bundle):
            raise
        imported_toolset = install(replace(bundle, signature=None), accept_signer=True)
        return _import_result(context, imported_toolset, bundle, dry_run=True, unknown=error)
    if not dry_run:
        context.update_toolset_index()
    result = _import_result(context, imported_toolset, bundle, dry_run=dry_run)
    if trust is None or dry_run:
        return result
    folders = chosen_folders(result.script_folders, script_folders)
    sources = trust_toolset(context, imported_toolset.toolset, permissions, reason, folders)
    # It is enabled now, so that it may have a namespace that a disabled toolset declares.
    taken = tuple(taken_namespaces(context, imported_toolset.toolset))
    return result.model_copy(update={"trusted": True, "sources": sources, "taken": taken})


def _import(context: Context, bundle: Bundle | Path, options: ImportOptions) -> ToolsetImported:
    return import_bundle(
        context, bundle, **{name: getattr(options, name) for name in ImportOptions.model_fields}
    )


def trust_signer(
    context: Context,
    bundle: Bundle,
    line: str,
    *,
    dry_run: bool = False,
    reason: str | None = None,
) -> None:
    """Add a line to ``signers``, if its key signed the bundle and the bundle has no other problem.

    The ``reason`` that a script states is a comment there.

    Raises:
        CovaltError: if the line is invalid, and as :func:`import_bundle`.
    """
    assert bundle.signature is not None
    try:
        AllowedSigner.parse(line)
    except BadSignerLineError as error:
        raise CovaltError(f"the `signers` entry {line!r} {error.reason}", hint=error.hint) from None
    verify(bundle.content, bundle.signature, [line])
    import_bundle(context, replace(bundle, signature=None), dry_run=True, accept_signer=True)
    if not dry_run:
        add_signer(context.project.root, line, reason)


def _update(
    context: Context,
    request: UpdateToolset,
    source: Path | str | None = None,
    signature: Path | None = None,
) -> ToolsetUpdated:
    options = {name: getattr(request, name) for name in UpdateOptions.model_fields}
    root, toolset_id = context.project.root, request.toolset_id
    installed = find_toolset(root, toolset_id)
    file = source
    if file is None and installed.state.imported:  # otherwise the update refuses it, and says why
        file = updating.source_of(root, installed)
    newer: Path | str | Bundle | None = source
    if isinstance(file, Path) and signature is None and is_document(file):
        newer = bundle_at(context, file, None)
        if source is None and isinstance(newer, Bundle):
            newer = replace(newer, source_ref=installed.state.source_ref or "")
    update = updating.update(root, toolset_id, newer, signature=signature, **options)
    if not request.dry_run:
        context.update_toolset_index()
    return _update_result(context, update, dry_run=request.dry_run)


def _wants(toolset: Toolset) -> dict[str, tuple[str, ...]]:
    """Return the grants and packages that a toolset needs, by kind."""
    manifest = toolset.manifest
    if manifest is None:
        return {}
    hosts = [grant.host for grant in requested(toolset) if grant.kind == "network" and grant.host]
    wants = {
        "hosts": (*hosts, *(f"the value of {text}" for text in variable_base_urls(toolset))),
        "secrets": tuple(manifest.secrets),
        "MCP servers": tuple(server.id for server in manifest.mcp_servers),
        "Python packages": tuple(manifest.python.dependencies),
    }
    return {title: names for title, names in wants.items() if names}


def _newly_wants(update: Update) -> dict[str, tuple[str, ...]]:
    old_needs = _wants(update.before)
    # If the manifest has a conflict, only the needs of the newer version are known.
    after = update.toolset if update.toolset.manifest else update.theirs
    new = {
        title: tuple(name for name in names if name not in old_needs.get(title, ()))
        for title, names in _wants(after).items()
    }
    return {title: names for title, names in new.items() if names}


def _import_result(
    context: Context,
    imported_toolset: ImportedToolset,
    bundle: Bundle | Path,
    *,
    dry_run: bool,
    unknown: UnknownSignerError | None = None,
) -> ToolsetImported:
    toolset = imported_toolset.toolset
    manifest = toolset.manifest
    assert manifest is not None  # otherwise the bundle is rejected
    return ToolsetImported.of(
        imported_toolset,
        toolset_id=toolset.id,
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        unknown_key=unknown.public_key if unknown else "",
        signer_problem=Failure.of_error(unknown) if unknown else None,
        digest=toolset.digest,
        **content(toolset, manifest.mcp_servers),
        tools=tuple(
            ImportedTool.of(
                tool, requires_confirmation=confirmation(context.project.config, tool, {})
            )
            for tool in toolset.tools
        ),
        wants=_wants(toolset),
        grants=_grants_to_add(toolset),
        permissions=planned_permissions(context, toolset, requested_grants),
        script_folders=offered_folders(context, toolset),
        warnings=tuple(problem for problem in toolset.problems if problem.severity == "warning"),
        taken=tuple(taken_namespaces(context, toolset)),
        update=None
        if imported_toolset.update is None
        else _update_result(context, imported_toolset.update, dry_run=dry_run),
        conversion=bundle.notes if isinstance(bundle, Bundle) else (),
        dry_run=dry_run,
    )


def _update_result(context: Context, update: Update, *, dry_run: bool) -> ToolsetUpdated:
    root = context.project.root
    return ToolsetUpdated.of(
        update,
        toolset_id=update.toolset.id,
        digest=update.toolset.digest,
        files=update.steps,
        conflicts=tuple(conflict.path for conflict in update.conflicts),
        ended_grants=tuple(update.ended_grants),
        ended=update.ended_grants,
        replaced=update.replaced and update.replaced.relative_to(root).as_posix(),
        newly_wants=_newly_wants(update),
        problems=update.toolset.problems,
        dry_run=dry_run,
    )


def _grants_to_add(toolset: Toolset) -> tuple[GrantToAdd, ...]:
    """Return the grants that a toolset requests and lacks."""
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    # By the server alone, because a server may have the id network
    # (test_a_grant_of_hosts_is_for_the_files_also_beside_a_server_named_network).
    digests = {server.id: grant_facts(server, toolset.files.hashes)["digest"] for server in servers}
    return tuple(
        GrantToAdd.of(grant, digest=digests.get(grant.server, toolset.digest))
        for grant in missing_grants(toolset)
    )
