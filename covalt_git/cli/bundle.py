"""``covalt-git bundle``: a toolset as one file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from covalt_git.cli import bundle_verify
from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.context import ask, context, json_option
from covalt_git.cli.terminal import output
from covalt_git.cli.toolset_update import leave_undecided, print_update
from covalt_git.operations import bundles, toolset_imports


@click.group()
def command() -> None:
    """Export a toolset to one file, import toolsets, and verify them."""


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
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Sign it with this key of ssh-keygen, in FILE.sig beside it.",
)
@json_option
def export(
    toolset_id: str, path: Path | None, *, allow_guesses: bool, key: Path | None, as_json: bool
) -> None:
    """Export the toolset ID to a ZIP file: the same files make the same bytes.

    The decisions of this project about it (on or off, grants, local overrides) are not included.  If a
    file has a credential, or the value of a secret of this machine, the export is refused.
    """
    to_output = path is not None and str(path) == "-"
    if key and to_output:
        raise click.UsageError("--sign writes a second file beside the first: name that with -o")
    if to_output:
        found = ask(bundles.export_toolset, toolset_id=toolset_id, allow_guesses=allow_guesses)
        shutil.copyfileobj(found.stream, sys.stdout.buffer)
        return
    made = ask(
        bundles.write_bundle,
        toolset_id=toolset_id,
        path=path,
        key=key,
        allow_guesses=allow_guesses,
    )
    if as_json:
        output.as_json(made)
        return
    output.say(
        f"{made.file}: {output.plural(made.files, 'file')} of {toolset_id} {made.version}, {made.bytes} bytes"
    )
    output.say(made.digest)
    if made.signature:
        output.say(f"{made.signature}: its signature, to be sent with it")


@command.command("import")
@click.argument("source", metavar="FILE|DIR|URL")
@click.option(
    "--dry-run", is_flag=True, help="Check it and print what would be imported; change nothing."
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace an imported toolset, with its local changes.",
)
@signature_option
@accept_option
@json_option
def import_(
    source: str,
    *,
    dry_run: bool,
    force: bool,
    signature: Path | None,
    accept_signer: bool,
    as_json: bool,
) -> None:
    """Import the toolset of a ZIP, a directory or an https URL, disabled and without grants.

    None of its code runs, and no connection is made.  A bundle that is ambiguous or has forbidden files
    is refused and not stored.  So is one that is signed, if not by one of `signers` in covalt.yaml.  A
    toolset that was imported before is updated, as by `toolset update`.
    """
    imported = ask(
        toolset_imports.import_toolset_from,
        source=source,
        signature=signature,
        dry_run=dry_run,
        force=force,
        accept_signer=accept_signer,
    )
    if as_json:
        output.as_json(imported)
    elif imported.update is not None:
        print_update(imported.update, context().project.root)
    else:
        _print_import(imported)
    if imported.update is not None:
        leave_undecided(imported.update)


def _print_import(imported: toolset_imports.ToolsetImported) -> None:
    toolset_id = imported.toolset_id
    output.say(
        f"{toolset_id} {imported.version}: {output.plural(len(imported.files), 'file')}, {imported.digest}"
    )
    output.say(f"  signed by: {imported.signer}" if imported.signer else "  not signed")
    names = [tool.tool_id.partition(":")[2] for tool in imported.tools]
    output.say(f"  tools: {', '.join(names) or 'none'}")
    for title, wanted in imported.wants.items():
        output.say(f"  {title}: {', '.join(wanted)}")
    for one in imported.warnings:
        output.say(f"  {one.path.removeprefix('toolsets/')}: {one.message}", fg="yellow")
    if imported.dry_run:
        output.say("nothing has changed")
        return
    output.say("it is disabled; review it, then enable it:")
    output.say(f"  covalt-git toolset show {toolset_id}")
    output.say(f"  covalt-git toolset enable {toolset_id}")


command.add_command(bundle_verify.verify)
