"""Part of every page that follows the server's events; under ``covalt-git dev`` also the project's problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import current_app, g, request, url_for

from covalt_git.errors import CovaltError
from covalt_git.manifests.project_root import CONFIG
from covalt_server import request_context

if TYPE_CHECKING:
    from flask import Flask

    from covalt_git.errors import Problem
    from covalt_git.project_watch import ProjectScan, WatchedProject


class Broken(NamedTuple):
    """A toolset with errors, or ``covalt.yaml``.

    It has its first error, the number of its errors, and the URL of the page that lists all of them.
    """

    name: str
    problem: Problem
    errors: int
    url: str
    is_toolset: bool = True


class Live(NamedTuple):
    """The state of the project's files that a page shows.

    ``came_by_form`` marks a page that answers a form: reloading it would submit the form again.
    """

    version: str
    broken: tuple[Broken, ...]
    came_by_form: bool


def install(app: Flask, followed: WatchedProject | None) -> None:
    """Let the pages of an app follow its events; with ``followed``, show the project's problems on them."""
    app.before_request(_note_position)
    app.context_processor(lambda: {"position": g.get("position", "")})
    if followed is not None:
        app.config["COVALT_FOLLOWED"] = followed
        app.context_processor(lambda: {"live": _live()})


def _note_position() -> None:
    """Note the position in the feed before the page is read, so that it misses no later change."""
    if request.method == "GET" and request.blueprint is not None:
        g.position = request_context.feed().position()


def _live() -> Live:
    followed: WatchedProject = current_app.config["COVALT_FOLLOWED"]
    scan = followed.last
    return Live(scan.version, tuple(_broken(scan)), request.method != "GET")


def _broken(scan: ProjectScan) -> list[Broken]:
    config = [problem for problem in scan.reading.problems if problem.path == CONFIG]
    broken = []
    if config and scan.reading.config is None:
        url = url_for("config.source")
        broken.append(Broken(CONFIG, config[0], len(config), url, is_toolset=False))
    try:
        catalog = request_context.context().catalog
    except CovaltError:  # without covalt.yaml the principal's access is unknown
        return broken
    toolsets = {toolset.id: toolset for toolset in scan.reading.toolsets}
    return broken + [
        Broken(
            name,
            problem,
            sum(other.severity == "error" for other in toolsets[name].problems),
            url_for("toolsets.toolset", toolset_id=name),
        )
        for name, problem in scan.broken.items()
        # A problem quotes the toolset's files, which a role that may not see all of its tools cannot open.
        if catalog.sees_all_of(name, toolsets[name].tool_ids)
    ]
