"""``covalt-git bundle verify``: comparison of a bundle or toolset with its import, and its signature."""

from __future__ import annotations

from pathlib import Path

import click

from covalt_git.cli.context import ask, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.sources.tool_lock import shown_entry
from covalt_git.operations import bundles

signature_option = click.option(
    "--signature",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Its signature; default: FILE.sig next to it.",
)
accept_option = click.option(
    "--accept-signer",
    is_flag=True,
    help="Accept a new version that another key signed, or that is not signed.",
)


@click.command("verify", cls=JsonCommand)
@click.argument("what", metavar="FILE|ID")
@signature_option
def verify(what: str, *, signature: Path | None) -> None:
    """Compare a bundle or a toolset with its recorded import.

    A FILE and its signature are checked as by `bundle import`, and it is compared with the project's toolset
    of the same id.  The files of the toolset ID are compared with its import and its grants.  An argument
    that has a / or ends in .zip is a FILE.  Exits with 1 if something differs, and changes nothing.

    Example: covalt-git bundle verify weather.zip
    """
    if "/" in what or what.lower().endswith(".zip"):
        _verify_file(Path(what), signature)
        return
    try:
        verification = ask(bundles.verify_toolset, toolset_id=what)
    except UnknownNameError:
        if not Path(what).exists():
            raise
        _verify_file(Path(what), signature)
        return
    if signature:
        raise click.UsageError("--signature requires a FILE: an installed toolset has no signature")
    _print_toolset(verification)


def _verify_file(file: Path, signature: Path | None) -> None:
    verification = ask(bundles.verify_bundle, file=file, signature=signature)
    changed, recorded = verification.problem, verification.recorded
    print_json(verification, exit_code=int(changed is not None))
    output.say(f"{verification.toolset_id} {verification.version}: {verification.digest}")
    output.say(f"  signed by: {verification.signer}" if verification.signer else "  not signed")
    if recorded is None:
        output.say("  installed: no toolset with this id")
    elif verification.is_recorded is None:
        output.say("  installed: the project's own toolset, without recorded import")
    elif verification.is_recorded:
        output.say(f"  installed: the same, {_imported(recorded)}")
    else:
        output.say(
            f"  installed: another, {recorded.version} {recorded.digest}, {_imported(recorded)}"
        )
    if verification.changed_here:
        output.say("  its files have local changes", fg="yellow")
    if changed:
        raise changed.as_error()


def _print_toolset(verification: bundles.ToolsetVerified) -> None:
    print_json(verification, exit_code=int(verification.is_recorded is False))
    recorded = verification.recorded
    output.say(f"{verification.toolset_id}: {verification.digest}")
    if verification.is_recorded is None:
        output.say("  it is the project's own; its history is in Git")
    else:
        if verification.is_recorded:
            output.say(f"  its files are unchanged: {_imported(recorded)}")
        output.say(f"  signed by: {recorded.signer}" if recorded.signer else "  not signed")
    for title, names in (("grant", verification.grants), ("accepted tool", verification.accepted)):
        for name, holds in names.items():
            verdict = "valid" if holds else "ended by a change"
            what = shown_entry(name)
            what = f"{title} {name}" if what == name else f"accepted {what}"
            output.say(f"  {what}: {verdict}", fg=None if holds else "yellow")
    if verification.is_recorded is False:
        raise CovaltError(
            f"its files have changed since it was {_imported(recorded)}, with {recorded.digest}",
            hint=f"git log -p -- toolsets/{verification.toolset_id}",
        )


def _imported(recorded: bundles.Recorded) -> str:
    at = recorded.installed_at
    return f"imported on {at[:10]}" if at else "imported"
