"""``covalt-git index``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import print_json, project, synced
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.index.index import Index
from covalt_git.index.revision import write_revision
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from covalt_git.project import Project


@click.group(cls=Group)
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
def rebuild(revision: str | None, out: Path | None) -> None:
    """Delete the index and build it again from the files and the chats.

    Example: covalt-git index rebuild
    """
    if out is not None and revision is None:
        raise WrongCallError("'--out' requires '--at REV'")
    opened = project()
    if revision is not None:
        _rebuild_at(opened, revision, out)
        return
    with _index(opened) as index:
        index.rebuild()
        counts = index.counts()
    print_json(counts)
    _print_counts(counts)


def _index(opened: Project) -> Index:
    return Index.open(opened.root, opened.config.workspace, opened.on_progress)


def _rebuild_at(opened: Project, revision: str, out: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        database = Path(name) / "index.db"
        commit, counts = write_revision(opened.root, revision, database, opened.on_progress)
        file = out or data_of(opened.root) / f"index-{commit[: output.SHORT]}.db"
        if out is not None and out.exists():
            raise WrongCallError(f"{str(out)!r} already exists")
        file.parent.mkdir(parents=True, exist_ok=True)
        # Not a rename, because the temporary folder may be on another file system.
        shutil.move(database, file)
    print_json({"commit": commit, "file": str(file), "rows": counts})
    _print_counts(counts)
    output.say(f"the toolsets of {commit[: output.SHORT]} are in {os.path.relpath(file)}")


@command.command("status")
def status() -> None:
    """Bring the index up to date and count its rows.

    Example: covalt-git index status
    """
    with _index(project()) as index:
        synced(index)
        counts = index.counts()
    print_json(counts)
    _print_counts(counts)


def _print_counts(counts: dict[str, int]) -> None:
    output.table([(name, str(count)) for name, count in counts.items()], titles=("TABLE", "ROWS"))
