"""``covalt-git toolset update`` and ``toolset diff``: what is newer elsewhere, and what was changed here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output, result_text
from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.context import as_admin, forbidden, json_option, project, toolsets_indexed
from covalt_git.cli.problem_text import print_problems
from covalt_git.errors import CovaltError
from covalt_git.grants.requested import addresses_elsewhere, requested
from covalt_git.installs.local_changes import differences
from covalt_git.installs.updating import update

if TYPE_CHECKING:
    from covalt_git.installs.updating import Update
    from covalt_git.json_values import JsonObject
    from covalt_git.toolsets.toolset import Toolset

_MARKS = {
    "added": ("+", "green"),
    "updated": ("~", "yellow"),
    "merged": ("~", "yellow"),
    "removed": ("-", "red"),
    "conflict": ("!", "red"),
    "kept": ("=", None),
}
_WORDS = {"merged": "with your changes", "kept": "yours"}


@click.command()
@click.argument("toolset_id", metavar="ID")
@click.option("--from", "source", metavar="FILE|DIR|URL", help="Where the newer version is.")
@signature_option
@accept_option
@click.option(
    "--dry-run", is_flag=True, help="Print what would become of each file; change nothing."
)
@click.option(
    "--force", is_flag=True, help="Take their files; what was changed here is kept as a ZIP."
)
@json_option
def update_command(
    toolset_id: str,
    source: str | None,
    *,
    signature: Path | None,
    accept_signer: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Merge a newer version of the imported toolset ID with what was changed here.

    It comes from where the toolset came from, or from --from.  Files are merged one by one, YAML key by
    key; where both sides changed the same, both are there as Git shows it, and the toolset waits
    until somebody decides.  Switches and local overrides stay, and so do grants of what did not change.
    """
    opened = as_admin("update toolsets")
    found = update(
        opened.root,
        toolset_id,
        source and named_source(source),
        signature=signature,
        dry_run=dry_run,
        force=force,
        accept_signer=accept_signer,
    )
    if not dry_run:
        toolsets_indexed(opened)
    tell(found, opened.root, dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("toolset_id", metavar="ID")
@click.option(
    "--granted", "grant", metavar="GRANT", help="Against what it was when that was granted to it."
)
@click.option("--stat", "names_only", is_flag=True, help="List the files only.")
@json_option
def diff_command(toolset_id: str, grant: str | None, *, names_only: bool, as_json: bool) -> None:
    """Show what was changed here of the imported toolset ID, as a patch that Git takes."""
    opened = project()
    toolset = opened.catalog.find_toolset(toolset_id)
    if len(opened.catalog.visible(toolset.tools)) < len(toolset.tools):
        raise forbidden(f"your role does not see all of {toolset_id!r}")
    changed = differences(opened.root, toolset_id, grant)
    if as_json:
        output.as_json(
            [
                {"path": one.path, "kind": one.kind, "patch": one.patch.decode(errors="replace")}
                for one in changed
            ]
        )
        return
    for one in changed:
        if names_only:
            mark, colour = output.MARKS[one.kind]
            output.say(f"  {mark} {one.path}", fg=colour)
        else:
            result_text.patch(one.patch.decode(errors="replace"))
    if not changed:
        since = "that was granted" if grant else "it was imported"
        output.say(f"nothing of {toolset_id} has changed since {since}", err=True)


def named_source(source: str) -> Path | str:
    """Return the address or the path that somebody typed.

    Raises:
        CovaltError: when there is no such path.
    """
    if source.lower().startswith(("https://", "http://")):
        output.say("fetching it", err=True, dim=True)
        return source
    path = Path(source)
    if not path.exists():
        raise CovaltError(f"there is no file or folder {source!r}")
    return path


def tell(found: Update, root: Path, *, dry_run: bool, as_json: bool) -> None:
    """Print what an update did or would do; exit with 1 where somebody has to decide something."""
    left = [one for one in found.toolset.problems if one.severity == "error"]
    if as_json:
        output.as_json(_as_json(found, dry_run=dry_run))
    else:
        _say(found, dry_run=dry_run)
        if not found.conflicts:
            print_problems(left, root)
    if left or found.conflicts:
        click.get_current_context().exit(1)


def wanted(toolset: Toolset) -> dict[str, list[str]]:
    """Return what the toolset would need somebody to grant or to install."""
    manifest = toolset.manifest
    if manifest is None:
        return {}
    hosts = [one.host for one in requested(toolset) if one.kind == "network" and one.host]
    wants = {
        "hosts": hosts + [f"what {text} stands for" for text in addresses_elsewhere(toolset)],
        "secrets": list(manifest.secrets),
        "MCP servers": [server.id for server in manifest.mcp_servers],
        "Python packages": list(manifest.python.dependencies),
    }
    return {title: names for title, names in wants.items() if names}


def _say(found: Update, *, dry_run: bool) -> None:
    toolset_id = found.toolset.id
    versions = " -> ".join(dict.fromkeys([found.old_version or "?", found.new_version or "?"]))
    changed = [step for step in found.steps if step.kind != "kept"]
    if not changed:
        output.say(f"{toolset_id} {versions} is up to date")
        return
    output.say(f"{toolset_id} {versions}: {output.plural(len(changed), 'file')}")
    if not found.base_known:
        output.say(
            "  what was imported is neither in Git nor in data/toolsets: every difference is a conflict",
            fg="yellow",
        )
    for step in found.steps:
        mark, colour = _MARKS[step.kind]
        words = step.words or _WORDS.get(step.kind, "")
        output.say(f"  {mark} {step.path}" + (f"  ({words})" if words else ""), fg=colour)
    for title, names in _newly_wanted(found).items():
        output.say(f"  it newly asks for {title}: {', '.join(names)}", fg="yellow")
    if found.ended_grants:
        output.say(f"  grants that end: {', '.join(found.ended_grants)}", fg="yellow")
    if found.replaced is not None:
        output.say(f"  what was here is {_shown(found.replaced)}")
    if dry_run:
        output.say("nothing has changed")
    elif found.conflicts:
        output.say(f"decide {output.plural(len(found.conflicts), 'conflict')}, then:")
        output.say(f"  covalt-git validate toolsets/{toolset_id}")


def _shown(path: Path) -> str:
    return "/".join(path.parts[-4:])  # from data/ on


def _newly_wanted(found: Update) -> dict[str, list[str]]:
    before = wanted(found.before)
    new = {
        title: [name for name in names if name not in before.get(title, ())]
        for title, names in wanted(found.toolset).items()
    }
    return {title: names for title, names in new.items() if names}


def _as_json(found: Update, *, dry_run: bool) -> JsonObject:
    return {
        "toolset_id": found.toolset.id,
        "old_version": found.old_version,
        "version": found.new_version,
        "digest": found.toolset.digest,
        "files": [{"path": one.path, "kind": one.kind, "words": one.words} for one in found.steps],
        "conflicts": [step.path for step in found.conflicts],
        "base_known": found.base_known,
        "newly_wants": _newly_wanted(found),
        "ended_grants": list(found.ended_grants),
        "replaced": found.replaced and _shown(found.replaced),
        "problems": [one.as_json() for one in found.toolset.problems],
        "dry_run": dry_run,
    }
