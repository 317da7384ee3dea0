"""``covalt-git source``: adding documents, and listing, comparing and accepting the tools of sources."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, can_ask, check_user, print_json
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.sources.names import (
    listed_sources,
    named_sources,
    single_source,
    source_argument,
    sources_argument,
)
from covalt_git.cli.sources.observe import observe
from covalt_git.cli.sources.printing import (
    MOST_LINES,
    print_detail,
    print_differences,
    print_ended,
    print_faults,
    print_findings,
    print_renamed,
    print_unusable,
)
from covalt_git.cli.sources.skills import chosen, hint_unread, review, skills
from covalt_git.cli.terminal import output
from covalt_git.errors import UnknownNameError, WrongCallError, hint_text
from covalt_git.hosts import origin_of
from covalt_git.models.sources.tool_lock import PROGRAM
from covalt_git.operations import source_documents as documents
from covalt_git.operations import sources
from covalt_git.operations.left_over_locks import remove_left_over_lock
from covalt_git.sources.adding import fields_of, is_url
from covalt_git.sources.refresh import TaskOnlyError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TITLES = ("SOURCE", "TOOLS", "ACCEPTED", "NEW", "CHANGED", "GONE", "STATE")


@click.group(cls=Group)
def command() -> None:
    """Add, list, compare and accept the tools of API documents and MCP servers.

    A SOURCE is TOOLSET/NAMESPACE, or a toolset for all of its sources.
    """


@command.command("add")
@click.argument("toolset_id", metavar="TOOLSET")
@click.argument("location", metavar="FILE|URL")
@click.option("--id", "namespace", metavar="NS", help="Namespace of its tools.")
@click.option("--include", multiple=True, metavar="GLOB", help="Only tools that match; repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="No tools that match; repeatable.")
@click.option(
    "--fields",
    multiple=True,
    metavar="TOOL=PATH,...",
    help="The parts of the answers of a tool that callers get: issues.list=items[].id; repeatable.",
)
@click.option("--base-url", metavar="URL", help="URL that replaces the servers of the document.")
@click.option("--endpoint", metavar="URL", help="URL of a GraphQL API.")
@click.option(
    "--introspect", is_flag=True, help="The URL is that of a GraphQL API: ask it for its schema."
)
@click.option("--yes", is_flag=True, help="Do not ask: fetch the URL, and accept all tools.")
@reason_option
def add_source(
    toolset_id: str,
    location: str,
    *,
    fields: tuple[str, ...],
    introspect: bool,
    yes: bool,
    reason: str | None,
    **how: Any,
) -> None:
    """Add an OpenAPI document or a GraphQL schema to a toolset; its operations become tools.

    The document and the files that it refers to are copied to toolsets/TOOLSET/specs.  A URL is fetched once, after
    its host was shown.  The command prints what the tools reach, and asks once whether to accept them.  Calls still
    need a grant of the hosts and secrets.

    Example: covalt-git source add shop openapi.yaml --id store --include 'orders.*'
    """
    if yes:
        check_user(reason, "tools are accepted")
    if introspect and not is_url(location):
        raise WrongCallError("--introspect needs the URL of a GraphQL API")
    document = _opened(location, yes=yes or reason is not None, introspect=introspect)
    again = _add_command(toolset_id, location, how | {"fields": fields}, introspect=introspect)
    how["fields"] = fields_of(fields)
    preview = ask(
        documents.add_source, toolset_id=toolset_id, document=document, dry_run=True, **how
    )
    if not wants_json():
        print_detail(preview, is_new=True)
    accept = yes or (reason is not None and not can_ask())
    if not accept and can_ask():
        counted = output.plural(len(preview.tools), "tool")
        question = f"the source is added in any case; accept {counted}?"
        accept = output.confirm(question, err=wants_json())
    added = ask(
        documents.add_source,
        toolset_id=toolset_id,
        document=document,
        digest=preview.digest,
        accept=accept,
        reason=reason,
        **how,
    )
    print_json(added)
    output.say(f"added {added.shown_id}: {', '.join(added.files)}")
    if added.lacks_server:
        first = f"covalt-git source remove {added.shown_id}"
        output.say(hint_text(f"{first}\n{again} --base-url URL"), err=True)
    else:
        if not accept:
            output.say(f"  hint: covalt-git source accept {added.shown_id}", err=True)
        # Tools that are not accepted request nothing, so their grants come after that.
        then = "" if accept else "then "
        output.say(f"  hint: {then}covalt-git grant add {toolset_id} --requested", err=True)


@command.command("show")
@source_argument
@click.option("--all", "every", is_flag=True, help="Print each tool and each part that is no tool.")
def show_source(name: str, *, every: bool) -> None:
    """Show what a source reaches, its tools, and the parts of its document that are no tools.

    Example: covalt-git source show shop/store
    """
    source = single_source(name)
    detail = ask_to_print(
        documents.get_source, toolset_id=source.toolset_id, namespace=source.namespace
    )
    print_detail(detail, every=every)


@command.command("remove")
@source_argument
@click.option(
    "--lock",
    "lock_only",
    is_flag=True,
    help="SOURCE is the namespace of a lock that no toolset declares any more: remove the lock.",
)
def remove_source(name: str, *, lock_only: bool) -> None:
    """Remove a source from toolset.yaml, with its lock, its documents and its acceptances.

    With --lock, it removes only a lock that is left over, and the acceptances of its definitions.  If a server of that
    name comes back, you list and accept its tools again.

    Example: covalt-git source remove shop/store
    """
    if lock_only:
        lock = ask_to_print(remove_left_over_lock, namespace=name)
        lost = f", with the accepted {', '.join(lock.accepted)}" if lock.accepted else ""
        output.say(f"removed the lock of {name}{lost}")
        return
    source = single_source(name)
    removed = ask_to_print(
        documents.remove_source, toolset_id=source.toolset_id, namespace=source.namespace
    )
    files = f"; removed {', '.join(removed.files)}" if removed.files else ""
    output.say(f"removed {source.shown_id} from toolset.yaml{files}")
    for words in removed.grants:
        output.say(f"its grant is left: covalt-git grant revoke {source.toolset_id} {words}")


@command.command("doctor")
@click.argument("name", metavar="SOURCE|FILE|URL")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything is reported.")
@reason_option
def check_document(name: str, *, strict: bool, reason: str | None) -> None:
    """Report what a document lacks for agents, and the tokens that its tools cost; nothing is sent.

    Example: covalt-git source doctor openapi.yaml
    """
    # Names of sources have no dot.
    if is_url(name) or Path(name).suffix or Path(name).is_file():
        document = _opened(name, yes=reason is not None)
        result = ask(documents.check_document, document=document)
    else:
        source = single_source(name)
        ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
        result = ask(documents.check_document, **ids)
    failed = strict and bool(result.findings)
    print_json(result, exit_code=int(failed))
    print_findings(result.findings)
    output.say(
        f"{output.plural(result.tools, 'tool')}: about {result.list_tokens:,} tokens in a list, "
        f"{result.search_tokens:,} by search"
    )
    if failed:
        click.get_current_context().exit(1)


@command.command("list")
@sources_argument
def list_sources(names: tuple[str, ...]) -> None:
    """List sources, and how many of their tools are accepted.

    Example: covalt-git source list
    """
    listing = listed_sources(names)
    print_json(listing)
    rows = [_line(source) for source in listing.sources]
    output.table(rows, titles=_TITLES, empty="no toolset declares a source")


@command.command("refresh")
@sources_argument
@click.option("--accept", "accepts", is_flag=True, help="Print the changes, and accept them.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a list has changed.")
@click.option(
    "--from", "location", metavar="FILE|URL", help="A new version of the document of one source."
)
@click.option(
    "--introspect", is_flag=True, help="--from is the URL of a GraphQL API: ask it for its schema."
)
@reason_option
def refresh_sources(
    names: tuple[str, ...],
    *,
    accepts: bool,
    check: bool,
    location: str | None,
    introspect: bool,
    reason: str | None,
) -> None:
    """List the tools of sources again, and print the changes.

    Packages of servers (npx, uvx) are resolved and installed first; a server starts from them once you accept
    them.  New and changed tools are disabled until you accept them: here at a terminal, with --accept, or with
    `source accept`.  The lists are stored in toolsets/locks.  Exits with 1 if a tool is not accepted or a
    server cannot be reached.

    Example: covalt-git source refresh files
    """
    if accepts and check:
        raise WrongCallError("--check writes nothing, so it cannot accept tools")
    if accepts:
        if reason is None:
            # Before the terminal is missed: a script that misspelt a name has to correct that first.
            listed_sources(names)
        check_user(reason, "tools are accepted")
    if introspect and (location is None or not is_url(location)):
        raise WrongCallError("--introspect needs --from with the URL of a GraphQL API")
    if location is not None:
        if len(names) != 1:
            raise WrongCallError("--from needs the one SOURCE whose document it is")
        document = _opened(location, yes=reason is not None, introspect=introspect)
        names = (_refreshed_from(names[0], document, check=check),)
        # The document is copied; with --check it was only compared.
        if check:
            return
    # As text, tools are accepted below, after they were printed: exactly those, also if a list changes meanwhile.
    at_once = accepts and wants_json()
    result = ask(sources.refresh_sources, sources=names, check=check, accept=at_once, reason=reason)
    print_json(result, exit_code=int(any(outcome.failed for outcome in result.sources)))
    if not result.sources:
        output.say("no enabled toolset declares a source")
    failed = [
        _failed(outcome, check=check, accepts=accepts, reason=reason) for outcome in result.sources
    ]
    if any(failed):
        click.get_current_context().exit(1)


@command.command("diff")
@sources_argument
@click.option(
    "--fail-on-breaking", is_flag=True, help="Exit with 1 if a change breaks callers of a tool."
)
def diff(names: tuple[str, ...], *, fail_on_breaking: bool) -> None:
    """Compare the last listed tools with the accepted ones, without a connection.

    Each change is marked as one that breaks callers or does not: a removed tool, another request for the same
    arguments, an argument that is newly required, and a value that is no longer allowed do.

    Example: covalt-git source diff files
    """
    parts = [ask(documents.compare_sources, **named) for named in named_sources(names)]
    rows = tuple(row for part in parts for row in part.sources)
    failed = fail_on_breaking and any(row.breaks for row in rows)
    comparison = documents.SourcesCompared(
        sources=rows, breaking=any(part.breaking for part in parts)
    )
    print_json(comparison, exit_code=int(failed))
    for row in rows:
        print_differences(row, row.to_accept)
        print_unusable(row)
    waiting = [row for row in rows if row.enabled and not (row.asked or row.to_accept)]
    for row in waiting:
        output.say(f"{row.shown_id} was not asked for its tools yet", err=True)
        output.say(f"  hint: covalt-git source refresh {row.shown_id}", err=True)
    if not waiting and not any(row.to_accept for row in rows):
        output.say("all tools are accepted", err=True)
    if failed:
        click.get_current_context().exit(1)


@command.command("accept")
@source_argument
@click.argument("tools", metavar="[TOOL...]", nargs=-1)
@reason_option
def accept_tools(name: str, tools: tuple[str, ...], *, reason: str | None) -> None:
    """Accept tools of a source as it listed them last.

    SOURCE is TOOLSET/NAMESPACE, or the toolset if it has one source.  Without a TOOL, all are accepted.
    Prints what would be accepted, as `source diff` does, with the text of skills, and asks at a terminal.  TOOL@DIGEST
    accepts exactly what was shown with this digest; without a terminal, skills are accepted only so, and their texts are
    printed.

    Example: covalt-git source accept files read_file
    """
    source = single_source(name)
    named = {tool: digest for tool, at, digest in (word.partition("@") for word in tools) if at}
    tools = tuple(word.partition("@")[0] for word in tools)
    toolset_id, namespace = source.toolset_id, source.namespace
    digests = {
        tool.name: tool.digest for tool in source.to_accept if not tools or tool.name in tools
    }
    # Before the terminal is missed: a script that misspelt a name has to correct that first.  A tool that is accepted
    # already stays so.
    for tool in tools:
        if source.tool_names and tool not in {*source.tool_names, *digests}:
            list_with = f"covalt-git source diff {source.shown_id}"
            raise UnknownNameError("tool", tool, source.tool_names, list_with=list_with)
    for task in source.tasks:
        if task in tools:
            raise TaskOnlyError(f"{namespace}:{task}")
    texts: dict[str, str] = {}
    if digests:
        check_user(reason, "tools are accepted")
        asks = reason is None and not wants_json()
        texts = review(source, digests, named, print_=asks, print_named=reason is not None)
        if texts and reason is not None:
            output.say(f"accepted without a question to a user: {reason}", err=True)
        # Also if no question follows, so that the output of a script shows what it has accepted.
        if not wants_json():
            print_differences(source, [tool for tool in source.to_accept if tool.name in digests])
        if asks and not output.confirm("accept this?"):
            output.say("nothing was accepted")
            raise SystemExit(1)
    result = ask_to_print(
        sources.accept_tools,
        toolset_id=toolset_id,
        namespace=namespace,
        tools=digests,
        skill_texts=texts,
        reason=reason,
    )
    for entry in result.changed:
        gone = entry not in result.tool_names
        what = f"{namespace}:{entry}" if entry != PROGRAM else f"the program of {source.shown_id}"
        output.say(f"accepted {what}{' as removed' if gone else ''}")
    if PROGRAM in result.changed:
        output.say(f"  hint: covalt-git source refresh {source.shown_id}", err=True)
    print_renamed(result.renamed)
    print_ended(source.toolset_id, result.ended)
    if not result.changed:
        what = "all other tools" if result.tasks else "all tools"
        output.say(f"{what} of {source.shown_id} are already accepted")
    print_unusable(result)


def _opened(location: str, *, yes: bool, introspect: bool = False) -> dict[str, Any]:
    """Return a document for a request; a URL is fetched after its host was shown and confirmed."""
    if is_url(location):
        host = origin_of(location)[0].shown_host
        output.say(f"this sends a request to {host}", err=True)
        if not yes:
            check_user(None, "a document is fetched")
            if not output.confirm("fetch it?", err=wants_json()):
                raise click.exceptions.Abort
    return ask(documents.open_document, location=location, introspect=introspect).model_dump()


def _add_command(
    toolset_id: str, location: str, how: Mapping[str, Any], *, introspect: bool
) -> str:
    """Return the command that adds a document again, with the options that the user gave."""
    options = {"--id": how["namespace"], "--endpoint": how["endpoint"]}
    several = {
        name: how[name.removeprefix("--")] for name in ("--include", "--exclude", "--fields")
    }
    words = ["covalt-git", "source", "add", toolset_id, location]
    for name, values in (
        {name: [text] for name, text in options.items() if text} | several
    ).items():
        words += [word for value in values for word in (name, value)]
    return shlex.join([*words, *(["--introspect"] if introspect else [])])


def _refreshed_from(name: str, document: Mapping[str, Any], *, check: bool) -> str:
    """Refresh a source with a new version of its document, and return its name."""
    source = single_source(name)
    result = ask(
        sources.refresh_source,
        toolset_id=source.toolset_id,
        namespace=source.namespace,
        document=document,
        check=check,
    )
    if check:
        print_json(result, exit_code=int(bool(result.drift)))
        print_differences(result.source, result.drift)
        print_faults(result.source.faults[:MOST_LINES])
        if result.drift:
            click.get_current_context().exit(1)
    return source.shown_id


def _failed(
    outcome: sources.RefreshOutcome,
    *,
    check: bool = False,
    accepts: bool = False,
    reason: str | None = None,
) -> bool:
    """Print the outcome of a source, and accept its tools or offer it; return whether it has failed."""
    if outcome.failure is not None:
        output.say(f"{outcome.source}:", bold=True)
        first, *others = outcome.failure.error_description.splitlines() or [""]
        output.fact(first, err=True)
        output.quote("\n".join(others), err=True)  # of the server, such as its stderr
        if outcome.failure.hint:
            output.fact(f"  hint: {outcome.failure.hint}", err=True)
    if outcome.refreshed is None:
        return True
    source = outcome.refreshed.source
    print_renamed(outcome.refreshed.renamed)
    differences = outcome.refreshed.drift if check else source.to_accept
    print_differences(source, differences)
    # While new packages wait, these are the tools of the packages before them.
    if not any(tool.name == PROGRAM for tool in differences):
        print_unusable(source)
    print_faults(source.faults[:MOST_LINES])
    counted = f"{outcome.source}: {output.plural(source.tools, 'tool')}"
    if source.unusable:
        counted += f", {len(source.unusable)} cannot be called"
    if source.offers:
        counted += f", {source.offers} resources, templates, prompts and skills"
    rest = "all others" if source.tasks or source.unusable else "all"
    if not differences:
        output.say(f"{counted}, {'unchanged' if check else f'{rest} accepted'}")
        print_ended(source.toolset_id, outcome.refreshed.ended)
    elif not check and (choice := chosen(source, differences, accepts=accepts)):
        # Of what was shown: a definition that changes meanwhile is not accepted.
        ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
        digests, texts = choice
        accepted = ask(sources.accept_tools, **ids, tools=digests, skill_texts=texts, reason=reason)
        print_renamed(accepted.renamed)
        if PROGRAM in digests:  # it was not started yet, so its tools are listed now
            again = ask(sources.refresh_sources, sources=(source.shown_id,), pinned=True)
            return _failed(again.sources[0], accepts=accepts, reason=reason)
        print_ended(source.toolset_id, accepted.ended)
        if accepted.to_accept:
            hint_unread(accepted)
            return True
        output.say(f"{counted}, {rest} accepted")
        return False
    elif not check:
        output.say(f"  hint: covalt-git source accept {outcome.source}", err=True)
    return outcome.failed


def _line(source: sources.SourceRow) -> tuple[str, ...]:
    kinds = [tool.kind for tool in source.to_accept if tool.name != PROGRAM]
    counts = [kinds.count(kind) for kind in ("new", "changed", "gone")]
    cells = [str(count) if count else "-" for count in (source.tools, source.accepted, *counts)]
    off = "" if source.enabled else " (disabled)"
    return (source.shown_id + off, *cells, "; ".join(source.notes) or "-")


command.add_command(observe)
command.add_command(skills)
