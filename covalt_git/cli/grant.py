"""``covalt-git grant``: the permissions of a toolset beyond its sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, check_user, print_json
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.secret import recipients
from covalt_git.cli.terminal import output, result_text
from covalt_git.cli.trust_question import print_not_trusted, print_permissions
from covalt_git.errors import WrongCallError
from covalt_git.grants.status import UNDESCRIBED, shown_key
from covalt_git.hosts import HostRule
from covalt_git.installs.local_changes import VersionGoneError
from covalt_git.models.sources.server_definition import command_line
from covalt_git.models.toolset_state import (
    WRITABLE,
    NetworkGrant,
    ProcessGrant,
    ProgramSandbox,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    grant_key,
)
from covalt_git.operations import bundles, grants, toolsets
from covalt_git.toolsets.toolset import FaultyToolsetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.operations.registry import Operation
    from covalt_git.operations.toolsets import ToolsetDetail
    from covalt_git.operations.trust import PermissionRow
    from covalt_git.operations.validation import GrantLacking

toolset_argument = click.argument("toolset_id", metavar="TOOLSET")
_NAMED = {"secret": "secret", "process": "MCP server", "server": "MCP server", "tool": "tool"}
_KINDS = ("network", *_NAMED, "unsandboxed")
_TITLES = ("TOOLSET", "GRANT", "WHAT", "HOLDS", "SINCE", "BY")


@click.group(cls=Group)
def command() -> None:
    """Grant toolsets hosts, secrets and MCP servers; list and revoke grants."""


@command.command("list")
@click.argument("toolset_id", metavar="[TOOLSET]", required=False)
def list_grants(toolset_id: str | None) -> None:
    """List grants, whether each is still valid, and what is requested and not granted.

    Without TOOLSET, the grants of all toolsets.

    Example: covalt-git grant list data-lab
    """
    listing = ask_to_print(grants.list_grants, toolset_id=toolset_id)
    if listing.grants:
        output.table([_line(row) for row in listing.grants], titles=_TITLES)
        for row in listing.grants:
            if isinstance(row.grant, ProcessGrant | ServerGrant):
                for what in row.changed:
                    output.say(
                        f"{row.toolset_id} {shown_key(row.key, row.grant)}: {what}", fg="yellow"
                    )
        ended = [row for row in listing.grants if not row.holds]
        # An ended grant has the hosts of the earlier files: renewed, it would not permit what the files request now.
        lacking_more = [lack.command for lack in listing.lacking if not _is_renewal(lack)]
        for ended_id in sorted({row.toolset_id for row in ended if row.declared}):
            what, option = ("renew them", "--again")
            if any(line.startswith(f"covalt-git grant add {ended_id} ") for line in lacking_more):
                what, option = (f"grant what {ended_id} requests now", "--requested")
            output.say(f"{what}: covalt-git grant add {ended_id} {option}")
        for row in ended:
            if not row.declared:
                words = shown_key(row.key, row.grant).replace("-", " ", 1)
                output.say(f"revoke it: covalt-git grant revoke {row.toolset_id} {words}")
        if not all(row.trusted or _is_left_over(row) for row in listing.grants):
            output.say("not trusted on this machine: covalt-git trust", fg="yellow")
    else:
        whom = f"to {toolset_id}" if toolset_id else "to any toolset"
        output.say(f"nothing is granted {whom}")
    for lacking in listing.lacking:
        output.fact(f"not granted: {lacking.why}", fg="yellow")
        output.say(f"  hint: {lacking.command}", fg="yellow")


def _is_left_over(row: grants.GrantRow) -> bool:
    """Return whether a grant is of a server that the toolset no longer has, so that it needs no trust."""
    return isinstance(row.grant, ProcessGrant | ServerGrant) and not row.declared


@command.command("add")
@toolset_argument
@click.argument("kind", metavar="[KIND]", type=click.Choice(_KINDS), required=False)
@click.argument("words", metavar="[NAME] [HOST...]", nargs=-1)
@click.option(
    "--folder", "folders", multiple=True, metavar="DIR[:rw]", help="Folder for a server's program."
)
@click.option("--host", "hosts", multiple=True, help="Host for a server's program.")
@click.option(
    "--secret", "secrets", multiple=True, metavar="NAME", help="Secret for a server's program."
)
@click.option("--requested", is_flag=True, help="Grant everything that TOOLSET requests and lacks.")
@click.option("--again", is_flag=True, help="Renew the grants that a change has ended.")
@click.option(
    "--dry-run", is_flag=True, help="Only print what the grant would trust on this machine."
)
@reason_option
def add(
    toolset_id: str,
    kind: str | None,
    words: tuple[str, ...],
    *,
    folders: tuple[str, ...],
    hosts: tuple[str, ...],
    secrets: tuple[str, ...],
    requested: bool,
    again: bool,
    dry_run: bool,
    reason: str | None,
) -> None:
    """Grant TOOLSET a host, a secret, an MCP server, or another KIND of permission.

    \b
    network HOST...        reach hosts, such as api.example.com or *.example.com
    secret NAME [HOST...]  use a secret in Python, and send it to HOSTs in HTTP tools
    server SERVER          use an MCP server: start its program in the sandbox, or use its URL
    unsandboxed SERVER     start the program of an MCP server without a sandbox
    process SERVER         the same, the older word
    tool NAME              run a registered tool; TOOLSET is `registered`
    unsandboxed            run imported code without a sandbox: it can then do what you can do

    A SERVER is its id in toolset.yaml.  A HOST may have a port, as localhost:8080; the default is 443, and
    for http:// and local names also 80.  A grant is for the current files.  It ends when the files of the
    toolset, the entry of an HTTP tool or of a registered tool, or the MCP server change.

    With --requested and --again, the command prints exactly what it would trust on this machine, as
    `covalt-git trust` does, and asks at a terminal.  If that changes meanwhile, nothing is granted.  A script
    without a terminal states a reason with --no-terminal.

    Example: covalt-git grant add weather network api.example.com
    """  # noqa: D301 - click leaves a paragraph after \b as it is
    if (kind is not None) + requested + again != 1:
        kinds = ", ".join(_KINDS)
        raise WrongCallError(
            f"name what to grant after {toolset_id}: {kinds}; or use --requested or --again"
        )
    if kind is not None:
        name, named_hosts = _parts(kind, words)
        if (folders or hosts or secrets) and kind != "server":
            raise WrongCallError("--folder, --host and --secret are for the kind server")
        if kind == "network" and not named_hosts:
            raise WrongCallError("name at least one HOST after network")
        decision = {
            "toolset_id": toolset_id,
            "kind": kind,
            "name": name,
            "hosts": (*named_hosts, *hosts),
            "folders": tuple(map(_absolute, folders)),
            "secrets": secrets,
        }
        if dry_run:
            preview = ask_to_print(grants.preview_grant, **decision)
            output.say("This would be granted and trusted on this machine:")
            print_permissions(preview.permissions)
            return
        if reason is None:
            # Before the terminal is missed: a script that misspelt a name has to correct that first.
            ask(grants.preview_grant, **decision)
        check_user(reason)
        print_grant(ask_to_print(grants.add_grant, **decision, reason=reason))
        return
    toolset = ask(toolsets.get_toolset, toolset_id=toolset_id)
    if not toolset.sound:  # before the terminal is missed
        raise FaultyToolsetError(toolset_id, toolset.problems)
    if dry_run:
        print_json(toolset)
        permissions = toolset.requested_permissions if requested else toolset.ended_permissions
        if permissions:
            output.say("This would be granted and trusted on this machine:")
            print_permissions(permissions)
        elif not requested:
            output.say(f"every grant of {toolset_id} is valid")
        if requested:
            _print_requested(toolset)
    elif requested:
        _add_requested(toolset, reason)
    else:
        _renew(toolset, reason)


@command.command("revoke")
@toolset_argument
@click.argument("kind", metavar="KIND", type=click.Choice([*_KINDS, "all"]))
@click.argument("words", metavar="[NAME] [HOST...]", nargs=-1)
def revoke(toolset_id: str, kind: str, words: tuple[str, ...]) -> None:
    """Revoke a grant of TOOLSET, or hosts of a grant.

    KIND and NAME are those of `grant add`; the KIND all revokes every grant.  With HOSTs, only these are
    revoked.  The trust on this machine ends first, also in a grant that a pull has taken out of the state file.

    Example: covalt-git grant revoke weather network api.example.com
    """
    name, hosts = _parts(kind, words)
    if kind == "all":
        result = ask_to_print(grants.revoke_grant, toolset_id=toolset_id, all=True)
        keys = ", ".join(result.revoked)
        output.say(f"revoked from {toolset_id}: {keys}" if keys else f"{toolset_id} has no grants")
        _print_withdrawn(result)
        return
    key = grant_key(kind, name)
    result = ask_to_print(grants.revoke_grant, toolset_id=toolset_id, key=key, hosts=hosts)
    if result.revoked:
        output.say(f"revoked from {toolset_id}: {key}")
    elif isinstance(result.left, NetworkGrant | SecretGrant):
        may = "reach" if kind == "network" else f"send {name} to"
        output.say(f"{toolset_id} may {may} {', '.join(result.left.hosts)} only")
    _print_withdrawn(result)


def _absolute(folder: str) -> str:
    """Return a folder of an option as a grant names it: what is relative to the current folder becomes absolute."""
    if folder.startswith(("/", "~", "$")):
        return folder
    path = folder.removesuffix(WRITABLE)
    return str(Path(path).resolve()) + folder.removeprefix(path)


def _print_withdrawn(result: grants.GrantsRevoked) -> None:
    """Print what is no longer trusted: more than the state file had, if a pull has changed it."""
    for permission in result.withdrawn:
        output.say(f"no longer trusted on this machine: {permission}")


def _parts(kind: str, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the name and the hosts after a kind of grant."""
    if kind in _NAMED and not words:
        raise WrongCallError(f"name the {_NAMED[kind]} after {kind}")
    is_named = kind in _NAMED or (kind == "unsandboxed" and words)
    name, hosts = (words[0], words[1:]) if is_named else (None, words)
    if hosts and kind not in {"network", "secret"}:
        raise WrongCallError(f"{' '.join(hosts)!r} is too much: this grant has no hosts")
    return name, hosts


def _add_requested(toolset: ToolsetDetail, reason: str | None) -> None:
    permissions = toolset.requested_permissions
    _grant_all(
        grants.add_requested_grants, toolset, permissions, reason, asks=bool(toolset.lacking)
    )
    _print_requested(toolset)
    if not toolset.lacking:
        # Python may use such a grant, and no manifest says whether it does.
        for key, changed in toolset.ended.items():
            grant = shown_key(key, toolset.grants[key])
            output.say(f"{toolset.id} {grant} has ended: {'; '.join(changed)}", fg="yellow")
        if toolset.ended:
            output.say(f"  hint: covalt-git grant add {toolset.id} --again")
        print_not_trusted(toolset)


def _print_requested(toolset: ToolsetDetail) -> None:
    """Print that nothing requested is missing, and which tools may request more once they are accepted."""
    waiting = [tool.tool_id for tool in toolset.tools if tool.held_back in {"new", "changed"}]
    if not toolset.lacking:
        whose = "its accepted tools request" if waiting else "it requests"
        output.say(f"{toolset.id} has every grant that {whose}")
    if not waiting:
        return
    are = "is" if len(waiting) == 1 else "are"
    output.say(f"{output.plural(len(waiting), 'tool')} {are} not accepted yet", fg="yellow")
    for namespace in sorted({tool_id.partition(":")[0] for tool_id in waiting}):
        output.say(f"  hint: covalt-git source accept {toolset.id}/{namespace}", fg="yellow")


def _renew(toolset: ToolsetDetail, reason: str | None) -> None:
    if not wants_json():
        _print_changes(toolset)
    permissions = toolset.ended_permissions
    renewed = _grant_all(
        grants.renew_grants, toolset, permissions, reason, asks=bool(toolset.ended)
    )
    for key in toolset.ended.keys() - renewed if renewed else ():
        grant = shown_key(key, toolset.grants[key])
        output.say(f"{grant} cannot be renewed: {toolset.id} no longer declares it", fg="yellow")
    if not toolset.ended:
        output.say(f"every grant of {toolset.id} is valid")
        print_not_trusted(toolset)
    for lack in toolset.lacking:
        if not _is_renewal(lack):
            output.fact(f"not granted: {lack.why}", fg="yellow")
            output.say(f"  hint: {lack.command}", fg="yellow")


def _is_renewal(lack: GrantLacking) -> bool:
    """Return whether an ended grant, renewed with what it had, gives what a toolset lacks."""
    return lack.command.endswith(" --again")


def _print_changes(toolset: ToolsetDetail) -> None:
    """Print why each ended grant of a toolset ended, and the changes of its files once."""
    digests = set[str]()
    for key, changed in toolset.ended.items():
        grant = toolset.grants[key]
        output.fact(f"{shown_key(key, grant)}: {'; '.join(changed)}", fg="yellow")
        if isinstance(grant, ProcessGrant | ServerGrant) or grant.digest in digests:
            continue
        digests.add(grant.digest)
        # An untrusted grant: its author chose the version to compare with, so a small change may be shown for a large
        # one.
        if changed == (UNDESCRIBED,):
            continue
        try:
            for file in ask(bundles.diff_toolset, toolset_id=toolset.id, grant=key).files:
                result_text.patch(file.patch, above_question=True)
        except VersionGoneError as error:
            output.say(error.message, err=True)


def _grant_all(
    operation: Operation[Any, grants.GrantList],
    toolset: ToolsetDetail,
    permissions: Sequence[PermissionRow],
    reason: str | None,
    *,
    asks: bool,
) -> set[str]:
    """Show the permissions of grants and ask; add the grants if nothing has changed since, and return their keys."""
    if permissions and not wants_json():
        output.say("This would be granted and trusted on this machine:")
        print_permissions(permissions)
    if asks or reason is not None:
        check_user(reason)
        if reason is None and not wants_json() and not output.confirm("grant this?"):
            output.say("nothing was granted")
            raise SystemExit(1)
        result = ask(
            operation,
            toolset_id=toolset.id,
            # What was shown: if a pull changes the files or the permissions during the question, nothing is granted
            # (test_a_state_file_that_changes_during_the_question_ends_the_decision).
            digest=toolset.digest,
            permissions=tuple(permission.digest for permission in permissions),
            reason=reason,
        )
    else:  # nothing to decide
        result = grants.GrantList(grants=())
    print_json(result)
    for row in result.grants:
        print_grant(row)
    return {row.key for row in result.grants}


def print_grant(row: grants.GrantRow) -> None:
    """Print what a grant permits, and what ends it."""
    may, lines = _in_words(row)
    ends = "any of this changes:" if lines else "a file of it changes"
    if isinstance(row.grant, ProcessGrant) and row.grant.files:
        # Also a new file, which has no line: the program can load it.
        ends = "a file of the toolset changes, is added or is removed, or any of this changes:"
    if isinstance(row.grant, ToolGrant):
        ends = "its entry changes"
    if isinstance(row.grant, NetworkGrant | SecretGrant) and row.grant.requests:
        ends += " (HTTP tools: until their own requests change)"
    output.say(f"{row.toolset_id} may {may}, until {ends}")
    for line in lines:
        output.say(f"  {line}")


def _in_words(row: grants.GrantRow) -> tuple[str, list[str]]:
    """Return a description of what a grant allows, and a line for each part of the MCP server that it covers."""
    match row.grant:
        case NetworkGrant() as grant:
            return f"reach {_hosts(grant)}", []
        case SecretGrant(name=name, hosts=()):
            return f"use {name} in Python tools", []
        case SecretGrant(name=name) as grant:
            python = " and use it in Python tools" if row.python else ""
            return f"send {name} to {_hosts(grant)} in HTTP tools{python}", []
        case ProcessGrant() as grant:
            folder = [f"folder: {command_line([grant.cwd])}"] if grant.cwd is not None else []
            files = [f"file: {command_line([at])} {digest}" for at, digest in grant.files.items()]
            command = f"command: {command_line(grant.argv)}"
            texts = _texts("variable", row)
            where = "in the sandbox" if grant.confinement is not None else "without a sandbox"
            uses = [f"may use: {use}" for use in _uses(grant)]
            words = f"start its MCP server {grant.server} {where}"
            return words, [command, *folder, *uses, *texts, *files]
        case ServerGrant() as grant:
            url = f"URL: {command_line([grant.url])} ({grant.transport})"
            return f"use its MCP server {grant.server}", [url, *_texts("header", row)]
        case ToolGrant() as grant:
            return f"run {grant.tool}: {_of_tool(grant)}", []
        case _:
            return "run without a sandbox", []


def _texts(kind: str, row: grants.GrantRow) -> list[str]:
    return [f"{kind}: {command_line([f'{name}={text}'])}" for name, text in row.texts.items()]


def _line(row: grants.GrantRow) -> tuple[str, ...]:
    grant = row.grant
    of_server = isinstance(grant, ProcessGrant | ServerGrant)
    why = "it has changed" if of_server else ", ".join(row.changed)
    holds = "yes" if row.holds else f"no, {why}"
    if row.holds and not row.trusted:
        holds = "no, not trusted on this machine"
    key = shown_key(row.key, grant)
    return row.toolset_id, key, _what(row), holds, grant.granted_at[:10], grant.granted_by


def _of_tool(grant: ToolGrant) -> str:
    if grant.alias_of is not None:
        return f"forward its calls to {grant.alias_of}"
    secrets = f" with {', '.join(grant.secrets)}" if grant.secrets else ""
    return f"send its request to {_hosts(grant)}{secrets}"


def _hosts(grant: NetworkGrant | SecretGrant | ToolGrant) -> str:
    return ", ".join(HostRule.parse(host).shown for host in grant.hosts)


def _uses(grant: ProcessGrant) -> tuple[str, ...]:
    """Return phrases for what a program may use, with the ports of its hosts."""
    sandbox = grant.confinement or ProgramSandbox()
    hosts = tuple(HostRule.parse(host).shown for host in sandbox.hosts)
    return sandbox.model_copy(update={"hosts": hosts}).uses


def _what(row: grants.GrantRow) -> str:
    match row.grant:
        case SecretGrant() as grant:
            return recipients([_hosts(grant)] if grant.hosts else [], python=row.python)
        case NetworkGrant() as grant:
            return _hosts(grant)
        case ProcessGrant() as grant:
            where = "" if grant.confinement is not None else "without a sandbox: "
            uses = f" with {', '.join(_uses(grant))}" if grant.uses else ""
            return f"{where}{command_line(grant.argv)}{uses}"
        case ServerGrant() as grant:
            return command_line([grant.url])
        case ToolGrant() as grant:
            return _of_tool(grant)
        case _:
            return "no sandbox"
