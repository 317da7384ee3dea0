"""What ``covalt-git dev`` adds to every page: what is wrong with the toolsets, and when to load again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, current_app, render_template, request, url_for

from covalt_git.errors import CovaltError
from covalt_git.manifests.project_root import CONFIG
from covalt_server import request_context

if TYPE_CHECKING:
    from flask import Flask

    from covalt_git.errors import Problem
    from covalt_git.project_watch import ProjectScan, WatchedProject

pages = Blueprint("live", __name__)


class Broken(NamedTuple):
    """A toolset with errors, or ``covalt.yaml``: the first of them, and where to read of all."""

    name: str
    problem: Problem
    address: str | None


class Live(NamedTuple):
    """The state of the project's files that a page shows.

    ``came_by_form`` tells of a page that answers a form: loading it again would send that once more.
    """

    version: str
    broken: tuple[Broken, ...]
    came_by_form: bool


def install(app: Flask, followed: WatchedProject) -> None:
    """Let the pages of an app follow the project."""
    app.config["COVALT_FOLLOWED"] = followed
    app.register_blueprint(pages)
    app.context_processor(lambda: {"live": _live()})


@pages.get("/live")
def live() -> str:
    """Tell what is wrong now, as a page asks that is open."""
    return render_template("_live.html")


def _live() -> Live:
    followed: WatchedProject = current_app.config["COVALT_FOLLOWED"]
    look = followed.last
    return Live(look.version, tuple(_broken(look)), request.method != "GET")


def _broken(look: ProjectScan) -> list[Broken]:
    config = next((one for one in look.reading.problems if one.path == CONFIG), None)
    found = []
    if config is not None and look.reading.config is None:
        found.append(Broken(CONFIG, config, None))
    try:
        catalog = request_context.catalog()
    except CovaltError:  # without covalt.yaml nobody knows what the principal may see
        return found
    ids = {toolset.id: toolset.tool_ids for toolset in look.reading.toolsets}
    return found + [
        Broken(name, problem, url_for("toolsets.toolset", toolset_id=name))
        for name, problem in look.broken.items()
        if catalog.sees_all_of(name, ids[name])
    ]
