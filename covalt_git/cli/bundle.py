"""``covalt-git bundle``: a toolset as one file."""

from __future__ import annotations

import hashlib
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from covalt_git.cli import bundle_verify, output
from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.context import as_admin, json_option, project, toolsets_indexed
from covalt_git.cli.toolset_update import named_source, tell, wanted
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.signatures import beside, sign
from covalt_git.system import atomic_write
from covalt_git.toolsets.export import bundle_name, pack_bundle


@click.group()
def command() -> None:
    """Put a toolset into one file, to give it away; take in and verify what others made."""


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
    """Put the toolset ID into a ZIP file: the same files make the same bytes.

    What this project decided about it (on or off, grants, local overrides) is not in it.  Nothing is
    made where a file holds a credential, or the value of a secret of this machine.
    """
    to_output = path is not None and str(path) == "-"
    if key and to_output:
        raise click.UsageError("--sign writes a second file beside the first: name that with -o")
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
    if to_output:
        sys.stdout.buffer.write(content)
        return
    version = toolset.manifest.version if toolset.manifest else ""
    path = path or Path(bundle_name(toolset))
    with ExitStack() as made:
        made.enter_context(atomic_write.create(path)).write(content)
        if key:
            # Last in, first out: the bundle is never there without its signature.
            made.enter_context(atomic_write.create(beside(path))).write(sign(content, key))
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
                "signature": str(beside(path)) if key else None,
            }
        )
        return
    output.say(f"{path}: {len(files)} files of {toolset_id} {version}, {len(content)} bytes")
    output.say(toolset.digest)
    if key:
        output.say(f"{beside(path)}: its signature, to be given away with it")


@command.command("import")
@click.argument("source", metavar="FILE|DIR|URL")
@click.option("--dry-run", is_flag=True, help="Check it and say what would come; change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Over one that was imported before: give up what was changed here.",
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
    """Take in the toolset of a ZIP, a directory or an https address: off, with nothing granted to it.

    Nothing of it runs, connects or is imported.  One that could be understood in two ways, or that
    holds what a toolset may not, is refused, and nothing of it stays.  So is one that is signed, if
    not by one of `signers` in covalt.yaml as it is.  One that was imported before is updated, as by
    `toolset update`.
    """
    opened = as_admin("take in toolsets")
    imported = import_toolset(
        opened.root,
        named_source(source),
        signature=signature,
        dry_run=dry_run,
        force=force,
        accept_signer=accept_signer,
    )
    toolset = imported.toolset
    if not dry_run:
        toolsets_indexed(opened)
    if imported.update is not None:
        tell(imported.update, opened.root, dry_run=dry_run, as_json=as_json)
        return
    warnings = [one for one in toolset.problems if one.severity == "warning"]
    wants = wanted(toolset)
    if as_json:
        output.as_json(
            {
                "toolset_id": toolset.id,
                "version": toolset.manifest.version if toolset.manifest else None,
                "source_type": imported.source_type,
                "source_ref": imported.source_ref,
                "digest": toolset.digest,
                "signer": imported.signer and imported.signer.model_dump(),
                "files": [file.path for file in toolset.files.files],
                "tools": [tool.tool_id for tool in toolset.tools],
                "wants": wants,
                "warnings": [one.as_json() for one in warnings],
                "dry_run": dry_run,
            }
        )
        return
    version = toolset.manifest.version if toolset.manifest else ""
    output.say(f"{toolset.id} {version}: {len(toolset.files.files)} files, {toolset.digest}")
    output.say(f"  signed by: {imported.signer or 'nobody'}")
    output.say(f"  tools: {', '.join(tool.id.name for tool in toolset.tools) or 'none'}")
    for title, names in wants.items():
        output.say(f"  {title}: {', '.join(names)}")
    for one in warnings:
        output.say(f"  {one.path.removeprefix('toolsets/')}: {one.message}", fg="yellow")
    if dry_run:
        output.say("nothing has changed")
        return
    output.say("it is switched off; look at it, then let it run:")
    output.say(f"  covalt-git toolset show {toolset.id}")
    output.say(f"  covalt-git toolset enable {toolset.id}")


command.add_command(bundle_verify.verify)
