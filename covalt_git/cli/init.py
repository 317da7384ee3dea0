"""``covalt-git init``."""

from __future__ import annotations

from pathlib import Path

import click

from covalt_git.cli.context import print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.toolsets.new_project import REPOSITORY, commit_project, create_project
from covalt_git.trust import Consents


@click.command(cls=JsonCommand)
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def command(folder: Path) -> None:
    """Create a project with three sample toolsets in FOLDER, by default the current folder.

    Outside of a git repository, it also creates the repository and a first commit.

    Example: covalt-git init demo
    """
    folder = click.get_current_context().find_root().obj["root"] / folder
    # Toolsets and data that exist before the project may be another user's, with their grants and approvals.
    is_new = not (folder / "toolsets").exists() and not (folder / "data").exists()
    files = create_project(folder)
    if is_new:
        Consents.of(folder).trust_new_project()
    if REPOSITORY in files:
        commit_project(folder, files)
    print_json({"root": str(folder.absolute()), "made": files})
    if ".gitignore" not in files:
        output.say("add /data/ to your .gitignore: chats are not committed")
    output.say(f"created a project in {folder}: {', '.join(files)}")
    go = "" if folder == Path() else f"cd {folder} && "
    output.say(f"next: {go}covalt-git validate && covalt-git tool list")
