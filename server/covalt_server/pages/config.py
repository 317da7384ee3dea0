"""Pages that show, fix and edit ``covalt.yaml``, also while it has errors and no other page works."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flask import Blueprint, make_response, render_template, request, url_for

from covalt_git.catalog.config_repair import RightsUnknownError
from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.project_root import CONFIG
from covalt_git.operations import config_files
from covalt_git.toolsets.file_changes import NotEditableError
from covalt_server.api.errors import error_response, wants_json
from covalt_server.pages import layout, toolset_files
from covalt_server.pages.toolset_files import Draft, check_form, fingerprint, typed
from covalt_server.render import code, differences
from covalt_server.request_context import ask, context, followed_source

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.errors import Problem
    from covalt_git.operations.config_files import ConfigChange, ConfigFile
    from covalt_git.problems.excerpts import FilePlace

pages = Blueprint("config", __name__)

_NEW_TEXT = "version: 1\n"


@pages.app_errorhandler(BrokenConfigError)
def broken(error: BrokenConfigError) -> Response:
    """Answer each page while ``covalt.yaml`` has errors: with its problems and the way to repair them."""
    answer = error_response(error)
    if not wants_json():
        may_repair = context().may_repair
        place = source_of if may_repair else None
        answer.set_data(
            render_template(
                "config_broken.html", error=error, source_of=place, may_repair=may_repair
            )
        )
    return answer


@pages.app_errorhandler(RightsUnknownError)
def not_repairable(error: RightsUnknownError) -> Response:
    """Answer who may not repair the file: with its problems, without a link that leads back here."""
    answer = error_response(error)
    if not wants_json():
        answer.set_data(
            render_template("config_broken.html", error=error, source_of=None, may_repair=False)
        )
    return answer


@pages.get("/config")
def source() -> Response:
    """Show ``covalt.yaml`` with its problems at their lines; the reason if it is not a text that can be shown."""
    try:
        file = ask(config_files.get_config)
    except NotEditableError as error:
        page = render_template("config_unreadable.html", error=error)
        return make_response(page, error.http_status)
    is_own = followed_source() is None
    editable = is_own and _is_editable(file)
    notes = toolset_files.problem_notes(
        file.problems,
        fix_page=url_for("config.fix") if is_own and file.fixable else "",
        edit_page=url_for("config.edit") if editable else "",
    )
    columns = [(problem.line, problem.col) for problem in file.problems]
    listing = None
    if not file.missing:
        listing = code.highlighted(file.text, path=CONFIG, notes=notes, columns=columns)
    return make_response(
        render_template(
            "config.html",
            file=file,
            shown=listing,
            source_of=source_of,
            editor=_editor_of(next(iter(file.problems), None)) if editable else "",
        )
    )


@pages.get("/config/fix")
def fix() -> str:
    """Show what a fix of the misspelt keys changes."""
    return _fix()


@pages.post("/config/fix")
def apply_fix() -> Response:
    """Fix the misspelt keys, if the page showed exactly this change."""
    change = ask(config_files.fix_config, dry_run=True)
    if request.form.get("reviewed") != fingerprint(change):
        return make_response(_fix(note="The files have changed. Review this."), 409)
    try:
        ask(config_files.fix_config, base=request.form.get("base", ""))
    except CovaltError as error:
        return make_response(_fix(error=error), error.http_status)
    return _saved("Fixed.", change)


@pages.get("/config/edit")
def edit() -> str:
    """Show the editor; without a file, with the text of git's last commit."""
    file = _form_file()
    text = (file.committed or _NEW_TEXT) if file.missing else file.text
    return _editor(file, Draft(text), file.base)


@pages.post("/config/edit")
def save() -> Response:
    """Show the effect of a change, or save it if the page showed exactly this effect."""
    text = typed(_form_file().text, request.form.get("content", ""))
    return toolset_files.reviewed_save(
        partial(ask, config_files.update_config, content=text),
        text,
        newest=lambda: _form_file().base,
        editor=lambda draft, base: _editor(_form_file(), draft, base),
        saved=lambda change: _saved("Saved.", change),
    )


def source_of(place: FilePlace) -> str | None:
    """Return the URL of the line of a problem; None for one in another file."""
    if place.path != CONFIG:
        return None
    return url_for("config.source", _anchor=f"L{place.line}" if place.line else None)


def _editor_of(problem: Problem | None) -> str:
    """Return the URL of the editor, at the place of a problem of the file if there is any."""
    is_in_file = problem is not None and problem.path == CONFIG
    return toolset_files.at_place(url_for("config.edit"), problem if is_in_file else None)


def _fix(*, error: CovaltError | None = None, note: str = "") -> str:
    change = ask(config_files.fix_config, dry_run=True)
    return render_template(
        "config_fix.html",
        change=change,
        patch=differences.diff(change.diff),
        reviewed=fingerprint(change),
        source_of=source_of,
        editor=_editor_of(next(iter(change.problems), None)),
        error=error,
        note=note,
    )


def _editor(file: ConfigFile, draft: Draft, base: str) -> str:
    return render_template(
        "config_edit.html",
        file=file,
        draft=draft,
        base=base,
        patch=differences.diff(draft.change.diff) if draft.change is not None else None,
        reviewed=fingerprint(draft.change) if draft.change is not None else "",
        source_of=source_of,
        language=code.language_of(draft.text, path=CONFIG),
        line_of=_editor_of,
    )


def _form_file() -> ConfigFile:
    """Return ``covalt.yaml``, whose text a form can submit unchanged.

    Raises:
        NotEditableError: if it is another text.
    """
    file = ask(config_files.get_config)
    check_form(CONFIG, file.text)
    return file


def _is_editable(file: ConfigFile) -> bool:
    try:
        check_form(CONFIG, file.text)
    except CovaltError:
        return False
    return True


def _saved(word: str, change: ConfigChange) -> Response:
    words = toolset_files.saved_words(word, change, source_of)
    return layout.back("config.source", words, "warn" if change.problems else "good")
