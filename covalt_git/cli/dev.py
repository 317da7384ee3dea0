"""``covalt-git dev``: the preview server, and every save checked."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import json_option
from covalt_git.cli.serve import host_option, open_option, open_pages, port_option, print_url
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.manifests.project_root import find_root
from covalt_git.project_watch import Changes, WatchedProject
from covalt_git.serving.server import ServedProject, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.errors import Problem
    from covalt_git.models.project_config import ServerConfig
    from covalt_git.project_watch import ProjectScan


@click.command()
@port_option
@host_option
@click.option(
    "--poll",
    is_flag=True,
    help="Scan the files at intervals, for file systems that report no changes.",
)
@open_option
@json_option
def command(port: int | None, host: str | None, *, poll: bool, opened: bool, as_json: bool) -> None:
    """Show the project in your browser while you edit it, and check every save, until Ctrl-C.

    A toolset with errors is shown as before the errors, here and on every page.  Its tools cannot be called
    until they are fixed.  Open pages reload by themselves.  With --json, every line is an object.
    """
    given = click.get_current_context().find_root().obj
    followed = WatchedProject(find_root(given["root"]))
    teller = _Teller(followed, as_json=as_json)

    def ready(serving: ServedProject) -> None:
        print_url(serving, as_json=as_json)
        teller.first()
        if opened:
            open_pages(serving)

    with _following(followed, teller, poll=poll):
        serve(
            followed.root,
            on_ready=ready,
            host=host,
            port=port,
            role=given["role"],
            watch=followed,
        )
    output.say("stopped", err=True)


@contextlib.contextmanager
def _following(followed: WatchedProject, teller: _Teller, *, poll: bool) -> Iterator[None]:
    changes = Changes(followed.root, poll=poll)

    def follow() -> None:
        # What changed between the first look and the first watch was told by nobody.
        why, waiting = "", True
        while waiting:
            if changes.why_polling != why and not poll:
                why = changes.why_polling
                output.say(f"{why}: looking every moment instead, as with --poll", err=True)
            began = time.monotonic()
            try:
                look = followed.scan()
            except OSError as error:  # such as too many open files: it may pass
                output.say(f"cannot look at the files: {error.strerror}", err=True, fg="red")
                look = None
            changes.scanned(time.monotonic() - began)
            if look is not None:
                teller.changed(look)
            waiting = changes.wait()

    thread = threading.Thread(target=follow, name="follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        changes.close()
        thread.join()


class _Teller:
    """Says on the terminal what each look found, one look after the other."""

    def __init__(self, followed: WatchedProject, *, as_json: bool) -> None:
        self._followed = followed
        self._as_json = as_json
        self._speaking = threading.Lock()
        self._told: tuple[Problem, ...] = ()
        self._server: ServerConfig | None = None
        self._begun = False

    def first(self) -> None:
        """Say how the project is, once its address was told."""
        with self._speaking:
            self._begun = True
            look = self._followed.last
            self._server = _server(look)
            self._print_problems(look, look.reading.problems)

    def changed(self, look: ProjectScan) -> None:
        """Say what changed."""
        with self._speaking:
            if not self._begun:  # what comes first says all of it
                return
            new = tuple(one for one in look.reading.problems if _concerns(one, look, self._told))
            self._print_problems(look, new)

    def _print_problems(self, look: ProjectScan, problems: tuple[Problem, ...]) -> None:
        reading, broken = look.reading, look.broken
        self._told = reading.problems
        tools = sum(toolset.tool_count for toolset in reading.toolsets)
        if self._as_json:
            told = {
                "changed": look.changed,
                "mended": look.fixed,
                "broken": sorted(broken),
                "problems": [one.as_json() for one in reading.problems],
                "toolsets": len(reading.toolsets),
                "tools": tools,
            }
            click.echo(json.dumps(told))
            return
        print_problems(problems, reading.root)
        for name in look.changed:
            if name in broken:
                kept = "its last good version is shown, and its tools cannot be called until it is fixed"
                output.say(f"{name} has errors: {kept}", fg="red")
            elif name in look.fixed:
                output.say(f"{name} is sound again", fg="green")
        counted = (
            f"{output.plural(len(reading.toolsets), 'toolset')}, {output.plural(tools, 'tool')}"
        )
        count = len(reading.problems)
        result = output.plural(count, "problem") if count else "no problems"
        output.say(
            f"{time.strftime('%H:%M:%S')} {counted}: {result}", fg="red" if broken else "green"
        )
        server = _server(look)
        if server is not None and server != self._server:
            self._server = server
            output.say("start again for the new 'server' of covalt.yaml", fg="yellow")


def _server(look: ProjectScan) -> ServerConfig | None:
    config = look.reading.config
    return None if config is None else config.server


def _concerns(problem: Problem, look: ProjectScan, told: tuple[Problem, ...]) -> bool:
    """Tell whether a problem is new, or of a toolset that was saved just now."""
    mine = any(problem.path.startswith(f"toolsets/{name}/") for name in look.changed)
    return mine or problem not in told
