"""``covalt-git bundle``: a toolset as one file."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli import bundle_verify
from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, check_user, context
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.toolset_update import is_unresolved, print_update
from covalt_git.cli.trust_question import print_permissions
from covalt_git.errors import CovaltError
from covalt_git.operations import bundles, toolset_imports
from covalt_git.operations.script_folders import with_folders

if TYPE_CHECKING:
    from collections.abc import Collection


@click.group(cls=Group)
def command() -> None:
    """Export, import and verify toolsets as ZIP files."""


@command.command("export")
@click.argument("toolset_id", metavar="ID")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="The file to write, or - for standard output; default: ID-VERSION.zip.",
)
@click.option(
    "--allow-guesses",
    is_flag=True,
    help="Also export values that only look like credentials; known formats are always refused.",
)
@click.option(
    "--placeholders",
    is_flag=True,
    help="Write ${NAME} for each credential of toolset.yaml, in the exported copy only.",
)
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Sign it with this SSH key; writes FILE.sig next to it.",
)
@click.option(
    "--server-json",
    "as_server",
    is_flag=True,
    help="Write a server.json for the MCP registry instead; default file: server.json.",
)
@click.option(
    "--server-name",
    metavar="NAME",
    help="With --server-json: its name in the registry, such as io.github.ada/data-lab.",
)
@click.option(
    "--server-url",
    metavar="URL",
    help="With --server-json: the URL at which others reach it, such as https://tools.example.com/mcp.",
)
def export(
    toolset_id: str,
    path: Path | None,
    *,
    key: Path | None,
    as_server: bool,
    server_name: str | None,
    server_url: str | None,
    **how: bool,
) -> None:
    """Export the toolset ID to a ZIP file.

    Equal files give equal bytes.  The decisions of this project (enabled, grants, overrides) are
    not included.  If a file has a credential, or the value of a secret of this machine, the export is
    refused.  With --placeholders, credentials of toolset.yaml become names of secrets, which are listed.

    With --server-json, it writes no ZIP but the entry of the MCP registry for a toolset that you serve over MCP.

    Example: covalt-git bundle export data-lab
    """
    if as_server:
        if key or any(how.values()):
            raise click.UsageError("--server-json writes no ZIP: leave out the options of the ZIP")
        _export_server(toolset_id, path, server_name, server_url)
        return
    if server_name or server_url:
        raise click.UsageError("--server-name and --server-url belong to --server-json: add it")
    to_output = path is not None and str(path) == "-"
    if key and to_output:
        raise click.UsageError("--sign writes a second file beside the first: name that with -o")
    if to_output:
        file = ask(bundles.export_toolset, toolset_id=toolset_id, **how)
        shutil.copyfileobj(file.stream, sys.stdout.buffer)
        return
    bundle = ask_to_print(
        bundles.write_bundle,
        toolset_id=toolset_id,
        path=path,
        key=key,
        **how,
    )
    output.say(
        f"{bundle.file}: {output.plural(bundle.files, 'file')} of {toolset_id} {bundle.version}, {bundle.bytes} bytes"
    )
    output.say(bundle.digest)
    for placeholder in bundle.placeholders:
        output.say(f"${{{placeholder.name}}} replaces the credential at {placeholder.path}")
    if bundle.signature:
        output.say(f"{bundle.signature}: its signature, to be sent with it")


def _export_server(
    toolset_id: str, path: Path | None, server_name: str | None, server_url: str | None
) -> None:
    """Write or print the server.json of a toolset."""
    if not server_name or not server_url:
        raise click.UsageError(
            "--server-json requires a name and a URL: --server-name io.github.ada/data-lab "
            "--server-url https://tools.example.com/mcp"
        )
    how = {"toolset_id": toolset_id, "server_name": server_name, "server_url": server_url}
    if path is not None and str(path) == "-":
        output.as_json(ask(bundles.export_server_json, **how).server)
        return
    if path is not None:
        how["path"] = str(path)
    written = ask_to_print(bundles.write_server_json, **how)
    output.say(f"{written.file}: {written.server['name']} {written.server['version']}")
    output.say("publish it with the registry's program: mcp-publisher publish")


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
@click.option(
    "--from",
    "source_format",
    metavar="FORMAT",
    help="The format of a document, if its content does not show it.",
)
@signature_option
@click.option(
    "--trust-signer",
    "signer",
    metavar="NAME",
    help="Add the unknown key that signed it to `signers` in covalt.yaml, under this name.",
)
@click.option("--unsigned", is_flag=True, help="Ignore the signature.")
@click.option(
    "--existing",
    type=click.Choice(["add", "replace"]),
    help="What to do if a document would replace parts of a toolset that exists.",
)
@click.option("--as", "toolset_id", metavar="ID", help="Import it under another name.")
@click.option("--sha256", metavar="HEX", help="Refuse a file with another SHA-256.")
@accept_option
@click.option(
    "--trust",
    "trusts",
    is_flag=True,
    help="Print what would be trusted and ask; then also grant it, enable the toolset and connect its MCP servers.",
)
@click.option(
    "--script-folders",
    "script_folders",
    is_flag=True,
    help="With --trust: also let the programs of its MCP servers read the folders of their scripts.",
)
@click.option("--yes", is_flag=True, help="With --trust, at a terminal: do not ask.")
@reason_option
def import_(
    source: str,
    *,
    signer: str | None,
    trusts: bool,
    script_folders: bool,
    yes: bool,
    reason: str | None,
    **how: Any,
) -> None:
    """Import a toolset, disabled and without grants.

    FILE is a ZIP, or a document in a format of `covalt-git formats`; URL is the https URL of a ZIP.  None
    of the toolset's code runs, and no server is connected.  A bundle that is ambiguous or has forbidden files
    is refused and not stored.  A signature must be by one of `signers` in covalt.yaml.  A toolset that was
    imported before is updated, as by `toolset update`.  A document whose toolset exists and has other parts, such as
    other MCP servers, is refused: choose --existing add, --existing replace, or another name with --as.

    With --trust, you review the requested grants once, and the command imports, grants, enables and
    connects.  It is refused for updates, and on a machine without a sandbox.  With --script-folders, a server whose
    command names a script of this machine may also read the folder of the script.  A script without a terminal
    states a reason for --trust, --trust-signer and --accept-signer with --no-terminal.

    Example: covalt-git bundle import weather.zip
    """
    if signer is not None:
        if how["unsigned"] or how["dry_run"]:
            raise click.UsageError("--trust-signer cannot be combined with --unsigned or --dry-run")
        how["trusted_signer"] = _trusted_signer(source, signer, reason=reason, **how)
    if script_folders and not trusts:
        raise click.UsageError("--script-folders belongs to --trust: add it")
    if trusts and not how["dry_run"]:
        how |= _reviewed(source, folders=script_folders, yes=yes, reason=reason, **how)
    imported = ask(toolset_imports.import_toolset_from, source=source, reason=reason, **how)
    if wants_json():
        output.as_json(imported)
    elif imported.trusted:
        _print_trusted(imported, how["script_folders"])
    elif imported.update is not None:
        print_update(imported.update, context().project.root)
        if imported.dry_run and imported.replaces and how["existing"] is None:
            output.fact(f"  replaces: {', '.join(imported.replaces)}", fg="yellow")
            output.say(f"add one of: --existing add, --existing replace, --as {imported.free_id}")
    else:
        print_import(imported)
    # After its content was printed, by which the user decides about the key.
    if imported.signer_problem is not None:
        raise imported.signer_problem.as_error()
    if imported.update is not None and is_unresolved(imported.update):
        raise click.exceptions.Exit(1)


def _trusted_signer(source: str, name: str, *, reason: str | None, **how: Any) -> str:
    """Print the key that signed a bundle, ask unless there is a reason, and return its line for ``signers``."""
    preview = ask(toolset_imports.import_toolset_from, source=source, **how | {"dry_run": True})
    if not preview.unknown_key:
        signed = f"signed by {preview.signer.principal!r}" if preview.signer else "not signed"
        raise CovaltError(
            f"it is {signed}, so there is no key to add", hint="leave out --trust-signer"
        )
    line = f"{name} {preview.unknown_key}"
    assert preview.signer_problem is not None
    # On stderr, because stdout may get JSON.
    output.fact(preview.signer_problem.error_description, err=True)
    output.fact(f"`signers` in covalt.yaml gets: {line}", err=True)
    check_user(reason, "signers are trusted")
    if reason is None and not output.confirm("trust this key?", err=wants_json()):
        raise click.exceptions.Abort
    return line


def _reviewed(
    source: str, *, folders: bool, yes: bool, reason: str | None, **how: Any
) -> dict[str, Any]:
    """Print the grants of an import with --trust, ask unless ``yes`` or a reason answers, and return what was reviewed."""
    # The review changes nothing; the import compares its digest with the files that it stages.
    dry = how | {"dry_run": True, "trusted_signer": None}
    preview = ask(toolset_imports.import_toolset_from, source=source, **dry)
    offered = tuple(row.server for row in preview.script_folders if row.folders)
    servers = offered if folders else ()
    permissions = with_folders(preview.permissions, preview.script_folders, servers)
    if not wants_json():
        _print_facts(preview)
        for grant in preview.grants:
            output.fact(f"  it gets: {grant.words}, for {grant.digest}")
        if offered and not folders:
            output.say("  hint: --script-folders also grants these folders")
        if permissions:
            output.say("This would be trusted on this machine:")
            print_permissions(permissions)
    reviewed = {
        "trust": preview.digest,
        # The digest covers neither covalt.yaml nor the state file, which a pull can change during the question.
        "permissions": tuple(permission.digest for permission in permissions),
        "script_folders": servers,
    }
    check_user(reason)
    # An import with --trust refuses updates, so the answer to a question about one would have no effect.
    if yes or reason is not None or preview.update is not None:
        return reviewed
    if wants_json():
        raise click.UsageError("--trust --json prints no question; add --yes")
    if not output.confirm(
        "import it, enable it and add these grants?" if preview.grants else "import and enable it?"
    ):
        raise click.exceptions.Abort
    return reviewed


def _print_trusted(imported: toolset_imports.ToolsetImported, servers: Collection[str]) -> None:
    words = [grant.words for grant in imported.grants]
    words += [
        f"{row.server} reads {folder}"
        for row in imported.script_folders
        if row.server in servers
        for folder in row.folders
    ]
    granted = ", ".join(words) or "nothing"
    output.say(f"{imported.toolset_id} is imported and enabled; granted: {granted}", fg="green")
    for outcome in imported.sources:
        if outcome.failure is not None:
            output.say(f"  {outcome.source}: {outcome.failure.error_description}", fg="yellow")
        elif outcome.refreshed is not None:
            output.say(
                f"  {outcome.source}: {output.plural(outcome.refreshed.source.tools, 'tool')} to accept"
            )
            output.say(f"    covalt-git source diff {outcome.source}")


def _print_facts(imported: toolset_imports.ToolsetImported) -> None:
    toolset_id = imported.toolset_id
    output.fact(
        f"{toolset_id} {imported.version}: {output.plural(len(imported.files), 'file')}, {imported.digest}"
    )
    if imported.signer_problem is None:
        output.fact(f"  signed by: {imported.signer}" if imported.signer else "  not signed")
    names = [tool.tool_id.partition(":")[2] for tool in imported.tools]
    output.fact(f"  tools: {', '.join(names) or 'none'}")
    for server in imported.mcp_servers:
        output.fact(f"  tools of the MCP server {server.id}: listed once it is granted; it")
        for ability in server.abilities:
            output.fact(f"    {ability}")
    for row in imported.script_folders:
        if row.folders:
            output.fact(
                f"  {row.server} needs {', '.join(row.paths)}, which the sandbox shows only with a grant of"
                f" {', '.join(row.folders)}"
            )
        for line in row.refused:
            output.fact(f"  {row.server}: {line}", fg="yellow")
    for title, needs in imported.wants.items():
        output.fact(f"  {title}: {', '.join(needs)}")
    for line in imported.taken:
        output.fact(f"  {line}", fg="yellow")
    for warning in imported.warnings:
        output.fact(f"  {warning.path.removeprefix('toolsets/')}: {warning.message}", fg="yellow")


def print_import(imported: toolset_imports.ToolsetImported) -> None:
    """Print an imported toolset and the next steps."""
    _print_facts(imported)
    toolset_id = imported.toolset_id
    if imported.dry_run:
        output.say("nothing has changed")
        return
    needs_grants = imported.wants.keys() - {"Python packages"}
    grants = "grant what it needs, " if needs_grants else ""
    output.say(f"it is disabled; review it, {grants}then enable it:")
    output.say(f"  covalt-git toolset show {toolset_id}")
    if needs_grants:
        output.say(f"  covalt-git grant add {toolset_id} --requested")
    for row in imported.script_folders:
        if row.folders:
            options = " ".join(f"--folder {shlex.quote(folder)}" for folder in row.folders)
            output.say(f"  covalt-git grant add {toolset_id} server {row.server} {options}")
    output.say(f"  covalt-git toolset enable {toolset_id}")


command.add_command(bundle_verify.verify)
