"""``covalt-git dev``: preview server that checks the project's files when they change."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING

import click

from covalt_git.calls import schema_warnings
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.serve import host_option, open_option, open_pages, port_option, print_url
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_root import find_root
from covalt_git.project_watch import Changes, WatchedProject
from covalt_git.serving.server import ServedProject, serve
from covalt_git.system.node_folder import check_changeable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.errors import Problem
    from covalt_git.models.project_config import ServerConfig
    from covalt_git.project_watch import ProjectScan


@click.command(cls=JsonCommand)
@port_option
@host_option
@click.option(
    "--poll",
    is_flag=True,
    help="Scan the files at intervals, for file systems that report no changes.",
)
@open_option
def command(port: int | None, host: str | None, *, poll: bool, opened: bool) -> None:
    """Serve the project in your browser and check its files on every change, until Ctrl-C.

    For a toolset with errors, the pages show its last valid version, and its tools cannot be called until
    the errors are fixed.  Open pages reload automatically.  A warning is printed if a Python tool runs with
    another schema than the listed one.  With --json, each line is an object.

    Example: covalt-git dev --port 8000
    """
    options = click.get_current_context().find_root().obj
    root = find_root(options["root"])
    check_changeable(current_root(root))
    project = WatchedProject(root)
    reporter = _Reporter(project)

    def ready(serving: ServedProject) -> None:
        print_url(serving)
        reporter.start()
        if opened:
            open_pages(serving)

    with _watching(project, reporter, poll=poll), schema_warnings.reported(output.warn):
        serve(
            project.root,
            on_ready=ready,
            host=host,
            port=port,
            role=options["role"],
            watch=project,
        )
    output.say("stopped", err=True)


@contextlib.contextmanager
def _watching(project: WatchedProject, reporter: _Reporter, *, poll: bool) -> Iterator[None]:
    changes = Changes(project.root, poll=poll)

    def follow() -> None:
        # Scan before the first wait: changes before the watch started are not reported.
        why, waiting = "", True
        while waiting:
            if changes.why_polling != why and not poll:
                why = changes.why_polling
                output.say(f"{why}: scanning at intervals instead, as with --poll", err=True)
            start = time.monotonic()
            try:
                scan = project.scan()
            except OSError as error:
                # It may be temporary, such as too many open files, so the next change is scanned again.
                output.say(f"cannot scan the files: {error.strerror}", err=True, fg="red")
                scan = None
            changes.scanned(time.monotonic() - start)
            if scan is not None:
                reporter.changed(scan)
            waiting = changes.wait()

    thread = threading.Thread(target=follow, name="follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        changes.close()
        thread.join()


class _Reporter:
    """Printer of the results of scans; thread-safe."""

    def __init__(self, project: WatchedProject) -> None:
        self._project = project
        self._as_json = wants_json()
        # `start` is called when the server is ready, `changed` by the thread that follows the files.
        self._lock = threading.Lock()
        self._reported: tuple[Problem, ...] = ()
        self._server: ServerConfig | None = None
        self._started = False

    def start(self) -> None:
        """Print the state of the project, after its URL."""
        with self._lock:
            self._started = True
            scan = self._project.last
            self._server = _server(scan)
            self._print_problems(scan, scan.reading.problems)

    def changed(self, scan: ProjectScan) -> None:
        """Print the changes of a scan."""
        with self._lock:
            # The URL comes first, and then `start` prints all problems.
            if not self._started:
                return
            new = tuple(
                problem
                for problem in scan.reading.problems
                if _is_news(problem, scan, self._reported)
            )
            self._print_problems(scan, new)

    def _print_problems(self, scan: ProjectScan, problems: tuple[Problem, ...]) -> None:
        reading, broken = scan.reading, scan.broken
        self._reported = reading.problems
        tools = sum(toolset.tool_count for toolset in reading.toolsets)
        if self._as_json:
            report = {
                "changed": scan.changed,
                "mended": scan.fixed,
                "broken": sorted(broken),
                "problems": [problem.as_json() for problem in reading.problems],
                "toolsets": len(reading.toolsets),
                "tools": tools,
            }
            click.echo(json.dumps(report))
            return
        print_problems(problems, reading.root)
        for name in scan.changed:
            if name in broken:
                effect = "its last valid version is shown, and its tools cannot be called until it is fixed"
                output.say(f"{name} has errors: {effect}", fg="red")
            elif name in scan.fixed:
                output.say(f"{name} is valid again", fg="green")
        counted = (
            f"{output.plural(len(reading.toolsets), 'toolset')}, {output.plural(tools, 'tool')}"
        )
        count = len(reading.problems)
        result = output.plural(count, "problem") if count else "no problems"
        output.say(
            f"{time.strftime('%H:%M:%S')} {counted}: {result}", fg="red" if broken else "green"
        )
        server = _server(scan)
        if server is not None and server != self._server:
            self._server = server
            output.say("restart to apply the new 'server' of covalt.yaml", fg="yellow")


def _server(scan: ProjectScan) -> ServerConfig | None:
    config = scan.reading.config
    return None if config is None else config.server


def _is_news(problem: Problem, scan: ProjectScan, reported: tuple[Problem, ...]) -> bool:
    """Return whether a problem is new, or in a toolset that has just changed."""
    changed = any(problem.path.startswith(f"toolsets/{name}/") for name in scan.changed)
    return changed or problem not in reported
