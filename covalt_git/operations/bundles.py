"""Operations on bundles: export toolsets, verify them, and show local changes."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.formats.mcp_packages.served_toolset import MAX_NAME, server_json
from covalt_git.installs import verify
from covalt_git.installs.local_changes import FileDifference, differences
from covalt_git.installs.signatures import sign, signature_path
from covalt_git.json_values import JsonObject
from covalt_git.manifests.machine_folders import check_output
from covalt_git.models.toolset_state import Signer
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, ResultFile, ToolsetRequest, operation
from covalt_git.operations.results import Failure
from covalt_git.system import atomic_write
from covalt_git.text.media_types import BYTES
from covalt_git.toolsets.export import bundle_name, pack_bundle
from covalt_git.toolsets.placeholders import ReplacedCredential, copy_with_placeholders

if TYPE_CHECKING:
    from covalt_git.toolsets.toolset import Toolset


class ToolsetUnusableError(CovaltError):
    """The toolset is disabled or has errors, so it is not served."""

    code = "toolset_disabled"
    http_status = 409


class DiffToolset(ToolsetRequest):
    """Request: the toolset to compare with one of its earlier versions."""

    grant: str | None = Field(
        None,
        max_length=200,
        description="The key of a grant, to compare with the version at that grant.",
    )


class ExportToolset(ToolsetRequest):
    """Request: the toolset to export."""

    allow_guesses: bool = Field(
        default=False, description="Export also files with values that only look like credentials."
    )
    placeholders: bool = Field(
        default=False,
        description="Replace credentials of toolset.yaml by ${NAME}, and add the names to its secrets.",
    )


class WriteBundle(ExportToolset):
    """A toolset to export, and the file to write."""

    path: Path | None = Field(None, description="By default ID-VERSION.zip.")
    key: Path | None = Field(None, description="The key of ssh-keygen that signs it.")


class ExportServerJson(ToolsetRequest):
    """A toolset that is served over MCP, and how the MCP registry lists it."""

    server_name: str = Field(
        max_length=MAX_NAME, description="In reverse DNS, such as io.github.ada/data-lab."
    )
    server_url: str = Field(
        max_length=2000, description="At which others reach /mcp: https://tools.example.com/mcp."
    )


class WriteServerJson(ExportServerJson):
    """The server.json of a toolset, and the file to write."""

    path: Path = Field(Path("server.json"), description="The file to write.")


class VerifyBundle(Request):
    """Request: the bundle to verify."""

    file: Path
    signature: Path | None = Field(None, description="Its signature, if it is not FILE.sig.")


class ToolsetDifference(Result):
    """The local changes of a toolset."""

    toolset_id: str
    files: tuple[FileDifference, ...]


class BundleWritten(Result):
    """A bundle that was written to a file."""

    toolset_id: str
    version: str
    file: Path
    files: int = Field(description="Number of files in it.")
    bytes: int
    sha256: str
    digest: str = Field(description="Of the toolset.")
    signature: Path | None = Field(description="The file of its signature.")
    placeholders: tuple[ReplacedCredential, ...] = Field(
        description="Credentials that were replaced in the exported copy."
    )


class ServerJson(Result):
    """The server.json of a toolset for the MCP registry."""

    toolset_id: str
    server: JsonObject = Field(description="In the format of the registry's schema 2025-12-11.")


class ServerJsonWritten(ServerJson):
    """A server.json that was written to a file."""

    file: Path


class Recorded(Result):
    """The recorded facts of a toolset's import."""

    version: str | None
    digest: str | None
    signer: Signer | None
    installed_at: str | None


class BundleVerified(Result):
    """A bundle that can be imported, compared with the project's toolset with the same id."""

    toolset_id: str
    version: str
    digest: str
    signer: Signer | None
    installed: bool = Field(description="Whether this project has a toolset with its id.")
    changed_here: bool = Field(description="Whether the imported files were changed since.")
    recorded: Recorded | None
    is_recorded: bool | None = Field(
        description="Whether it is the imported version; null if no toolset of its id was imported."
    )
    problem: Failure | None = Field(description="Why an import would reject its signer.")


class ToolsetVerified(Result):
    """A toolset of this project, compared with its recorded digest, grants and accepted tools."""

    toolset_id: str
    digest: str
    recorded: Recorded
    is_recorded: bool | None = Field(
        description="Whether its files are the imported ones; null for the project's own."
    )
    grants: dict[str, bool] = Field(description="Whether each grant is valid.")
    accepted: dict[str, bool] = Field(description="Whether each accepted tool is unchanged.")


@operation(errors=(404, 409, 422))
def diff_toolset(context: Context, request: DiffToolset) -> ToolsetDifference:
    """Compare a toolset with its imported version, or with its version at a grant."""
    toolset = find_visible_toolset(context, request.toolset_id)
    changes = differences(context.project.root, toolset.id, request.grant)
    return ToolsetDifference(toolset_id=toolset.id, files=tuple(changes))


@operation(errors=(404, 409, 416))
def export_toolset(context: Context, request: ExportToolset) -> ResultFile:
    """Export a toolset as a reproducible ZIP: equal files give equal bytes.

    The toolset's state in this project is not included.  If a file contains a credential, or the value of
    a secret of this machine, the export is refused with every such place, unless ``placeholders`` replaces it.
    """
    toolset, content, _ = _packed(context, request)
    etag = toolset.digest.partition(":")[2]
    return ResultFile.of_bytes(content, bundle_name(toolset), BYTES, etag=etag)


@operation(changes=True, local=True)
def write_bundle(context: Context, request: WriteBundle) -> BundleWritten:
    """Write a toolset to a ZIP file, and its signature to FILE.sig; neither file may exist."""
    toolset, content, placeholders = _packed(context, request)
    path, key = request.path or Path(bundle_name(toolset)), request.key
    # A clone may have a link here, which leads outside of the project (tests/security/test_links_of_a_clone.py).
    check_output(path)
    with ExitStack() as stack:
        stack.enter_context(atomic_write.create(path)).write(content)
        if key:
            # Renamed in reverse order, so that the bundle never exists without its signature.
            stack.enter_context(atomic_write.create(signature_path(path))).write(sign(content, key))
    return BundleWritten(
        toolset_id=toolset.id,
        version=toolset.manifest.version if toolset.manifest else "",
        file=path,
        files=len(toolset.files.files),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        digest=toolset.digest,
        signature=signature_path(path) if key else None,
        placeholders=placeholders,
    )


@operation(errors=(404, 409))
def export_server_json(context: Context, request: ExportServerJson) -> ServerJson:
    """Describe an enabled toolset as a server of the MCP registry, in a server.json.

    The description is that of the toolset, shortened to 100 characters.  Without ``issuers`` in covalt.yaml, it
    asks each user for an access token of this server.
    """
    toolset = find_visible_toolset(context, request.toolset_id)
    if toolset.manifest is None or not toolset.sound:
        raise ToolsetUnusableError(
            f"{toolset.id!r} has errors, so it is not served", hint="covalt-git validate"
        )
    if not toolset.enabled:
        raise ToolsetUnusableError(
            f"{toolset.id!r} is disabled, so no MCP client can use it",
            hint=f"covalt-git toolset enable {toolset.id}",
        )
    server = server_json(
        toolset.manifest,
        request.server_name,
        request.server_url,
        needs_token=not context.project.config.issuers,
        secrets=SecretStore.of_this_machine().known(),
    )
    return ServerJson(toolset_id=toolset.id, server=server)


@operation(changes=True, local=True)
def write_server_json(context: Context, request: WriteServerJson) -> ServerJsonWritten:
    """Write the server.json of a toolset to a file, which may not exist."""
    described = export_server_json.run(context, request)
    # A clone may have a link here, which leads outside of the project.
    check_output(request.path)
    with atomic_write.create(request.path) as file:
        file.write(f"{json.dumps(described.server, indent=2, ensure_ascii=False)}\n".encode())
    return ServerJsonWritten(**dict(described), file=request.path)


@operation(admin="verify toolsets", local=True)
def verify_bundle(context: Context, request: VerifyBundle) -> BundleVerified:
    """Check a bundle as an import does, and compare it with the project's toolset with the same id."""
    file = request.file
    if file.is_dir():
        raise CovaltError(f"{str(file)!r} is a directory, which cannot be signed or compared")
    verification = verify.verify_file(context.project.root, file, request.signature)
    toolset, here = verification.toolset, verification.installed
    return BundleVerified.of(
        verification,
        toolset_id=toolset.id,
        version=toolset.manifest.version if toolset.manifest else "",
        digest=toolset.digest,
        installed=here is not None,
        changed_here=bool(here and here.state.imported and here.digest != here.state.digest),
        recorded=here and here.state,
        problem=Failure.of_error(verification.signer_changed)
        if verification.signer_changed
        else None,
    )


@operation(errors=(404,), admin="verify toolsets")
def verify_toolset(context: Context, request: ToolsetRequest) -> ToolsetVerified:
    """Compare a toolset with the digest recorded at its import, and with its grants."""
    verification = verify.verify_toolset(context.project.root, request.toolset_id)
    return ToolsetVerified.of(
        verification,
        toolset_id=verification.toolset.id,
        digest=verification.toolset.digest,
        recorded=verification.toolset.state,
        accepted=verification.locked,
    )


def find_visible_toolset(context: Context, toolset_id: str) -> Toolset:
    """Return a toolset of which the role may see all tools.

    Raises:
        UnknownNameError: if the toolset does not exist; the hint has the most similar one that the role may see.
        ForbiddenError: if one of its tools is hidden.
    """
    catalog = context.catalog
    toolset = catalog.find_toolset(toolset_id)
    # The files of a toolset show its hidden tools too.
    if not catalog.sees_all_in(toolset):
        raise context.refusal(f"may not see all tools of {toolset.id!r}")
    return toolset


def _packed(
    context: Context, request: ExportToolset
) -> tuple[Toolset, bytes, tuple[ReplacedCredential, ...]]:
    toolset = find_visible_toolset(context, request.toolset_id)
    root = context.project.root
    placeholders: tuple[ReplacedCredential, ...] = ()
    # A value of this machine's secrets may look like no credential, so only a comparison finds it in a file.
    secrets = SecretStore.of_this_machine().known()
    with ExitStack() as opened:
        if request.placeholders:
            root = Path(opened.enter_context(TemporaryDirectory(prefix="covalt-export-"))).resolve()
            toolset, placeholders = copy_with_placeholders(root, toolset, secrets)
        content = pack_bundle(root, toolset, secrets, allow_guesses=request.allow_guesses)
    return toolset, content, placeholders
