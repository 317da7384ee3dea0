"""``covalt-git index``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import json_option, project, synced, wrong_call
from covalt_git.cli.terminal import output
from covalt_git.index.index import Index
from covalt_git.index.revision import write_revision

if TYPE_CHECKING:
    from covalt_git.project import Project


@click.group()
def command() -> None:
    """Rebuild or inspect the index, a cache of the files."""


@command.command("rebuild")
@click.option(
    "--at",
    "revision",
    metavar="REV",
    help="Index the toolsets of this commit, in a separate file.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --at: the new file; default: a file in data/, named after the commit.",
)
@json_option
def rebuild(revision: str | None, out: Path | None, *, as_json: bool) -> None:
    """Delete the index and build it again from the files and the chats.

    Example: covalt-git index rebuild
    """
    if out is not None and revision is None:
        raise wrong_call("'--out' requires '--at REV'")
    opened = project()
    if revision is not None:
        _rebuild_at(opened, revision, out, as_json=as_json)
        return
    with _index(opened) as index:
        index.rebuild()
        _print(index.counts(), as_json=as_json)


def _index(opened: Project) -> Index:
    return Index.of_project(opened.root, opened.config.workspace, opened.on_progress)


def _rebuild_at(opened: Project, revision: str, out: Path | None, *, as_json: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        made = Path(name) / "index.db"
        commit, counts = write_revision(opened.root, revision, made, opened.on_progress)
        file = out or opened.root / "data" / f"index-{commit[: output.SHORT]}.db"
        if out is not None and out.exists():
            raise wrong_call(f"{str(out)!r} already exists")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, file)
    if as_json:
        output.as_json({"commit": commit, "file": str(file), "rows": counts})
        return
    _print(counts, as_json=False)
    output.say(f"the toolsets of {commit[: output.SHORT]} are in {os.path.relpath(file)}")


@command.command("status")
@json_option
def status(*, as_json: bool) -> None:
    """Bring the index up to date and count its rows.

    Example: covalt-git index status
    """
    with _index(project()) as index:
        synced(index)
        _print(index.counts(), as_json=as_json)


def _print(counts: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        output.as_json(counts)
    else:
        output.table(
            [(name, str(count)) for name, count in counts.items()], titles=("TABLE", "ROWS")
        )
