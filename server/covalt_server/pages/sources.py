"""Pages of sources: a document that is added to a toolset, and what a source has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, make_response, render_template, request

from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of
from covalt_git.models.sources.skill_entry import SKILL
from covalt_git.operations import source_documents, source_skills
from covalt_git.sources.adding import fields_of, is_url, kind_of
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.documents import MAX_DOCUMENT, BadSourceError
from covalt_git.text.display import shorten
from covalt_server import request_context
from covalt_server.pages import layout
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("sources", __name__)

_WHAT = "add sources"
_MOST_FINDINGS = 200
_MOST_FORM_BYTES = MAX_DOCUMENT + (64 << 10)


@pages.get("/toolsets/<toolset_id>/sources/new")
def new(toolset_id: str) -> str:
    """Show the form that adds a document."""
    as_admin(_WHAT)
    return _form(toolset_id)


@pages.post("/toolsets/<toolset_id>/sources/new")
def add(toolset_id: str) -> Response:
    """Add a document without accepting its tools, and go to the page on which the user reviews them.

    A document that is only checked, or comes from a URL, is first shown with what agents miss in it.  A URL is fetched
    after its host was shown and confirmed.
    """
    as_admin(_WHAT)
    # Before `request.files` reads the body: the limit of other forms is smaller than a document.
    request.max_content_length = _MOST_FORM_BYTES
    request.max_form_memory_size = _MOST_FORM_BYTES
    try:
        if url := _url():
            host = origin_of(url)[0].shown_host
            if request.form.get("confirmed") != host:
                return make_response(_form(toolset_id, host=host))
            document = ask(source_documents.open_document, location=url).model_dump()
            return _checked(toolset_id, document)
        document = _document()
        if request.form.get("step") == "check":
            return _checked(toolset_id, document)
        address = request.form.get("address", "").strip() or None
        is_graphql = document["kind"] == "graphql"
        added = ask(
            source_documents.add_source,
            toolset_id=toolset_id,
            document=document,
            namespace=request.form.get("namespace", "").strip() or None,
            include=tuple(request.form.get("include", "").split()),
            exclude=tuple(request.form.get("exclude", "").split()),
            fields=fields_of(request.form.get("fields", "").split()),
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


def _checked(toolset_id: str, document: dict[str, Any]) -> Response:
    """Return the form with a document and what agents miss in it; nothing is added."""
    report = ask(source_documents.check_document, document=document)
    return make_response(_form(toolset_id, document=document, report=report))


def _url() -> str:
    """Return the URL of the document to fetch; empty if the form has the document."""
    url = request.form.get("url", "").strip()
    upload = request.files.get("file")
    if url and ((upload and upload.filename) or request.form.get("document", "").strip()):
        raise BadSourceError(
            "the form has a document and a URL", hint="leave the URL or the document empty"
        )
    # Any other text would be the path of a file of the server.
    if url and not is_url(url):
        raise BadSourceError(f"{shorten(url)!r} is not an http or https URL")
    return url


@pages.get("/toolsets/<toolset_id>/sources/<namespace>")
def source(toolset_id: str, namespace: str) -> str:
    """Show what a source reaches, its tools, and what of its document is no tool."""
    as_admin("see sources")
    detail = ask(source_documents.get_source, toolset_id=toolset_id, namespace=namespace)
    compared = ask(source_documents.compare_sources, toolset_id=toolset_id, namespace=namespace)
    listing = ask(source_skills.list_source_skills, toolset_id=toolset_id, namespace=namespace)
    breaking = [tool for row in compared.sources for tool in row.to_accept if tool.breaking]
    return render_template(
        "source.html",
        source=detail,
        breaking=[tool for tool in breaking if tool.kind != "new"],
        skills=listing.skills,
        admin=request_context.changes_files(),
    )


@pages.post("/toolsets/<toolset_id>/sources/<namespace>/skill")
def read_skill(toolset_id: str, namespace: str) -> str:
    """Show a file of a skill, which is read from its server."""
    file = ask(
        source_skills.read_source_skill,
        toolset_id=toolset_id,
        namespace=namespace,
        name=request.form.get("name", ""),
        path=request.form.get("path", SKILL),
    )
    text = file.text or ""
    lines = [
        line
        for line in definition_lines({file.path: (file.accepted_text, text)})
        if line.mark != "@"
    ]
    return render_template("source_skill.html", file=file, lines=lines)


@pages.post("/toolsets/<toolset_id>/sources/<namespace>/remove")
def remove(toolset_id: str, namespace: str) -> Response:
    """Remove a source from the manifest."""
    ask(source_documents.remove_source, toolset_id=toolset_id, namespace=namespace)
    message = f"Removed the source {namespace}."
    return layout.back("toolsets.toolset", message, toolset_id=toolset_id)


def _document() -> dict[str, Any]:
    """Return the uploaded document, or the one that was pasted."""
    upload = request.files.get("file")
    fetched_from = None
    if upload is not None and upload.filename:
        name, content = _file_name(upload.filename), upload.read()
    else:
        # Browsers send each end of a line of a form as CR LF.
        name = _file_name(request.form.get("name", ""))
        content = request.form.get("document", "").replace("\r\n", "\n").encode()
        fetched_from = request.form.get("fetched_from", "").strip() or None
    if not content.strip():
        raise BadSourceError(
            "there is no document", hint="choose a file, paste the document, or enter its URL"
        )
    kind = kind_of(name, content)
    if not name:
        is_json = content.lstrip()[:1] == b"{"
        name = f"{kind}.json" if is_json else f"{kind}.{'graphql' if kind == 'graphql' else 'yaml'}"
    try:
        files = {name: content.decode()}
    except UnicodeDecodeError:
        raise BadSourceError("the document is not UTF-8") from None
    return {"name": name, "kind": kind, "files": files, "url": fetched_from}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _form(
    toolset_id: str,
    error: CovaltError | None = None,
    *,
    host: str = "",
    document: dict[str, Any] | None = None,
    report: source_documents.DocumentChecked | None = None,
) -> str:
    """Return the page with the values of the sent form; ``document`` replaces its document."""
    given = dict(request.form)
    if document is not None:
        given |= {"name": document["name"], "document": document["files"][document["name"]]}
        given |= {"fetched_from": document["url"] or "", "url": ""}
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    return render_template(
        "source_add.html",
        toolset=toolset,
        error=error,
        given=given,
        host=host,
        report=report,
        most_findings=_MOST_FINDINGS,
    )
