"""The page of one toolset, which the forms of its permissions and sources show again with their errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from flask import flash, make_response, render_template, url_for

from covalt_git.catalog import toolset_cache
from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.grants.plans import WantedGrant, ended_grants, requested_grants
from covalt_git.grants.status import acting_grants
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.toolset_manifest import Source
from covalt_git.models.toolset_state import WRITABLE
from covalt_git.operations import sources, toolsets
from covalt_git.operations.credentials import running_sign_ins, secrets
from covalt_git.operations.namespace_problems import taken_from
from covalt_git.runtime.mcp_servers import hidden_argument
from covalt_git.sources import listing_failures
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import sources as tool_sources
from covalt_git.sources.refresh import sources_of
from covalt_server import request_context
from covalt_server.pages import layout, toolset_files
from covalt_server.pages.grant_groups import (
    ProgramOffer,
    grant_groups,
    offer,
    with_offers,
    with_script_folders,
)
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from werkzeug.wrappers import Response

    from covalt_git.models.calls import CallError
    from covalt_git.operations import observations
    from covalt_git.operations.credentials.secrets import UnsetSecret
    from covalt_git.operations.registry import Operation
    from covalt_git.operations.toolsets import ToolsetRow
    from covalt_git.sources.refresh import ToolSource
    from covalt_git.toolsets.project_files import NamespaceConflict
    from covalt_git.toolsets.toolset import Toolset

MOST_RENAMED = 10
"""Renamed tools in a message, which a cookie has to hold."""


_ABOUT_VALUES = frozenset(
    {"secret_missing", "secret_unfit", "sign_in_needed", "http_401", "http_403"}
)
"""Codes of calls that fail because of the value of a secret or of a sign-in."""

_WORD = re.compile(r"\w+")


def unset_secrets(toolset: Toolset) -> dict[str, UnsetSecret]:
    """Return the granted secrets of a toolset without a value, by name, each with what to do."""
    project = request_context.project()
    command = SecretCommand.of(project.root, project.config.secret_command)
    unset = secrets.unset_secrets(toolset, command, SecretStore.of_this_machine())
    return {secret.name: secret for secret in unset}


def secret_address(toolset_id: str, name: str) -> str:
    """Return the URL of the part of a toolset's page where the value of a secret is given."""
    return url_for("toolsets.toolset", toolset_id=toolset_id, _anchor=f"secret-{quote(name)}")


class RepairLink(NamedTuple):
    """What a user can do about the error of a call, and where."""

    label: str
    address: str


def repair_links(tool_id: str, error: CallError | None) -> list[RepairLink]:
    """Return where the values of secrets that an error is about are given, for a user who may give them."""
    context = request_context.context()
    if error is None or error.code not in _ABOUT_VALUES or not context.is_admin:
        return []
    # The namespace of a source's tool is not a toolset's id.
    row = context.toolset_index().tool(tool_id)
    if row is None:
        return []
    toolset = toolset_cache.toolset(context.root, row.toolset_id)
    if error.code == "sign_in_needed":
        address = url_for("toolsets.toolset", toolset_id=toolset.id, _anchor="sign-ins")
        return [RepairLink("Sign in", address)]
    words = set(_WORD.findall(f"{error.message} {error.hint}"))
    names = [name for name in toolset.secrets if name in words]
    unset = unset_secrets(toolset) if names else {}
    return [
        RepairLink(
            f"{'Give' if name in unset else 'Change'} the value of {name}",
            secret_address(toolset.id, name),
        )
        for name in names
        # It was given since then.
        if name in unset or error.code != "secret_missing"
    ]


class NextStep(NamedTuple):
    """What the user has to do before tools of a toolset can be called, as a sentence, with the words of its button.

    The button leads to a part of the page.  Without a part it enables the toolset.
    """

    text: str
    button: str
    anchor: str = ""


def next_step(toolset_id: str) -> NextStep | None:
    """Return the next step of a toolset; None if its tools can be called, or if it has errors or hidden tools."""
    context = request_context.context()
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    if not detail.files or not detail.sound:
        return None
    changes_files = request_context.changes_files()
    if detail.lacking and changes_files:
        return NextStep("Next: grant what is still missing.", "Show it", "grants")
    if context.is_admin and (
        names := list(unset_secrets(context.catalog.find_toolset(toolset_id)))
    ):
        more = f" and {len(names) - MOST_RENAMED} more" if len(names) > MOST_RENAMED else ""
        text = f"Still without a value: {', '.join(names[:MOST_RENAMED])}{more}."
        return NextStep(text, "Give the value", f"secret-{quote(names[0])}")
    if not changes_files:
        return None
    if not detail.enabled:
        return NextStep("Next: enable the toolset.", "Enable it")
    if detail.waits_for is None:
        return None
    unlisted = Unlisted.of(toolset_id)
    if detail.waits_for == "listing" and unlisted.failed:
        words = (f"{unlisted.failure}.", "Show why")
        sources = unlisted.failed
    elif detail.waits_for == "listing" or unlisted.waiting:
        # Before the acceptance of other tools: the user has probably just granted this server.
        words = ("Next: ask its servers for their tools.", "Show them")
        sources = unlisted.waiting
    else:
        words = ("Next: review its tools, and accept them.", "Review them")
        sources = [source for source in unlisted.sources if source.to_accept]
    # Without a source, another toolset has their namespaces, which the page says.
    return NextStep(*words, f"source-{sources[0].namespace}") if sources else None


class Unlisted(NamedTuple):
    """The MCP servers and documents of a toolset, and why their tools are not listed.

    Attributes:
        sources: all with a valid namespace.
        waiting: those that were not asked yet, and can be.
        failed: those that were asked and did not list their tools.
        taken: the conflicts about namespaces that another toolset has.
    """

    sources: list[ToolSource]
    waiting: list[ToolSource]
    failed: list[ToolSource]
    taken: list[NamespaceConflict]

    @classmethod
    def of(cls, toolset_id: str) -> Unlisted:
        """Return those of a toolset; only an admin gets the conflicts, which name other toolsets."""
        context = request_context.context()
        toolset = toolset_cache.toolset(context.root, toolset_id)
        taken = taken_from(context, toolset_id)
        sources = sources_of(context.root, toolset)
        waiting, failed = [], []
        for source in sources:
            if source.lock is not None:
                continue
            if listing_failures.failure_of(context.root, source) is not None:
                failed.append(source)
            elif source.namespace not in taken:
                waiting.append(source)
        return cls(sources, waiting, failed, list(taken.values()))

    @property
    def failure(self) -> str:
        """Which sources did not list their tools; empty if none was asked."""
        if not self.failed:
            return ""
        first, *others = (source.declared.id for source in self.failed)
        if not others:
            return f"{first} did not list its tools"
        return f"{len(self.failed)} servers did not list their tools"


def failures_by_toolset(rows: Iterable[ToolsetRow]) -> dict[str, str]:
    """Return which servers of toolsets that wait for a listing did not list their tools, by the ids of the toolsets."""
    waiting = (row.id for row in rows if row.sound and row.enabled and row.waits_for == "listing")
    failures = {toolset_id: Unlisted.of(toolset_id).failure for toolset_id in waiting}
    return {toolset_id: words for toolset_id, words in failures.items() if words}


def unset_by_toolset(rows: Iterable[ToolsetRow]) -> dict[str, list[str]]:
    """Return the names of the secrets without a value of toolsets that are enabled, for a user who may set them."""
    context = request_context.context()
    if not context.is_admin:
        return {}
    return {
        row.id: list(unset_secrets(toolset_cache.toolset(context.root, row.id)))
        for row in rows
        if row.sound and row.enabled
    }


def toolset_page(
    toolset_id: str,
    error: CovaltError | None = None,
    observed: observations.SourceObserved | None = None,
    planned: WantedGrant | None = None,
) -> str:
    """Return the page of a toolset.

    ``error`` is the error of a submitted form, ``observed`` an observation's result, and ``planned`` a grant that the user
    reviews before they add it.
    """
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    root = request_context.project().root
    context = request_context.context()
    toolset = context.catalog.find_toolset(toolset_id)
    # A principal from whom some tools are hidden gets no files, and must not see the grants.  A toolset with errors has
    # no grants.
    groups = grant_groups(detail) if detail.files else ()
    unset: dict[str, UnsetSecret] = {}
    if context.is_admin and detail.files:
        unset = unset_secrets(toolset)
        groups = tuple(
            group._replace(unset=unset.get(group.name or "")) if group.kind == "secret" else group
            for group in groups
        )
    changes_files = request_context.changes_files()
    may_grant = changes_files and detail.sound and bool(detail.files)
    if may_grant and detail.lacking:
        groups = with_script_folders(groups, toolset)

    if may_grant and planned is not None:
        review = ProgramOffer.of(toolset, planned)
        groups = tuple(
            group._replace(planned=review)
            if (group.kind, group.name) == (planned.kind, planned.name)
            else group
            for group in groups
        )

    # The sources of a manifest with errors are not known; the page shows the errors.
    given = tool_sources(root, toolset_id) if detail.files and toolset.manifest else ()

    def connections(source: ToolSource) -> list[sources.ConnectionRow]:
        return sources.connections(root, toolset_id, source.declared.id)

    return render_template(
        "toolset.html",
        toolset=detail,
        source_of=toolset_files.source_of(toolset_id),
        edit_of=toolset_files.editor_of if context.is_admin else None,
        unset=list(unset),
        groups=[with_offers(group, toolset) for group in groups] if may_grant else groups,
        requested=offer(toolset, *requested_grants(toolset))
        if may_grant and detail.lacking
        else None,
        ended=offer(toolset, *ended_grants(toolset)) if may_grant and detail.ended else None,
        given=given,
        unlisted=Unlisted.of(toolset_id) if detail.waits_for and detail.files else None,
        connections=connections,
        failure_of=lambda source: listing_failures.failure_of(root, source),
        hidden_of=lambda source, why: _hidden_file(toolset, source, why) if may_grant else None,
        definition_page=lambda kind, id_: (
            _definition_page(toolset, kind, id_) if changes_files else ""
        ),
        needed=_needed(toolset, observed) if may_grant and observed else None,
        lines=definition_lines,
        admin=changes_files,
        stores=context.is_admin,
        fixable=toolset_files.fixable(toolset_id) if changes_files and detail.problems else 0,
        sign_ins=ask(running_sign_ins.list_sign_ins, toolset_id=toolset_id).sign_ins
        if context.is_admin and detail.manifest
        else (),
        valueless=_valueless(toolset) if may_grant and detail.lacking else (),
        error=error,
        observed=observed,
    )


def _valueless(toolset: Toolset) -> list[str]:
    project = request_context.project()
    command = SecretCommand.of(project.root, project.config.secret_command)
    return secrets.valueless_requests(toolset, command, SecretStore.of_this_machine())


_IN_WRONG_PLACE = frozenset({"server_in_project", "server_in_workspace", "server_folder"})
"""Codes of servers that are not started because of where their code is."""


def _definition_page(
    toolset: Toolset, kind: Literal["mcp_servers", "sources"], source_id: str
) -> str:
    """Return the URL of the editor at the definition of an MCP server or a document; empty if the form cannot edit it."""
    manifest, document = toolset.manifest, toolset.manifest_reading.document
    if manifest is None or document is None or not toolset_files.is_editable(toolset, MANIFEST):
        return ""
    ids = [entry.id for entry in getattr(manifest, kind)]
    if source_id not in ids:
        return ""
    line, col = document.locate((kind, ids.index(source_id), "id"))
    return url_for("toolset_files.edit", toolset_id=toolset.id, path=MANIFEST, line=line, col=col)


class HiddenFile(NamedTuple):
    """A file that the command of an MCP server names and the sandbox does not show, and the offer of its folder."""

    path: Path
    review: ProgramOffer


def _hidden_file(toolset: Toolset, source: ToolSource, why: CovaltError) -> HiddenFile | None:
    """Return the file that the sandbox hides from the program of a granted server; None if it hides none.

    A server that is not started because of ``why`` does not start with the folder either: a pull, or a tool, could
    change its code there.
    """
    server = source.declared
    if isinstance(server, Source) or server.command is None or why.code in _IN_WRONG_PLACE:
        return None
    grant = acting_grants(toolset).program(server, toolset.files.hashes)
    if grant is None or grant.confinement is None:
        return None
    folders = (text.removesuffix(WRITABLE) for text in grant.confinement.folders)
    visible = [toolset.folder, *(Path(folder).expanduser().resolve() for folder in folders)]
    hidden = hidden_argument([server.command, *server.args], visible)
    if hidden is None:
        return None
    path, folder = hidden
    folder_grant = WantedGrant("server", server.id, folders=(str(folder),))
    return HiddenFile(path, ProgramOffer.of(toolset, folder_grant))


def _needed(toolset: Toolset, observed: observations.SourceObserved) -> ProgramOffer | None:
    """Return the offer of all that an observed server did not get and that a grant gives, without what has a warning."""
    rows = [
        need for need in observed.needs if need.command and not need.granted and not need.warning
    ]
    if not rows:
        return None

    def of_all(name: str) -> tuple[str, ...]:
        return tuple(sorted({text for row in rows for text in getattr(row, name)}))

    return ProgramOffer.of(
        toolset,
        WantedGrant(
            "server", observed.server, of_all("hosts"), of_all("folders"), of_all("secrets")
        ),
    )


def perform(
    operation: Operation[Any, Any], toolset_id: str, target: tuple[str, str], **fields: object
) -> Response:
    """Perform an operation; go back to a part of the page with a message (``target``), or show the error there."""
    try:
        ask(operation, toolset_id=toolset_id, **fields)
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    return back(toolset_id, *target)


def back_with_next_step(
    toolset_id: str, anchor: str, message: str, kind: Literal["good", "warn"] = "good"
) -> Response:
    """Return to the page with a message that says what to do next: without that, it would seem that all is fine."""
    step = next_step(toolset_id)
    if step is None:
        return back(toolset_id, anchor, message, kind)
    flash("\n".join((f"{message} {step.text}", toolset_id, step.anchor, step.button)), "step")
    return back(toolset_id, step.anchor or anchor, "")


def back(
    toolset_id: str, anchor: str, message: str, kind: Literal["good", "warn"] = "good"
) -> Response:
    return layout.back("toolsets.toolset", message, kind, toolset_id=toolset_id, _anchor=anchor)
