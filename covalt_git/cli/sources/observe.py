"""``covalt-git source observe``: what an MCP server needs, and the grant that gives it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, can_ask, check_user, print_json
from covalt_git.cli.grant import print_grant
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.sources.names import single_source, source_argument
from covalt_git.cli.terminal import output
from covalt_git.cli.trust_question import print_permissions
from covalt_git.errors import WrongCallError
from covalt_git.operations import grants, observations

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("observe", cls=JsonCommand)
@source_argument
@click.option(
    "--call", "calls", nargs=2, multiple=True, metavar="TOOL JSON", help="Also call this tool."
)
@click.option(
    "--granted", is_flag=True, help="Run it with its grant, to learn what it still lacks."
)
def observe(name: str, calls: tuple[tuple[str, str], ...], *, granted: bool) -> None:
    """Run a server with nothing granted, and propose the grant that it needs.

    SOURCE is started in the sandbox with its own files only.  Its tools are listed and each --call is made, in an
    empty workspace.  The command prints the hosts, files, programs and variables that it did not get, the call
    that needed each, and the command that grants it.  It exits with 1 if the server did not start, or has no such TOOL.  A TOOL has
    the name that the server uses, JSON has its arguments.  At a terminal, it asks about each; without an answer, nothing is granted.

    Example: covalt-git source observe files/disk --call read_file '{"path": "notes.md"}'
    """
    source = single_source(name)
    if granted and calls:
        check_user(None, "calls are made with the grant of a server")
    observed = ask(
        observations.observe_source,
        toolset_id=source.toolset_id,
        namespace=source.namespace,
        calls=[{"tool": tool, "args": _arguments(tool, text)} for tool, text in calls],
        granted=granted,
    )
    # A tool that does not exist was not called, so a script learns nothing about it.
    failed = any(call.tool not in observed.tools for call in observed.calls)
    failed |= bool(observed.failure)
    print_json(observed, exit_code=int(failed))
    _print_observed(observed)
    asked = [need for need in observed.needs if need.command and not need.granted]
    if asked and can_ask():
        _offer_grants(observed, asked)
    if failed:
        click.get_current_context().exit(1)


def _arguments(tool: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongCallError(f"the arguments of {tool!r} are not JSON: {error}") from None


def _print_observed(observed: observations.SourceObserved) -> None:
    how = "listed " + output.plural(len(observed.tools), "tool")
    if observed.failure:
        how = "did not list its tools" if not observed.tools else how
    output.say(
        f"{observed.shown_id} ran in an empty workspace at the sandbox level {observed.sandbox}, and {how}"
    )
    if observed.failure:
        first, *others = observed.failure.splitlines()
        output.fact(first, err=True)
        output.quote("\n".join(others), err=True)
    for call in observed.calls:
        result = "failed" if call.error else "worked"
        output.fact(f"  {call.tool} {json.dumps(call.args)} {result}")
        output.quote(call.error)
    if not observed.needs:
        output.say("nothing that it looked for was refused")
    for need in observed.needs:
        mark, colour = ("!", "red") if need.warning else ("+", "green")
        has = " (granted)" if need.granted else ""
        output.fact(f"{mark} {need.kind} {need.name}{has}", fg=colour, bold=True)
        output.fact(f"    needed by {need.call or 'its start'}")
        if need.warning:
            output.fact(f"    a server should not need this: {need.warning}", fg="red")
        if need.note:
            output.fact(f"    not in the proposed grant: {need.note}")
        if need.command and not need.granted:
            output.fact(f"    {need.command}")
    if observed.command:
        output.say("all that is not marked, as one grant:")
        output.fact(f"  {observed.command}")
    for what in observed.unknown:
        output.say(f"not known: {what}", dim=True)


def _offer_grants(
    observed: observations.SourceObserved, needs: Sequence[observations.NeedRow]
) -> None:
    """Ask about each need, and grant those that the user agrees to."""
    hosts, folders, secrets = set[str](), set[str](), set[str]()
    for need in needs:
        warning = f", which a server should not need ({need.warning})" if need.warning else ""
        if output.confirm(f"grant the {need.kind} {need.name}{warning}?"):
            hosts.update(need.hosts)
            folders.update(need.folders)
            secrets.update(need.secrets)
    if not (hosts or folders or secrets):
        output.say("nothing was granted")
        return
    decision = {
        "toolset_id": observed.toolset_id,
        "kind": "server",
        "name": observed.server,
        "hosts": tuple(sorted(hosts)),
        "folders": tuple(sorted(folders)),
        "secrets": tuple(sorted(secrets)),
        # Of what was observed: a pull may have exchanged the program during the questions.
        "digest": observed.digest,
    }
    preview = ask(grants.preview_grant, **decision)
    output.say("This would be granted and trusted on this machine:")
    print_permissions(preview.permissions)
    if not output.confirm("grant this?"):
        output.say("nothing was granted")
        return
    digests = tuple(permission.digest for permission in preview.permissions)
    print_grant(ask(grants.add_grant, **decision, permissions=digests))
