"""Pages of sources: a document that is added to a toolset, and what a source has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, make_response, render_template, request

from covalt_git.errors import CovaltError
from covalt_git.operations import source_documents
from covalt_git.sources.adding import kind_of
from covalt_git.sources.documents import MAX_DOCUMENT, BadSourceError
from covalt_server import request_context
from covalt_server.pages import layout
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("sources", __name__)

_WHAT = "add sources"
_MOST_FORM_BYTES = MAX_DOCUMENT + (64 << 10)


@pages.get("/toolsets/<toolset_id>/sources/new")
def new(toolset_id: str) -> str:
    """Show the form that adds a document."""
    as_admin(_WHAT)
    return _form(toolset_id)


@pages.post("/toolsets/<toolset_id>/sources/new")
def add(toolset_id: str) -> Response:
    """Add a document without accepting its tools, and go to the page on which the user reviews them."""
    as_admin(_WHAT)
    # Before `request.files` reads the body: the limit of other forms is smaller than a document.
    request.max_content_length = _MOST_FORM_BYTES
    request.max_form_memory_size = _MOST_FORM_BYTES
    try:
        document = _document()
        address = request.form.get("address", "").strip() or None
        is_graphql = document["kind"] == "graphql"
        added = ask(
            source_documents.add_source,
            toolset_id=toolset_id,
            document=document,
            namespace=request.form.get("namespace", "").strip() or None,
            include=tuple(request.form.get("include", "").split()),
            exclude=tuple(request.form.get("exclude", "").split()),
            endpoint=address if is_graphql else None,
            base_url=None if is_graphql else address,
        )
    except CovaltError as error:
        return make_response(_form(toolset_id, error), error.http_status)
    count = len(added.tools)
    return layout.back(
        "toolsets.toolset",
        f"Added {count} {'tool' if count == 1 else 'tools'}. They cannot be called until you accept them.",
        toolset_id=toolset_id,
        _anchor=f"source-{added.namespace}",
    )


@pages.get("/toolsets/<toolset_id>/sources/<namespace>")
def source(toolset_id: str, namespace: str) -> str:
    """Show what a source reaches, its tools, and what of its document is no tool."""
    as_admin("see sources")
    detail = ask(source_documents.get_source, toolset_id=toolset_id, namespace=namespace)
    compared = ask(source_documents.compare_sources, toolset_id=toolset_id, namespace=namespace)
    breaking = [tool for row in compared.sources for tool in row.to_accept if tool.breaking]
    return render_template(
        "source.html",
        source=detail,
        breaking=[tool for tool in breaking if tool.kind != "new"],
        admin=request_context.context().is_admin,
    )


@pages.post("/toolsets/<toolset_id>/sources/<namespace>/remove")
def remove(toolset_id: str, namespace: str) -> Response:
    """Remove a source from the manifest."""
    ask(source_documents.remove_source, toolset_id=toolset_id, namespace=namespace)
    message = f"Removed the source {namespace}."
    return layout.back("toolsets.toolset", message, toolset_id=toolset_id)


def _document() -> dict[str, Any]:
    """Return the uploaded document, or the one that was pasted."""
    upload = request.files.get("file")
    if upload is not None and upload.filename:
        name, content = upload.filename.replace("\\", "/").rpartition("/")[2], upload.read()
    else:
        name, content = "", request.form.get("document", "").encode()
    if not content.strip():
        raise BadSourceError("there is no document", hint="choose a file, or paste the document")
    kind = kind_of(name, content)
    if not name:
        is_json = content.lstrip()[:1] == b"{"
        name = f"{kind}.json" if is_json else f"{kind}.{'graphql' if kind == 'graphql' else 'yaml'}"
    try:
        return {"name": name, "kind": kind, "files": {name: content.decode()}}
    except UnicodeDecodeError:
        raise BadSourceError("the document is not UTF-8") from None


def _form(toolset_id: str, error: CovaltError | None = None) -> str:
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    return render_template("source_add.html", toolset=toolset, error=error)
