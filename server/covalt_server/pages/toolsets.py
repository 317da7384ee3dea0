"""Pages of toolsets: problems, tools, grants, accepted definitions, updates and removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, make_response, redirect, render_template, request, url_for

from covalt_git.errors import UnknownNameError
from covalt_git.git_store.objects import is_binary_content
from covalt_git.installs.pending_imports import Bundle, stage_bundle
from covalt_git.installs.uninstall import NotInGitError, is_in_git, paths_of, undo_command
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.operations import (
    bundles,
    toolset_imports,
    toolsets,
)
from covalt_git.operations.namespace_problems import problems_across
from covalt_server import request_context
from covalt_server.api.http import send
from covalt_server.pages import layout, toolset_files
from covalt_server.pages.toolset_page import (
    back_with_next_step,
    failures_by_toolset,
    toolset_page,
    unset_by_toolset,
)
from covalt_server.render import code, differences
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response


pages = Blueprint("toolsets", __name__)

_LONGEST_PATCH = 200_000
"""Maximum size of one file's patch on a page, in characters."""


@pages.get("/toolsets")
def toolset_list() -> str:
    """List the toolsets, those with errors first."""
    rows = ask(toolsets.list_toolsets).toolsets
    query = request.args.get("q", "").strip().casefold()
    matches = [row for row in rows if query in f"{row.id} {row.name} {row.description}".casefold()]
    matches.sort(key=lambda row: (row.sound, row.id))
    return render_template(
        "toolset_list.html",
        toolsets=matches,
        unset=unset_by_toolset(matches),
        failed=failures_by_toolset(matches),
        total=len(rows),
        query=query,
        admin=request_context.changes_files(),
    )


@pages.get("/toolsets/<toolset_id>")
def toolset(toolset_id: str) -> str:
    """Show one toolset: its problems, tools, grants, servers and files."""
    return toolset_page(toolset_id)


@pages.post("/toolsets/<toolset_id>/enabled")
def switch(toolset_id: str) -> Response:
    """Enable or disable a toolset."""
    enabled = request.form.get("enabled") == "true"
    ask(toolsets.enable_toolset, toolset_id=toolset_id, enabled=enabled)
    if enabled:
        return back_with_next_step(toolset_id, "", "Enabled.")
    message = "Disabled. Its tools cannot be called."
    return layout.back("toolsets.toolset", message, toolset_id=toolset_id)


@pages.get("/toolsets/<toolset_id>/export")
def export(toolset_id: str) -> Response:
    """Send a toolset as a ZIP; errors are shown as a page."""
    placeholders = request.args.get("placeholders") == "true"
    return send(ask(bundles.export_toolset, toolset_id=toolset_id, placeholders=placeholders))


@pages.get("/toolsets/<toolset_id>/changes")
def changes(toolset_id: str) -> str:
    """Show the local changes of a toolset since its import, or since a grant."""
    grant = request.args.get("grant") or None
    difference = ask(bundles.diff_toolset, toolset_id=toolset_id, grant=grant)
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    differing = [
        {
            "path": file.path,
            "kind": file.kind,
            "patch": file.patch if len(file.patch) <= _LONGEST_PATCH else None,
            "binary": "\nBinary files " in file.patch,
        }
        for file in difference.files
    ]
    return render_template(
        "toolset_changes.html",
        toolset=detail,
        grant=grant,
        diff={"changes": differing},
        patch=differences.DiffRenderer(),
    )


@pages.post("/toolsets/<toolset_id>/newer")
def newer(toolset_id: str) -> Response:
    """Download the current bundle from the toolset's source URL, and redirect to its review."""
    root = as_admin("update toolsets").root
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    if toolset.state.source_type != "url":
        return redirect(url_for("imports.choose"), 303)
    bundle = Bundle.download(toolset.state.source_ref or "")
    # Checked before it is staged, so that the review opens with a bundle that can be imported. The review
    # asks about a changed signer.
    toolset_imports.import_bundle(
        request_context.context(), bundle, dry_run=True, accept_signer=True
    )
    return redirect(url_for("imports.review", bundle_id=stage_bundle(root, bundle)), 303)


@pages.get("/toolsets/<toolset_id>/uninstall")
def uninstall_preview(toolset_id: str) -> str:
    """Show what a removal deletes and keeps, with a confirmation."""
    return _uninstall(toolset_id)


@pages.post("/toolsets/<toolset_id>/uninstall")
def uninstall(toolset_id: str) -> Response:
    """Remove a toolset; with ``force`` also if Git cannot restore it."""
    try:
        ask(toolset_imports.uninstall_toolset, toolset_id=toolset_id, force="force" in request.form)
    except NotInGitError as error:
        return make_response(_uninstall(toolset_id), error.http_status)
    return layout.back("toolsets.toolset_list", "Removed. Chats and their results are kept.")


@pages.get("/toolsets/<toolset_id>/files/<path:path>")
def source(toolset_id: str, path: str) -> str:
    """Show a file of a toolset with its problems."""
    toolset = bundles.find_visible_toolset(request_context.context(), toolset_id)
    # Only a file of the listing: a path with `..`, or a link, could lead to any file of the user
    # (test_only_files_of_the_toolset_are_shown).
    file = toolset.files.get(path)
    if file is None:
        paths = [entry.path for entry in toolset.files.files]
        raise UnknownNameError(
            "file", path, paths, list_with=f"covalt-git toolset show {toolset.id}"
        )
    content = (toolset.folder / path).read_bytes()
    name = f"toolsets/{toolset.id}/{path}"
    context = request_context.context()
    across = problems_across(context).get(toolset.id, ())
    problems = [problem for problem in (*toolset.problems, *across) if problem.path == name]
    admin = request_context.changes_files()
    editable = admin and toolset_files.is_editable(toolset, path)
    fixable = toolset_files.fixable(toolset.id) if admin and path == MANIFEST else 0
    listing = None
    if not is_binary_content(content):
        text = content.decode("utf-8", "replace")
        notes = toolset_files.problem_notes(
            problems,
            fix_page=url_for("toolset_files.fix", toolset_id=toolset.id) if fixable else "",
            edit_page=url_for("toolset_files.edit", toolset_id=toolset.id, path=path)
            if editable
            else "",
        )
        columns = [(problem.line, problem.col) for problem in problems]
        listing = code.highlighted(text, path=path, notes=notes, columns=columns)
    return render_template(
        "toolset_source.html",
        toolset=toolset,
        file=file,
        shown=listing,
        problems=problems,
        source_of=toolset_files.source_of(toolset.id),
        editor=toolset_files.editor_page(toolset.id, path, next(iter(problems), None))
        if editable
        else "",
        fixable=fixable,
    )


def _uninstall(toolset_id: str) -> str:
    as_admin("remove toolsets")
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    root = request_context.project().root
    return render_template(
        "uninstall.html",
        toolset=detail,
        in_git=is_in_git(root, toolset),
        paths=" ".join(paths_of(root, toolset_id)),
        undo=undo_command(root, toolset_id),
    )
