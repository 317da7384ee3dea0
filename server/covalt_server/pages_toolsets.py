"""The toolset manager: what is installed, what is wrong with it, switching it on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, render_template, request, url_for

from covalt_git.errors import UnknownNameError
from covalt_git.git_objects import is_binary_content
from covalt_server import api_toolsets, current, highlight, shell
from covalt_server.contract import Nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.wrappers import Response

    from covalt_git.errors import Problem

pages = Blueprint("toolsets", __name__)


@pages.get("/toolsets")
def toolset_list() -> str:
    """List the toolsets, those with errors first."""
    found = api_toolsets.list_toolsets(Nothing()).toolsets
    asked = request.args.get("q", "").strip().casefold()
    shown = [one for one in found if asked in f"{one.id} {one.name} {one.description}".casefold()]
    shown.sort(key=lambda one: (one.sound, one.id))
    return render_template("toolset_list.html", toolsets=shown, total=len(found), asked=asked)


@pages.get("/toolsets/<toolset_id>")
def toolset(toolset_id: str) -> str:
    """Show one toolset: its tools, servers and files, and everything that is wrong with it."""
    shown = api_toolsets.get_toolset(api_toolsets.GetToolset(toolset_id=toolset_id))
    return render_template("toolset.html", toolset=shown, source_of=_source_of(toolset_id))


@pages.post("/toolsets/<toolset_id>/enabled")
def switch(toolset_id: str) -> Response:
    """Switch a toolset on or off."""
    enabled = request.form.get("enabled") == "true"
    api_toolsets.enable_toolset(api_toolsets.EnableToolset(toolset_id=toolset_id, enabled=enabled))
    said = "enabled" if enabled else "disabled"
    return shell.back("toolsets.toolset", toolset_id=toolset_id, said=said)


@pages.get("/toolsets/<toolset_id>/files/<path:path>")
def source(toolset_id: str, path: str) -> str:
    """Show a file of a toolset as it is checked in, its problems above it."""
    found = current.catalog().find_toolset(toolset_id)
    file = found.files.get(path)
    if file is None:
        known = [one.path for one in found.files.files]
        raise UnknownNameError("file", path, known, list_with=f"covalt-git toolset show {found.id}")
    content = (found.folder / path).read_bytes()
    shown = None
    if not is_binary_content(content):
        shown = highlight.highlighted(content.decode("utf-8", "replace"), path=path)
    name = f"toolsets/{found.id}/{path}"
    return render_template(
        "toolset_source.html",
        toolset=found,
        file=file,
        shown=shown,
        problems=[one for one in found.problems if one.path == name],
        source_of=_source_of(found.id),
    )


def _source_of(toolset_id: str) -> Callable[[Problem], str | None]:
    """Return what finds the page of a problem's place, for places in the toolset's own files."""
    folder = f"toolsets/{toolset_id}/"

    def address(problem: Problem) -> str | None:
        if not problem.path.startswith(folder):
            return None
        anchor = f"L{problem.line}" if problem.line else None
        path = problem.path.removeprefix(folder)
        return url_for("toolsets.source", toolset_id=toolset_id, path=path, _anchor=anchor)

    return address
