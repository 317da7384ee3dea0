"""Taking in a toolset in two steps: look at what somebody sent or an address gave, then take exactly that.

What was looked at is staged on this machine (:mod:`covalt_git.installs.pending_imports`), so that the second
step needs no second upload and can take nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, make_response, redirect, render_template, request, url_for

from covalt_git.errors import CovaltError
from covalt_git.installs.pending_imports import Bundle, drop_bundle, stage_bundle, staged_bundle
from covalt_git.installs.signatures import SignerChangedError
from covalt_git.operations import toolset_imports
from covalt_server.api.http import upload
from covalt_server.pages import layout
from covalt_server.request_context import as_admin, context

if TYPE_CHECKING:
    from uuid import UUID

    from werkzeug.wrappers import Response

    from covalt_git.operations.toolset_imports import ToolsetImported

pages = Blueprint("imports", __name__)

_WHAT = "import toolsets"


class NoBundleChosenError(CovaltError):
    """A form without a file and without an address."""


@pages.get("/imports")
def choose() -> str:
    """Show where to send a bundle, or to say where one is."""
    as_admin(_WHAT)
    return render_template("import.html", error=None, url="")


@pages.post("/imports")
def bring() -> Response:
    """Check a bundle, and show what would come; of one that is refused nothing stays."""
    root = as_admin(_WHAT).root
    request.max_content_length = toolset_imports.MOST_FORM_BYTES
    try:
        bundle = _read_bundle()
        # Who signed it is told on the page of what was looked at, where it is accepted or not.
        toolset_imports.import_bundle(context(), bundle, dry_run=True, accept_signer=True)
    except CovaltError as error:
        return _refused(error)
    return redirect(url_for("imports.review", bundle_id=stage_bundle(root, bundle)), 303)


@pages.get("/imports/<uuid:bundle_id>")
def review(bundle_id: UUID) -> str | Response:
    """Show what a bundle is and what it would be able to do, before it is taken in."""
    bundle = staged_bundle(as_admin(_WHAT).root, bundle_id)
    changed = None
    try:
        found = toolset_imports.import_bundle(context(), bundle, dry_run=True)
    except SignerChangedError as error:
        changed = error
        found = toolset_imports.import_bundle(context(), bundle, dry_run=True, accept_signer=True)
    except CovaltError as error:  # somebody else took it in meanwhile
        return _refused(error)
    return render_template(
        "import_review.html", toolset=found, bundle_id=bundle_id, signer_changed=changed
    )


@pages.post("/imports/<uuid:bundle_id>")
def take_in(bundle_id: UUID) -> Response:
    """Take in the bundle that was looked at."""
    root = as_admin(_WHAT).root
    bundle = staged_bundle(root, bundle_id)
    try:
        taken = toolset_imports.import_bundle(
            context(),
            bundle,
            dry_run=False,
            force="force" in request.form,
            accept_signer="accept_signer" in request.form,
        )
    except CovaltError as error:
        return _refused(error)
    drop_bundle(root, bundle_id)
    return layout.back("toolsets.toolset", _outcome(taken), toolset_id=taken.toolset_id)


@pages.post("/imports/<uuid:bundle_id>/drop")
def drop(bundle_id: UUID) -> Response:
    """Forget a bundle that was looked at and is not wanted."""
    drop_bundle(as_admin(_WHAT).root, bundle_id)
    return layout.back("toolsets.toolset_list", "Nothing was taken in.")


def _read_bundle() -> Bundle:
    """Return the bundle that a form carries, or whose address it has."""
    file, url = request.files.get("file"), request.form.get("url", "").strip()
    if file is not None and file.filename:
        signature = request.files.get("signature")
        signed = upload(signature) if signature and signature.filename else None
        return toolset_imports.uploaded_bundle(upload(file), signed)
    if url:
        return Bundle.download(url)
    raise NoBundleChosenError("no bundle was chosen", hint="choose a ZIP, or give its address")


def _outcome(taken: ToolsetImported) -> str:
    if taken.update is None:
        return "It is here, switched off, with nothing granted to it."
    if not taken.update.conflicts:
        return "Updated, with what was changed here."
    return (
        "Updated. What both sides changed is in the files twice; decide it, and its tools can be"
        " called again."
    )


def _refused(error: CovaltError) -> Response:
    """Return the form once more, with all that is wrong with what was brought."""
    url = request.form.get("url", "")
    return make_response(render_template("import.html", error=error, url=url), error.http_status)
