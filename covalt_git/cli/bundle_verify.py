"""``covalt-git bundle verify``: whether what is there is what came, and who signed it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option
from covalt_git.errors import CovaltError
from covalt_git.installs.verify import verify_file, verify_toolset
from covalt_git.manifests.toolset_files import toolset_ids

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.toolset_state import ToolsetState

signature_option = click.option(
    "--signature",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Its signature, if not in the file of the same name and .sig beside it.",
)
accept_option = click.option(
    "--accept-signer",
    is_flag=True,
    help="Over one that another key signed before, or if nobody signed this one.",
)


@click.command("verify")
@click.argument("what", metavar="FILE|ID")
@signature_option
@json_option
def verify(what: str, *, signature: Path | None, as_json: bool) -> None:
    """Tell whether a bundle, or a toolset that is here, is what was recorded when it came.

    FILE is checked as an import would, with its signature, and compared with what is here of its id;
    of the toolset ID, its files are compared with what was imported, and with what was granted.  An
    argument with a / or that ends in .zip is a FILE, and so is one that is there and no toolset is.
    Exits with 1 where something is not as recorded, and changes nothing.
    """
    opened = as_admin("verify toolsets")
    if _is_file(opened.root, what):
        _verify_file(opened.root, Path(what), signature, as_json=as_json)
    elif signature:
        raise click.UsageError("--signature is for a FILE: a toolset that is here has none")
    else:
        _verify_toolset(opened.root, what, as_json=as_json)


def _is_file(root: Path, what: str) -> bool:
    named_like_one = "/" in what or what.lower().endswith(".zip")
    return named_like_one or (what not in toolset_ids(root / "toolsets") and Path(what).exists())


def _verify_file(root: Path, file: Path, signature: Path | None, *, as_json: bool) -> None:
    if file.is_dir():
        raise CovaltError(f"{str(file)!r} is a directory, which cannot be signed or compared")
    found = verify_file(root, file, signature)
    toolset, here = found.toolset, found.here
    version = toolset.manifest.version if toolset.manifest else ""
    state = here.state if here else None
    changed = found.signer_changed
    if as_json:
        output.as_json(
            {
                "toolset_id": toolset.id,
                "version": version,
                "digest": toolset.digest,
                "signer": found.signer and found.signer.model_dump(),
                "installed": here is not None,
                "recorded": state and _recorded(state),
                "is_recorded": found.is_recorded,
                "problem": changed and changed.as_json(),
            }
        )
        raise click.exceptions.Exit(int(changed is not None))
    output.say(f"{toolset.id} {version}: {toolset.digest}")
    output.say(f"  signed by: {found.signer or 'nobody'}")
    if state is None:
        output.say("  here: no toolset of that id")
    elif not state.imported:
        output.say("  here: one of the project's own, of which nothing is recorded")
    elif found.is_recorded:
        output.say(f"  here: the same, {_imported(state)}")
    else:
        output.say(f"  here: another, {state.version} {state.digest}, {_imported(state)}")
    if here and state and state.imported and here.digest != state.digest:
        output.say("  its files have been changed here since", fg="yellow")
    if changed:
        raise changed


def _verify_toolset(root: Path, toolset_id: str, *, as_json: bool) -> None:
    found = verify_toolset(root, toolset_id)
    toolset, state = found.toolset, found.toolset.state
    if as_json:
        output.as_json(
            {
                "toolset_id": toolset.id,
                "digest": toolset.digest,
                "recorded": _recorded(state),
                "is_recorded": found.is_recorded,
                "grants": found.grants,
                "accepted": found.locked,
            }
        )
        raise click.exceptions.Exit(int(found.is_recorded is False))
    output.say(f"{toolset.id}: {toolset.digest}")
    if not state.imported:
        output.say("  it is the project's own, of which nothing is recorded but by Git")
    elif found.is_recorded:
        output.say(f"  its files are those that were {_imported(state)}")
    if state.imported:
        output.say(f"  signed by: {state.signer or 'nobody'}")
    for title, names in (("grant", found.grants), ("accepted tool", found.locked)):
        for name, holds in names.items():
            verdict = "holds" if holds else "does not hold: what it was given for has changed"
            output.say(f"  {title} {name}: {verdict}", fg=None if holds else "yellow")
    if found.is_recorded is False:
        raise CovaltError(
            f"its files are not those that were {_imported(state)}: {state.digest}",
            hint=f"git log -p -- toolsets/{toolset.id}",
        )


def _recorded(state: ToolsetState) -> JsonObject:
    facts = state.model_dump(mode="json")
    return {key: facts[key] for key in ("version", "digest", "signer", "installed_at")}


def _imported(state: ToolsetState) -> str:
    return f"imported on {state.installed_at[:10]}" if state.installed_at else "imported"
