"""``covalt-git bundle``: a toolset as one file."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import click

from covalt_git.cli import output
from covalt_git.cli.session import json_option, project
from covalt_git.errors import CovaltError
from covalt_git.files.bundles import pack_bundle
from covalt_git.new_file import new_file
from covalt_git.secret_values import SecretStore

_PLAIN_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,40}")


@click.group()
def command() -> None:
    """Put a toolset into one file, to give it away."""


@command.command("export")
@click.argument("toolset_id", metavar="ID")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The file to make, - for standard output; ID-VERSION.zip if left out.",
)
@click.option(
    "--allow-guesses",
    is_flag=True,
    help="Export also what only looks like a credential; one of a known shape is refused anyway.",
)
@json_option
def export(toolset_id: str, path: Path | None, *, allow_guesses: bool, as_json: bool) -> None:
    """Put the toolset ID into a ZIP file: the same files make the same bytes.

    What this project decided about it (on or off, grants, local overrides) is not in it.  Nothing is
    made where a file holds a credential, or the value of a secret of this machine.
    """
    opened = project()
    toolset = opened.catalog.find_toolset(toolset_id)
    if len(opened.catalog.visible(toolset.tools)) < len(toolset.tools):
        raise CovaltError(
            f"your role does not see all of {toolset_id!r}", hint="a role that does may"
        )
    content = pack_bundle(
        opened.root,
        toolset,
        SecretStore.of_this_machine().known(),
        allow_guesses=allow_guesses,
    )
    if path is not None and str(path) == "-":
        sys.stdout.buffer.write(content)
        return
    version = toolset.manifest.version if toolset.manifest else ""
    named = f"{toolset_id}-{version}" if _PLAIN_VERSION.fullmatch(version) else toolset_id
    path = path or Path(f"{named}.zip")
    with new_file(path) as file:
        file.write(content)
    files = toolset.files.files
    if as_json:
        output.as_json(
            {
                "toolset_id": toolset_id,
                "version": version,
                "file": str(path),
                "files": len(files),
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "digest": toolset.digest,
            }
        )
        return
    output.say(f"{path}: {len(files)} files of {toolset_id} {version}, {len(content)} bytes")
    output.say(toolset.digest)
