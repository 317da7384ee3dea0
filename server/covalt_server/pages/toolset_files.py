"""Pages that fix and edit a file of a toolset.  Each change is shown with its effect before it is saved."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlencode

from flask import Blueprint, flash, make_response, render_template, request, url_for
from markupsafe import Markup

from covalt_git.catalog import toolset_cache
from covalt_git.errors import CovaltError
from covalt_git.grants.status import missing_grants
from covalt_git.manifests.toolset_files import MANIFEST, toolset_ids
from covalt_git.operations import toolset_files
from covalt_git.problems import codes
from covalt_git.render.inject_data import inject
from covalt_git.text import display
from covalt_git.toolsets import file_changes
from covalt_server import request_context
from covalt_server.pages import layout
from covalt_server.render import code, differences
from covalt_server.render.artifacts import ARTIFACT_HEADERS, HEIGHT_SCRIPT
from covalt_server.render.previews import BREAK, preview
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from werkzeug.wrappers import Response

    from covalt_git.errors import Problem
    from covalt_git.operations.toolset_files import (
        HandWrittenChange,
        PageExample,
        ToolsetFileChange,
        ToolsetFileText,
    )
    from covalt_git.problems.excerpts import FilePlace
    from covalt_git.toolsets.toolset import Toolset

pages = Blueprint("toolset_files", __name__)

ChangeT = TypeVar("ChangeT", bound="HandWrittenChange")

_MARK = "\ufeff"
_NOTE = Markup('<span class="problem-note {}"><code>{}</code> {}{}{}</span>')
_ACTS = Markup('<span class="row">{}</span>')
_ACT = Markup('<a class="button small" href="{}">{}</a>')
_LINK = Markup('{} no grant. <a href="{}">Review the grants</a>')
_PLACE = Markup('<a href="{}">{}</a> {}')
_LONGEST_PAGE = 300
"""Characters of a URL, or of a name, in a message, which a cookie has to hold."""
_HINT = Markup(" <span>{}</span>")
_ACTION = "change files of toolsets"


class Draft(NamedTuple):
    """The text of an editor, with what is shown of it: its change, or the error of saving it.

    ``stale`` marks a text that was typed for an earlier version of the file.
    """

    text: str
    change: HandWrittenChange | None = None
    error: CovaltError | None = None
    note: str = ""
    stale: bool = False

    @property
    def shown(self) -> str:
        """The text in the form, which does not keep a byte order mark."""
        return self.text.removeprefix(_MARK)


def problem_notes(
    problems: Sequence[Problem], *, fix_page: str = "", edit_page: str = ""
) -> dict[int, Markup]:
    """Return the notes of a listing: at each line with problems, these problems.

    Each has links to the pages that fix and edit the file, as far as there are any: a link to the line moves past those
    above the listing.
    """
    notes: dict[int, Markup] = {}
    for problem in problems:
        kind = "warn" if problem.severity == "warning" else "bad"
        hint = _HINT.format(layout.displayed(problem.hint)) if problem.hint else ""
        is_misspelt = problem.code == codes.UNKNOWN_KEY
        acts = Markup().join(
            _ACT.format(page, label)
            for page, label in (
                (fix_page if is_misspelt else "", "Fix..."),
                (at_place(edit_page, problem) if edit_page else "", "Edit"),
            )
            if page
        )
        links = _ACTS.format(acts) if acts else ""
        note = _NOTE.format(kind, problem.code, layout.displayed(problem.message), hint, links)
        notes[problem.line] = notes.get(problem.line, Markup()) + note
    return notes


def is_editable(toolset: Toolset, path: str) -> bool:
    """Return whether a form can submit the text of a file unchanged."""
    try:
        check_form(path, file_changes.read_text(toolset, path).text)
    except CovaltError:
        return False
    return True


def fixable(toolset_id: str) -> int:
    """Return the number of problems of a ``toolset.yaml`` that can be fixed; 0 if it cannot be read."""
    try:
        return ask(toolset_files.get_toolset_file, toolset_id=toolset_id, path=MANIFEST).fixable
    except CovaltError:
        return 0


@pages.get("/toolsets/<toolset_id>/fix")
def fix(toolset_id: str) -> str:
    """Show what a fix of the misspelt keys changes."""
    return _fix(toolset_id)


@pages.post("/toolsets/<toolset_id>/fix")
def apply_fix(toolset_id: str) -> Response:
    """Fix the misspelt keys, if the page showed exactly this change."""
    change = ask(toolset_files.fix_toolset, toolset_id=toolset_id, dry_run=True)
    if request.form.get("reviewed") != fingerprint(change):
        return make_response(_fix(toolset_id, note="The files have changed. Review this."), 409)
    try:
        ask(
            toolset_files.fix_toolset,
            toolset_id=toolset_id,
            base=request.form.get("base", ""),
            local_change="local_change" in request.form,
        )
    except CovaltError as error:
        return make_response(_fix(toolset_id, error=error), error.http_status)
    return _saved("Fixed.", change)


@pages.get("/toolsets/<toolset_id>/edit/<path:path>")
def edit(toolset_id: str, path: str) -> str:
    """Show the editor of a file of a toolset."""
    as_admin(_ACTION)
    file = _form_text(toolset_id, path)
    return _editor(file, Draft(file.text), file.base)


@pages.post("/toolsets/<toolset_id>/edit/<path:path>")
def save(toolset_id: str, path: str) -> Response:
    """Show the effect of a change, or save it if the page showed exactly this effect."""
    as_admin(_ACTION)
    file = _form_text(toolset_id, path)
    text = typed(file.text, request.form.get("content", ""))
    update = partial(
        ask,
        toolset_files.update_toolset_file,
        toolset_id=toolset_id,
        path=path,
        content=text,
        local_change="local_change" in request.form,
    )
    return reviewed_save(
        update,
        text,
        newest=lambda: _form_text(toolset_id, path).base,
        editor=lambda draft, base: _editor(_form_text(toolset_id, path), draft, base),
        saved=lambda change: _saved("Saved.", change),
    )


def reviewed_save(
    update: Callable[..., ChangeT],
    text: str,
    *,
    newest: Callable[[], str],
    editor: Callable[[Draft, str], str],
    saved: Callable[[ChangeT], Response],
) -> Response:
    """Answer the form of an editor: save its text if its page has shown exactly the effect, or show the effect.

    Args:
        update: changes the file, or only returns the effect with ``dry_run``; both need the ``base``.
        text: the typed text.
        newest: returns the ``base`` of the file as it is now.
        editor: returns the page of the editor with a draft, for a ``base``.
        saved: returns the answer after the change.
    """
    form = request.form
    base, stale = form.get("base", ""), "stale" in form
    try:
        change = update(base=base, dry_run=True)
        if not change.changed:
            return make_response(editor(Draft(text, note="No changes to save."), base))
        if form.get("reviewed") != fingerprint(change):
            note = "This has changed since the last review." if form.get("reviewed") else ""
            return make_response(editor(Draft(text, change, note=note, stale=stale), base))
        # The first save was refused, so the same button must not overwrite the other change without a question.
        if stale and "replaces" not in form:
            note = "Confirm that your text replaces the newer one."
            return make_response(editor(Draft(text, change, note=note, stale=True), base), 409)
        change = update(base=base)
    except CovaltError as error:
        if error.code != "moved":
            return make_response(editor(Draft(text, error=error), base), error.http_status)
        # The typed text must not be lost: it is shown as a change of the newer file.
        base = newest()
        newer = update(base=base, dry_run=True)
        if not newer.changed:
            note = "No changes to save: another window or program has written the same text."
            return make_response(editor(Draft(text, note=note), base))
        return make_response(editor(Draft(text, newer, error, stale=True), base), error.http_status)
    return saved(change)


@pages.get("/toolsets/<toolset_id>/pages/<path:path>")
def page(toolset_id: str, path: str) -> Response:
    """Return a page of a toolset with the data of an example, for the frame of its editor."""
    file = ask(toolset_files.get_toolset_file, toolset_id=toolset_id, path=path)
    return _page(file, file.text, request.args.get("example", ""))


@pages.post("/toolsets/<toolset_id>/pages/<path:path>")
def typed_page(toolset_id: str, path: str) -> Response:
    """Return the page that the editor contains, which is not saved yet."""
    as_admin(_ACTION)
    file = ask(toolset_files.get_toolset_file, toolset_id=toolset_id, path=path)
    return _page(file, request.form.get("content", ""), request.form.get("example", ""))


def _page(file: ToolsetFileText, text: str, example: str) -> Response:
    # As for results: a page with its own window could send its data in the URL of a navigation.
    if request.headers.get("Sec-Fetch-Dest") != "iframe":
        raise CovaltError(
            "a page of a toolset is shown only inside its editor",
            hint=f"open /toolsets/{file.toolset_id}/edit/{file.path}",
            code="not_in_a_frame",
            http_status=403,
        )
    examples = _examples(file)
    data = next((entry.data for entry in examples if _value_of(entry) == example), None)
    answer = make_response(inject(text.encode(), data, script=HEIGHT_SCRIPT))
    answer.headers.update(ARTIFACT_HEADERS)
    answer.content_type = "text/html; charset=utf-8"
    return answer


def _fix(toolset_id: str, *, error: CovaltError | None = None, note: str = "") -> str:
    change = ask(toolset_files.fix_toolset, toolset_id=toolset_id, dry_run=True)
    path = f"toolsets/{toolset_id}/{change.path}"
    first = next((problem for problem in change.problems if problem.path == path), None)
    return render_template(
        "toolset_fix.html",
        change=change,
        patch=differences.diff(change.diff),
        reviewed=fingerprint(change),
        source_of=source_of(toolset_id),
        editor=editor_page(toolset_id, change.path, first),
        signer=_signer(toolset_id),
        error=error,
        note=note,
    )


def _editor(file: ToolsetFileText, draft: Draft, base: str) -> str:
    change = draft.change
    examples = _examples(file)
    return render_template(
        "toolset_edit.html",
        file=file,
        text=draft.shown,
        stale=draft.stale,
        base=base,
        change=change,
        patch=differences.diff(change.diff) if change is not None else None,
        reviewed=fingerprint(change) if change is not None else "",
        error=draft.error,
        note=draft.note,
        source_of=source_of(file.toolset_id),
        signer=_signer(file.toolset_id),
        language=code.language_of(draft.text, path=file.path),
        examples=[(_value_of(entry), entry) for entry in examples],
        example=request.form.get("example", _value_of(examples[0]) if examples else ""),
        problems=file.problems,
        line_of=lambda problem: editor_page(file.toolset_id, file.path, problem),
        is_page=file.kind == "artifact" and file.path.lower().endswith((".html", ".htm")),
    )


def saved_words(
    word: str, change: HandWrittenChange, place_of: Callable[[FilePlace], str | None]
) -> str:
    """Return the message after a change: the numbers of solved and left problems, the first one's place, and the undo.

    ``place_of`` returns the URL of a place.  A cookie carries the message, so the problem's own words are not in it.
    """
    errors = sum(problem.severity == "error" for problem in change.problems)
    left = [
        f"{count} {kind}{'' if count == 1 else 's'}"
        for kind, count in (("error", errors), ("warning", len(change.problems) - errors))
        if count
    ]
    verb = "is" if len(change.problems) == 1 else "are"
    solved = ""
    if change.solved:
        solved = (
            f" {change.solved} {'problem is' if change.solved == 1 else 'problems are'} solved."
        )
    problems = f"{solved} {' and '.join(left)} {verb} left" if left else " No problem is left."
    undo = f" To undo it: {change.undo}" if change.undo else " To undo it, edit the file again."
    if not left:
        return f"{word}{problems}{undo}"
    first = min(change.problems, key=lambda problem: problem.severity != "error")
    name = f"{first.path}:{first.line}" if first.line else first.path
    page = place_of(first)
    if page is None or len(page) > _LONGEST_PAGE:
        return f"{word}{problems}.{undo}"
    link = _PLACE.format(page, display.shorten(name, _LONGEST_PAGE), first.code)
    which = "" if len(change.problems) == 1 else "the first is "
    return Markup("{}{}: {}{}.{}").format(word, problems, which, link, layout.displayed(undo))


def _saved(word: str, change: ToolsetFileChange) -> Response:
    # A renamed server has no grant.  The message has no names, because a cookie carries it.
    count = sum(grant.kind == "server" for grant in missing_grants(_toolset(change.toolset_id)))
    if change.left_over and count:
        address = url_for("toolsets.toolset", toolset_id=change.toolset_id, _anchor="grants")
        words = (
            "1 MCP server of this toolset has"
            if count == 1
            else f"{count} MCP servers of this toolset have"
        )
        flash(_LINK.format(words, address), "warn")
    return layout.back(
        "toolsets.source",
        saved_words(word, change, source_of(change.toolset_id)),
        "warn" if change.problems else "good",
        toolset_id=change.toolset_id,
        path=change.path,
    )


def _form_text(toolset_id: str, path: str) -> ToolsetFileText:
    """Return a text file that a form can submit unchanged.

    Raises:
        NotEditableError: if it is another one.
    """
    file = ask(toolset_files.get_toolset_file, toolset_id=toolset_id, path=path)
    check_form(path, file.text)
    return file


def check_form(path: str, text: str) -> None:
    if text and not preview(path, text.encode()).editable:
        raise file_changes.NotEditableError(
            f"{path!r} cannot be edited in the browser, which would change its line breaks or its end",
            hint="use an editor of your machine",
        )


def typed(old_text: str, typed: str) -> str:
    """Return the typed text with the line breaks and the byte order mark of the old one, which a form does not keep."""
    line_break = BREAK.search(old_text)
    text = (line_break[0] if line_break else "\n").join(BREAK.split(typed))
    return _MARK + text if old_text.startswith(_MARK) else text


def fingerprint(change: HandWrittenChange) -> str:
    """Return a digest of everything that the page shows of a change."""
    shown = change.model_dump_json(exclude={"written"})
    return hashlib.sha256(shown.encode()).hexdigest()


def _toolset(toolset_id: str) -> Toolset:
    return toolset_cache.toolset(request_context.context().root, toolset_id)


def _signer(toolset_id: str) -> str:
    signer = _toolset(toolset_id).state.signer
    return "" if signer is None else signer.principal


def _examples(file: ToolsetFileText) -> tuple[PageExample, ...]:
    return ask(
        toolset_files.list_page_examples, toolset_id=file.toolset_id, path=file.path
    ).examples


def _value_of(example: PageExample) -> str:
    return f"{example.tool_id} {example.name}"


def source_of(toolset_id: str) -> Callable[[FilePlace], str | None]:
    """Return a function that maps a problem, or another place, to the URL of its line in the toolset's files."""
    folder = f"toolsets/{toolset_id}/"

    def address(place: FilePlace) -> str | None:
        if not place.path.startswith(folder):
            return None
        anchor = f"L{place.line}" if place.line else None
        path = place.path.removeprefix(folder)
        return url_for("toolsets.source", toolset_id=toolset_id, path=path, _anchor=anchor)

    return address


def editor_of(problem: Problem) -> str | None:
    """Return the URL of the editor at the line of a problem; None if a form cannot submit its file unchanged."""
    folder, toolset_id, path = [*problem.path.split("/", 2), "", ""][:3]
    root = request_context.context().root
    if (
        folder != "toolsets"
        or toolset_id not in toolset_ids(root / "toolsets")
        or not is_editable(toolset_cache.toolset(root, toolset_id), path)
    ):
        return None
    return editor_page(toolset_id, path, problem)


def editor_page(toolset_id: str, path: str, problem: Problem | None = None) -> str:
    """Return the URL of the editor of a file, at the place of a problem of the file if there is any."""
    page = url_for("toolset_files.edit", toolset_id=toolset_id, path=path)
    return at_place(page, problem)


def at_place(editor: str, place: FilePlace | None) -> str:
    """Return the URL of an editor with its caret at a place; the URL itself for a problem of a whole file."""
    if place is None or not place.line:
        return editor
    return f"{editor}?{urlencode({'line': place.line, 'col': place.col})}"
