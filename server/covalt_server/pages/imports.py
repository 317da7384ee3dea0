"""Pages that import a toolset in two steps: review an uploaded or downloaded bundle, then import it.

The reviewed bundle is staged (:mod:`covalt_git.installs.pending_imports`), so that the second step needs no
upload and imports exactly the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from flask import Blueprint, make_response, redirect, render_template, request, session, url_for

from covalt_git.errors import CovaltError
from covalt_git.installs.importing import Existing, InstalledError
from covalt_git.installs.pending_imports import (
    Bundle,
    BundleGoneError,
    drop_bundle,
    stage_bundle,
    staged_bundle,
)
from covalt_git.installs.signatures import SignerChangedError
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.operations import toolset_imports
from covalt_git.operations.formats import conversions
from covalt_git.text import display
from covalt_server.api.http import upload
from covalt_server.pages import layout
from covalt_server.pages.toolset_page import back, back_with_next_step
from covalt_server.request_context import as_admin, ask, context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from werkzeug.wrappers import Response

    from covalt_git.operations.toolset_imports import ToolsetImported

pages = Blueprint("imports", __name__)

_WHAT = "import toolsets"

_MOST_NAMED = 5
"""Servers in a message, which a cookie has to hold."""


_OUTCOMES = "imports"
"""Name of the ends of imports in the session cookie."""

_MOST_OUTCOMES, _LONGEST_NAME = 4, 60
"""Ends of imports in the session cookie, and characters of their file names."""


class _Choice(TypedDict, total=False):
    """What the user has chosen for a toolset that exists; without a choice, no part of it is replaced."""

    existing: Existing
    toolset_id: str


@pages.get("/imports")
def choose() -> str:
    """Show the forms for an upload and for a URL."""
    as_admin(_WHAT)
    return _form()


@pages.post("/imports")
def bring() -> Response:
    """Check and store the bundle of a form, and redirect to its review; an invalid bundle is not stored."""
    root = as_admin(_WHAT).root
    # Before `request.files` reads the body: the limit of other forms is smaller than a bundle.
    request.max_content_length = toolset_imports.MOST_FORM_BYTES
    try:
        bundle = _read_bundle()
        # The review reports a changed signer, and the user accepts it there.
        toolset_imports.import_bundle(context(), bundle, dry_run=True, accept_signer=True)
    except InstalledError as error:
        # The name is the only thing to decide, so the file is not sent again for it.
        if bundle.signature is not None or not error.free_id:
            return _refused(error)
        names: dict[str, Any] = {"toolset_id": error.free_id, "refused": error.message}
    except CovaltError as error:
        return _refused(error)
    else:
        names = {}
    staged = stage_bundle(root, bundle)
    return redirect(url_for("imports.review", bundle_id=staged, _external=False, **names), 303)


@pages.get("/imports/<uuid:bundle_id>")
def review(bundle_id: UUID) -> str | Response:
    """Show a bundle and the permissions that it requests, before it is imported."""
    bundle = staged_bundle(as_admin(_WHAT).root, bundle_id)
    choice = _choice(request.args)
    changed = None
    problem: CovaltError | None = None
    try:
        preview = toolset_imports.import_bundle(context(), bundle, dry_run=True, **choice)
    except SignerChangedError as error:
        changed = error
        preview = toolset_imports.import_bundle(
            context(), bundle, dry_run=True, accept_signer=True, **choice
        )
    except CovaltError as error:  # for example, the toolset was imported meanwhile
        if not request.args:
            return _refused(error)
        # Of the choice only, so that another one can be made.
        problem, choice = error, {}
        try:
            preview = toolset_imports.import_bundle(
                context(), bundle, dry_run=True, accept_signer=True
            )
        except CovaltError:
            return _refused(error)
    undecided = bool(preview.replaces) and "existing" not in choice
    if undecided and problem is None and "into" in request.args:
        problem = CovaltError("enter another name, or choose what happens to the toolset")
    lacked, changed_parts = _replaced(preview, all_lacked=choice.get("existing") == "add")
    return render_template(
        "import_review.html",
        toolset=preview,
        lacked=lacked,
        changed_parts=changed_parts,
        not_added=_why_not_added(bundle) if undecided else "",
        chosen=request.args.get("existing", "name" if "toolset_id" in request.args else ""),
        grant_words=_grant_words,
        bundle_id=bundle_id,
        signer_changed=changed,
        choice=choice,
        problem=problem,
        lacks_trust="lacks_trust" in request.args,
        refused=request.args.get("refused", ""),
        renames=bundle.signature is None,
    )


@pages.post("/imports/<uuid:bundle_id>")
def import_reviewed(bundle_id: UUID) -> Response:
    """Import the reviewed bundle; with the name of a signer, trust the unknown key that signed it."""
    root = as_admin(_WHAT).root
    bundle = staged_bundle(root, bundle_id)
    servers = tuple(request.form.getlist("folder"))
    if servers and "trust" not in request.form:
        names: dict[str, Any] = dict(_choice(request.form))
        if "existing" in names:
            names["into"] = names.pop("toolset_id", "")
        review_page = url_for(
            "imports.review", bundle_id=bundle_id, _external=False, lacks_trust="1", **names
        )
        return redirect(review_page, 303)
    try:
        if "signer" in request.form:
            key = toolset_imports.import_bundle(context(), bundle, dry_run=True).unknown_key
            toolset_imports.trust_signer(context(), bundle, f"{request.form['signer']} {key}")
        result = toolset_imports.import_bundle(
            context(),
            bundle,
            dry_run=False,
            force="force" in request.form,
            accept_signer="accept_signer" in request.form,
            trust=request.form.get("trust"),
            permissions=_permissions(servers),
            script_folders=servers,
            **_choice(request.form),
        )
    except CovaltError as error:
        return _refused(error)
    # After the import, so that a refused one can be repeated from its review, with `force` for example.
    drop_bundle(root, bundle_id)
    _remember(bundle_id, bundle, result.toolset_id)
    failed = _failed(result)
    conflicts = result.update is not None and result.update.conflicts
    kind: Literal["good", "warn"] = "warn" if failed or conflicts or result.taken else "good"
    if failed:
        # At the top of the page, which also shows other problems, and links to each server that failed.
        return back(result.toolset_id, "", _outcome(result), kind)
    return back_with_next_step(result.toolset_id, "", _outcome(result), kind)


@pages.post("/imports/<uuid:bundle_id>/drop")
def drop(bundle_id: UUID) -> Response:
    """Delete a staged bundle without importing it."""
    root = as_admin(_WHAT).root
    # In another window it may have been imported meanwhile.
    bundle = staged_bundle(root, bundle_id)
    drop_bundle(root, bundle_id)
    _remember(bundle_id, bundle)
    return layout.back("toolsets.toolset_list", "Nothing was imported.")


def _permissions(servers: Collection[str]) -> tuple[str, ...]:
    """Return the permissions that a review showed for a choice of the servers that get the folders of their scripts."""
    form = request.form
    permissions = form.getlist("permission")
    for server in form.getlist("offered"):
        permissions += form.getlist(f"{'with' if server in servers else 'without'}:{server}")
    return tuple(permissions)


class _Outcome(NamedTuple):
    """The end of an import: the name of its file, and the toolset; without one, it was cancelled."""

    bundle_id: str
    file: str
    toolset_id: str


def _remember(bundle_id: UUID, bundle: Bundle, toolset_id: str = "") -> None:
    """Store the end of an import in the session, for pages of it that are still open or in the history of the browser."""
    outcome = _Outcome(str(bundle_id), display.shorten(bundle.name, _LONGEST_NAME), toolset_id)
    session[_OUTCOMES] = [*session.get(_OUTCOMES, []), outcome][-_MOST_OUTCOMES:]


@pages.errorhandler(BundleGoneError)
def over(error: BundleGoneError) -> tuple[str, int]:
    """Say what became of an import that is over, with the toolset."""
    bundle_id = str((request.view_args or {}).get("bundle_id"))
    outcomes = [_Outcome(*fields) for fields in session.get(_OUTCOMES, [])]
    page = render_template(
        "import_over.html",
        outcome=next((entry for entry in outcomes if entry.bundle_id == bundle_id), None),
        existing=toolset_ids(context().root / "toolsets"),
    )
    return page, error.http_status


def _choice(values: Mapping[str, str]) -> _Choice:
    """Return what a form says about a toolset that exists: add to it, replace it, or another name."""
    choice: _Choice = {}
    ways: dict[str | None, Existing] = {"add": "add", "replace": "replace"}
    existing, name = ways.get(values.get("existing")), values.get("toolset_id", "").strip()
    if existing is not None:
        choice["existing"] = existing
        name = values.get("into", "")  # the field of another name is filled in with a free one
    if name:
        choice["toolset_id"] = name
    return choice


def _read_bundle() -> Bundle:
    """Return the bundle that a form uploads, or whose URL it contains."""
    file, url = request.files.get("file"), request.form.get("url", "").strip()
    if file is not None and file.filename:
        signature = request.files.get("signature")
        signed = upload(signature) if signature and signature.filename else None
        source_format = request.form.get("source_format") or None
        return toolset_imports.uploaded_bundle(upload(file), signed, source_format=source_format)
    if url:
        return Bundle.download(url)
    raise CovaltError(
        "no file was chosen",
        hint="choose a ZIP or a document such as mcp.json, or enter the URL of a ZIP",
    )


def _replaced(preview: ToolsetImported, *, all_lacked: bool) -> tuple[list[str], list[str]]:
    """Return the parts of the existing toolset that a document lacks, and those that it changes."""
    parts = {f"server {server.id}" for server in preview.mcp_servers}
    parts |= {f"tool {tool.tool_id.rpartition(':')[2]}" for tool in preview.tools}
    parts |= {f"file {file.path}" for file in preview.files}
    # The preview of an addition has all parts, and an addition changes none.
    changed = [] if all_lacked else [part for part in preview.replaces if part in parts]
    return [part for part in preview.replaces if part not in changed], changed


def _why_not_added(bundle: Bundle) -> str:
    """Return why a document cannot be added to the toolset that exists; empty if it can."""
    try:
        toolset_imports.import_bundle(
            context(), bundle, dry_run=True, accept_signer=True, existing="add"
        )
    except CovaltError as error:
        return error.message
    return ""


def _grant_words(key: str) -> tuple[str, str]:
    """Return a description of a grant, and the name of the server, host or secret that it is for."""
    kind, _, name = key.partition("-")
    words = {
        "network": "the permission to connect to its hosts",
        "process": "the permission to start",
        "secret": "the permission to use the secret",
        "server": "the permission to use the MCP server",
        "tool": "the permission to call",
        "unsandboxed": "the permission to run without a sandbox",
    }
    return words.get(kind, "the grant"), name


def _failed(result: ToolsetImported) -> list[str]:
    return [source.source for source in result.sources if source.failure is not None]


def _outcome(result: ToolsetImported) -> str:
    message = _imported(result)
    # The page shows the errors, which can be longer than a cookie.
    return (
        f"{message} Another toolset declares a namespace of it too, as this page shows."
        if result.taken
        else message
    )


def _imported(result: ToolsetImported) -> str:
    if result.trusted:
        failed = _failed(result)
        if not failed:
            return "Imported, enabled and granted."
        # The reason is on the page that the browser goes to, because it can be longer than a cookie.
        named = failed[:_MOST_NAMED]
        named += [f"{len(failed) - len(named)} more"] if len(failed) > len(named) else []
        return f"Imported, enabled and granted, but {' and '.join(named)} did not list {'its' if len(failed) == 1 else 'their'} tools."
    if result.update is None:
        return "Imported. The toolset is disabled and has no grants."
    if not result.update.conflicts:
        return "Updated. Local changes were merged."
    return (
        "Updated with conflicts. Resolve them in the files; until then its tools cannot be called."
    )


def _refused(error: CovaltError) -> Response:
    """Return the form with the error and its problems."""
    return make_response(_form(error), error.http_status)


def _form(error: CovaltError | None = None) -> str:
    formats = [
        tool_format.name
        for tool_format in ask(conversions.list_formats).formats
        if tool_format.reads
    ]
    url = request.form.get("url", "")
    return render_template("import.html", error=error, url=url, formats=formats)
