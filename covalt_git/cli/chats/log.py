"""``covalt-git chat log``: the commits of a chat."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, chat_argument, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import history_graph, output
from covalt_git.conversations.commit_names import UnknownCommitError
from covalt_git.conversations.history import layout
from covalt_git.errors import WrongCallError
from covalt_git.operations.chats import manifests
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.operations.chats.manifests import ManifestPage, ManifestRow

_MOST_NAMES = 4
_PAGE = 500
_SHORT_ID = 8


class _LogCommand(JsonCommand):
    """A command with a path after ``--``, as git has it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert the path to an option."""
        if "--" in args:
            at = args.index("--")
            if len(args) != at + 2:
                raise click.UsageError("Name one PATH after `--`.", ctx)
            args = [*args[:at], f"--path={args[-1]}"]
        return super().parse_args(ctx, args)


@click.command(cls=_LogCommand)
@chat_argument
@click.argument("commit", metavar="[COMMIT] [-- PATH]", required=False)
@click.option("-n", "--max-count", type=click.IntRange(1), help="Show at most this many.")
@click.option("--all", "everything", is_flag=True, help="Show the commits of all branches.")
@click.option("--graph", is_flag=True, help="Draw the branches: all, or the history of COMMIT.")
@click.option("--oneline", is_flag=True, help="Leave out dates and changed files.")
@click.option("--path", hidden=True)
def log(
    chat_id: str,
    commit: str | None,
    path: str | None,
    max_count: int | None,
    *,
    everything: bool,
    graph: bool,
    oneline: bool,
) -> None:
    """List the commits of a chat, newest first.

    These are the commits of the active branch, or the history of COMMIT.  With a PATH, only the
    commits that changed this file, or files in this folder, also on merged branches.  The calls of a script are below it, after `└`;
    other calls of a script name it.  Scripts that wait for an approval are in the last lines.

    Example: covalt-git chat log c1 -- report.md
    """
    if graph and path is not None:
        raise WrongCallError("--graph shows whole histories; leave out --graph or the PATH")
    which: dict[str, object] = {"path": path}
    if not everything and (commit is not None or not graph):
        # A change of a file that came by a merge is a change of this file, as in git.
        first_parents = not graph and path is None
        which |= {"manifest": commit or "HEAD", "first_parents": first_parents}
    try:
        page = _page(chat_id, max_count, **which)
    except UnknownCommitError as error:
        # Users of git write a path in the place of a commit, which git accepts.
        if commit and path is None and _page(chat_id, 1, manifest="HEAD", path=commit).manifests:
            error.hint = f"covalt-git chat log {chat_id} -- {shlex.quote(commit)}"
        raise
    print_json(page)
    if not page.manifests and path is not None:
        output.say(f"no commit has changed {path!r}")
    elif not page.manifests:
        _print_empty(chat_id, page.active_branch)
    elif graph:
        _draw(page, has_all=everything or commit is None, oneline=oneline)
    else:
        for manifest, is_below in zip(page.manifests, _below_scripts(page), strict=True):
            prefix = "  └ " if is_below else ""
            _print_manifest(manifest, page.active_branch, prefix=prefix, is_below=is_below)
            if not oneline:
                output.say(f"{' ' * len(prefix)}    {_facts(manifest)}", dim=True)
    if path is None and commit is None and page.open_scripts:
        _print_waiting_scripts(chat_id)


def _page(chat_id: str, most: int | None, **which: object) -> ManifestPage:
    """Return the newest commits of a history, at most ``most``; all of them for None."""
    rows: list[ManifestRow] = []
    while True:
        page = ask(
            manifests.list_manifests,
            chat_id=chat_id,
            limit=_PAGE if most is None else min(_PAGE, most - len(rows)),
            before=rows[-1].id if rows else None,
            changes=True,
            **which,
        )
        rows += page.manifests
        if not page.more or len(rows) == most:
            return page.model_copy(update={"manifests": tuple(rows)})


def _below_scripts(page: ManifestPage) -> Iterator[bool]:
    """Yield for each commit whether it is printed below the end of the script that made its call.

    A script ends after its calls, so they follow it, until another commit is in between.
    """
    script_id = None
    for manifest in page.manifests:
        is_below = script_id is not None and manifest.script_id == script_id
        if not is_below:
            is_call = manifest.call is not None and manifest.script_id is None
            script_id = manifest.source_ref if is_call else None
        yield is_below


def _print_waiting_scripts(chat_id: str) -> None:
    """Print at which call and line each script of a chat waits."""
    from covalt_git.operations import scripts  # noqa: PLC0415 - it loads the checks of scripts

    for script in ask(scripts.list_scripts, chat_id=chat_id).scripts:
        if script.execution_id is not None:
            output.fact(
                f"script {script.id[-_SHORT_ID:]} on {script.branch} waits at line {script.waits_line or '?'}"
                f" for the approval of {script.waits_for}: covalt-git approval approve {script.execution_id}"
            )


def _print_empty(chat_id: str, branch: str) -> None:
    """Print that a chat's branch has no commits, and how to create one."""
    where = chat_id if branch == "main" else f"{chat_id} on {branch}"
    output.say(f"{where} has no commit yet")
    output.say(
        f"next: covalt-git chat upload {chat_id} FILE, or covalt-git call {chat_id} TOOL", dim=True
    )


def _draw(page: ManifestPage, *, has_all: bool, oneline: bool) -> None:
    """Print commits next to the graph of their history, with the active branch in the first lane.

    ``has_all``: whether it is the history of all branches, which includes the active one.
    """
    active, head = page.active_branch, page.active_manifest_id
    trunk = head if has_all or head in [manifest.id for manifest in page.manifests] else None
    rows = layout(((manifest.id, manifest.parents) for manifest in page.manifests), trunk=trunk)
    for row, manifest in zip(rows, page.manifests, strict=True):
        first, below = history_graph.graph_rows(row)
        for line in first[:-1]:
            output.say(line)
        _print_manifest(manifest, active, prefix=f"{first[-1]}  ")
        facts = "" if oneline else f"{below.ljust(len(first[-1]))}  {_facts(manifest)}"
        if facts or below.strip("│ "):  # it joins or leaves lanes
            output.say(facts or below, dim=True)


def _print_manifest(
    manifest: ManifestRow, active: str, *, prefix: str = "", is_below: bool = False
) -> None:
    where = branch_names(manifest, active)
    note = ""
    if manifest.script_id is not None and not is_below:
        note += f"  (script {manifest.script_id[-_SHORT_ID:]})"
    if manifest.waited_s is not None:
        note += f"  (waited for approval, {display.duration(manifest.waited_s)})"
    line = f"{prefix}{manifest.id[: output.SHORT]}{where}  {manifest.title}{note}"
    output.say(line, fg="red" if manifest.status == "error" else None)


def _facts(manifest: ManifestRow) -> str:
    marked = [f"{output.MARKS[change.kind][0]}{change.path}" for change in manifest.changes or ()]
    more = f" and {len(marked) - _MOST_NAMES} more" if len(marked) > _MOST_NAMES else ""
    changes = ", ".join(marked[:_MOST_NAMES]) + more or "no file changed"
    return f"{manifest.created_at}  {changes}"


def branch_names(manifest: ManifestRow, active: str) -> str:
    """Return the branches at a commit in brackets, the active one with a star; empty without branches."""
    names = [f"*{name}" if name == active else name for name in manifest.branches]
    return f" ({', '.join(names)})" if names else ""
