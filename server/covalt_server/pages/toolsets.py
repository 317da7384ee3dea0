"""Pages of toolsets: problems, tools, grants, accepted definitions, updates and removal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Blueprint, make_response, redirect, render_template, request, url_for

from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.objects import is_binary_content
from covalt_git.grants.plans import WantedGrant, ended_grants, requested_grants
from covalt_git.grants.status import UNDESCRIBED
from covalt_git.hosts import HostRule
from covalt_git.installs.pending_imports import Bundle, stage_bundle
from covalt_git.installs.uninstall import NotInGitError, is_in_git, paths_of, undo_command
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.sources.server_definition import command_line
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    grant_key,
)
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.operations import (
    bundles,
    grants,
    observations,
    sources,
    toolset_imports,
    toolsets,
)
from covalt_git.operations.credentials import logins, running_sign_ins, secrets
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import sources as tool_sources
from covalt_git.text import display
from covalt_server import request_context
from covalt_server.api.http import send
from covalt_server.pages import layout, toolset_files
from covalt_server.render import code, differences
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.wrappers import Response

    from covalt_git.models.toolset_state import Grant
    from covalt_git.operations.credentials.secrets import UnsetSecret
    from covalt_git.operations.registry import Operation
    from covalt_git.operations.toolsets import McpServerRow, ToolsetDetail
    from covalt_git.sources.refresh import ToolSource
    from covalt_git.toolsets.toolset import Toolset


pages = Blueprint("toolsets", __name__)

_LONGEST_PATCH = 200_000
"""Maximum size of one file's patch on a page, in characters."""

_MOST_RENAMED = 10
"""Renamed tools in a message, which a cookie has to hold."""

_MOST_ENDED = 300
"""Characters of the permissions that a message says are no longer trusted, for the same reason."""


@pages.get("/toolsets")
def toolset_list() -> str:
    """List the toolsets, those with errors first."""
    rows = ask(toolsets.list_toolsets).toolsets
    query = request.args.get("q", "").strip().casefold()
    matches = [row for row in rows if query in f"{row.id} {row.name} {row.description}".casefold()]
    matches.sort(key=lambda row: (row.sound, row.id))
    return render_template(
        "toolset_list.html",
        toolsets=matches,
        total=len(rows),
        query=query,
        admin=request_context.context().is_admin,
    )


@pages.get("/toolsets/<toolset_id>")
def toolset(toolset_id: str) -> str:
    """Show one toolset: its problems, tools, grants, servers and files."""
    return _toolset(toolset_id)


@pages.post("/toolsets/<toolset_id>/enabled")
def switch(toolset_id: str) -> Response:
    """Enable or disable a toolset."""
    enabled = request.form.get("enabled") == "true"
    ask(toolsets.enable_toolset, toolset_id=toolset_id, enabled=enabled)
    message = "Enabled." if enabled else "Disabled. Its tools cannot be called."
    return layout.back("toolsets.toolset", message, toolset_id=toolset_id)


@pages.get("/toolsets/<toolset_id>/export")
def export(toolset_id: str) -> Response:
    """Send a toolset as a ZIP; errors are shown as a page."""
    placeholders = request.args.get("placeholders") == "true"
    return send(ask(bundles.export_toolset, toolset_id=toolset_id, placeholders=placeholders))


@pages.post("/toolsets/<toolset_id>/sign-ins/<name>")
def sign_in(toolset_id: str, name: str) -> Response:
    """Start a sign-in, complete it with a pasted address, or sign out; an error is shown on the page."""
    as_admin("sign in for toolsets")
    server, form = f"{toolset_id}/{name}", request.form
    try:
        if form.get("action") == "out":
            signed_out = ask(logins.log_out, server=server)
            message = " ".join(["Signed out.", *signed_out.not_taken_back])
        elif address := form.get("address", "").strip():
            ask(running_sign_ins.paste_address, server=server, address=address)
            message = "Signed in."
        else:
            ask(
                running_sign_ins.start_sign_in,
                server=server,
                client_id=form.get("client_id", "").strip() or None,
            )
            message = "Sign in at the provider."
    except CovaltError as error:
        return make_response(_toolset(toolset_id, error), error.http_status)
    return _back(toolset_id, "sign-ins", message)


@pages.post("/toolsets/<toolset_id>/grants")
def grant(toolset_id: str) -> Response:
    """Add a grant, if it permits what its button showed; an error is shown next to the input."""
    form = request.form
    as_admin("grant anything")
    name, hosts = form.get("name") or None, tuple(form.get("hosts", "").replace(",", " ").split())
    reviewed = _reviewed()
    if "typed" in form:
        kind: Any = form.get("kind", "")
        try:
            typed_grant = WantedGrant(kind, name or "", hosts)
            # The form showed all that would be trusted but the host, which the user typed after that.
            reviewed["permissions"] = grants.typed_permissions(
                request_context.context(), toolset_id, typed_grant, reviewed["permissions"]
            )
        except CovaltError as error:
            return make_response(_toolset(toolset_id, error), error.http_status)
    return _perform(
        grants.add_grant,
        toolset_id,
        ("grants", "Granted until a file of the toolset changes."),
        kind=form.get("kind", ""),
        name=name,
        hosts=hosts,
        **reviewed,
    )


@pages.post("/toolsets/<toolset_id>/grants/requested")
def grant_requested(toolset_id: str) -> Response:
    """Grant everything that a toolset requests and lacks, if it has not changed since it was shown."""
    ask(grants.add_requested_grants, toolset_id=toolset_id, **_reviewed())
    message = "Granted all requested permissions." + _still_missing(toolset_id)
    return _back(toolset_id, "grants", message)


@pages.post("/toolsets/<toolset_id>/grants/again")
def grant_again(toolset_id: str) -> Response:
    """Renew the grants of a toolset that a change has ended, if it has not changed since it was shown."""
    ask(grants.renew_grants, toolset_id=toolset_id, **_reviewed())
    return _back(toolset_id, "grants", "Granted again.")


@pages.post("/toolsets/<toolset_id>/grants/revoke")
def revoke(toolset_id: str) -> Response:
    """Revoke a grant, or one of its hosts."""
    key, hosts = request.form.get("key", ""), tuple(request.form.getlist("host"))
    revocation = ask(grants.revoke_grant, toolset_id=toolset_id, key=key, hosts=hosts)
    ended = display.shorten("; ".join(revocation.withdrawn), _MOST_ENDED)
    trust = f" No longer trusted on this machine: {ended}." if ended else ""
    return _back(toolset_id, "grants", f"Revoked.{trust}")


@pages.post("/toolsets/<toolset_id>/refresh")
def refresh(toolset_id: str) -> Response:
    """List the tools of an MCP server; an error is shown next to it."""
    namespace = request.form.get("namespace", "")
    try:
        outcome = ask(sources.refresh_source, toolset_id=toolset_id, namespace=namespace)
    except CovaltError as error:
        return make_response(_toolset(toolset_id, error), error.http_status)
    message = "Listed. New and changed tools cannot be called until you accept them."
    return _back(toolset_id, f"source-{namespace}", message + _renamed(outcome.renamed))


@pages.post("/toolsets/<toolset_id>/observe")
def observe(toolset_id: str) -> Response:
    """Run an MCP server with nothing granted, and show what it did not get; an error is shown next to it."""
    form = request.form
    tool, text = form.get("tool", "").strip(), form.get("args", "").strip()
    try:
        calls = [{"tool": tool, "args": _arguments(text)}] if tool else []
        observed = ask(
            observations.observe_source,
            toolset_id=toolset_id,
            namespace=form.get("namespace", ""),
            calls=calls,
        )
    except CovaltError as error:
        return make_response(_toolset(toolset_id, error), error.http_status)
    return make_response(_toolset(toolset_id, observed=observed))


def _arguments(text: str) -> object:
    try:
        return json.loads(text or "{}")
    except ValueError as error:
        raise CovaltError(f"the arguments are not JSON: {error}", http_status=400) from None


@pages.post("/toolsets/<toolset_id>/accept")
def accept(toolset_id: str) -> Response:
    """Accept the reviewed definitions; if one has changed since, show the page again."""
    namespace = request.form.get("namespace", "")
    # Each box has the digest of the definition that the page showed: a refresh may have changed it since.
    boxes = [text.partition(" ") for text in request.form.getlist("tool")]
    tools = {name: digest or None for name, _, digest in boxes}
    try:
        outcome = ask(sources.accept_tools, toolset_id=toolset_id, namespace=namespace, tools=tools)
    except CovaltError as error:
        return make_response(_toolset(toolset_id, error), error.http_status)
    return _back(toolset_id, f"source-{namespace}", "Accepted." + _renamed(outcome.renamed))


def _renamed(tools: Sequence[sources.RenamedTool]) -> str:
    """Return what the user of an MCP host has to know after tools got other names."""
    if not tools:
        return ""
    names = ", ".join(f"{tool.old_name} is now {tool.new_name}" for tool in tools[:_MOST_RENAMED])
    names += f" and {len(tools) - _MOST_RENAMED} more" if len(tools) > _MOST_RENAMED else ""
    return f" For MCP hosts that reject dots, {names}: change their allow lists."


def _reviewed() -> dict[str, Any]:
    """Return what the page showed: the digest of the toolset, and those of the permissions.

    A form without permissions showed none, so it may add none.
    """
    permissions = tuple(request.form.getlist("permission"))
    return {"digest": request.form.get("digest", ""), "permissions": permissions}


def _unset_secrets(toolset: Toolset) -> dict[str, UnsetSecret]:
    """Return the granted secrets of a toolset without a value, by name, each with what to do."""
    project = request_context.project()
    command = SecretCommand.of(project.root, project.config.secret_command)
    unset = secrets.unset_secrets(toolset, command, SecretStore.of_this_machine())
    return {secret.name: secret for secret in unset}


def _still_missing(toolset_id: str) -> str:
    """Return the sentence about secrets that are granted and have no value; empty if each has one."""
    names = list(_unset_secrets(request_context.context().catalog.find_toolset(toolset_id)))
    more = f" and {len(names) - _MOST_RENAMED} more" if len(names) > _MOST_RENAMED else ""
    return f" Still without a value: {', '.join(names[:_MOST_RENAMED])}{more}." if names else ""


def _perform(
    operation: Operation[Any, Any], toolset_id: str, target: tuple[str, str], **fields: object
) -> Response:
    """Perform an operation; go back to a part of the page with a message (``target``), or show the error there."""
    try:
        ask(operation, toolset_id=toolset_id, **fields)
    except CovaltError as error:
        return make_response(_toolset(toolset_id, error), error.http_status)
    return _back(toolset_id, *target)


def _back(toolset_id: str, anchor: str, message: str) -> Response:
    return layout.back("toolsets.toolset", message, toolset_id=toolset_id, _anchor=anchor)


@pages.get("/toolsets/<toolset_id>/changes")
def changes(toolset_id: str) -> str:
    """Show the local changes of a toolset since its import, or since a grant."""
    grant = request.args.get("grant") or None
    difference = ask(bundles.diff_toolset, toolset_id=toolset_id, grant=grant)
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    differing = [
        {
            "path": file.path,
            "kind": file.kind,
            "patch": file.patch if len(file.patch) <= _LONGEST_PATCH else None,
            "binary": "\nBinary files " in file.patch,
        }
        for file in difference.files
    ]
    return render_template(
        "toolset_changes.html",
        toolset=detail,
        grant=grant,
        diff={"changes": differing},
        patch=differences.DiffRenderer(),
    )


@pages.post("/toolsets/<toolset_id>/newer")
def newer(toolset_id: str) -> Response:
    """Download the current bundle from the toolset's source URL, and redirect to its review."""
    root = as_admin("update toolsets").root
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    if toolset.state.source_type != "url":
        return redirect(url_for("imports.choose"), 303)
    bundle = Bundle.download(toolset.state.source_ref or "")
    # Checked before it is staged, so that the review opens with a bundle that can be imported. The review
    # asks about a changed signer.
    toolset_imports.import_bundle(
        request_context.context(), bundle, dry_run=True, accept_signer=True
    )
    return redirect(url_for("imports.review", bundle_id=stage_bundle(root, bundle)), 303)


@pages.get("/toolsets/<toolset_id>/uninstall")
def uninstall_preview(toolset_id: str) -> str:
    """Show what a removal deletes and keeps, with a confirmation."""
    return _uninstall(toolset_id)


@pages.post("/toolsets/<toolset_id>/uninstall")
def uninstall(toolset_id: str) -> Response:
    """Remove a toolset; with ``force`` also if Git cannot restore it."""
    try:
        ask(toolset_imports.uninstall_toolset, toolset_id=toolset_id, force="force" in request.form)
    except NotInGitError as error:
        return make_response(_uninstall(toolset_id), error.http_status)
    return layout.back("toolsets.toolset_list", "Removed. Chats and their results are kept.")


@pages.get("/toolsets/<toolset_id>/files/<path:path>")
def source(toolset_id: str, path: str) -> str:
    """Show a file of a toolset with its problems."""
    toolset = bundles.find_visible_toolset(request_context.context(), toolset_id)
    # Only a file of the listing: a path with `..`, or a link, could lead to any file of the user
    # (test_only_files_of_the_toolset_are_shown).
    file = toolset.files.get(path)
    if file is None:
        paths = [entry.path for entry in toolset.files.files]
        raise UnknownNameError(
            "file", path, paths, list_with=f"covalt-git toolset show {toolset.id}"
        )
    content = (toolset.folder / path).read_bytes()
    name = f"toolsets/{toolset.id}/{path}"
    problems = [problem for problem in toolset.problems if problem.path == name]
    admin = request_context.context().is_admin
    editable = admin and toolset_files.is_editable(toolset, path)
    fixable = toolset_files.fixable(toolset.id) if admin and path == MANIFEST else 0
    listing = None
    if not is_binary_content(content):
        text = content.decode("utf-8", "replace")
        notes = toolset_files.problem_notes(
            problems,
            fix_page=url_for("toolset_files.fix", toolset_id=toolset.id) if fixable else "",
            edit_page=url_for("toolset_files.edit", toolset_id=toolset.id, path=path)
            if editable
            else "",
        )
        listing = code.highlighted(text, path=path, notes=notes)
    return render_template(
        "toolset_source.html",
        toolset=toolset,
        file=file,
        shown=listing,
        problems=problems,
        source_of=toolset_files.source_of(toolset.id),
        editable=editable,
        fixable=fixable,
    )


def _toolset(
    toolset_id: str,
    error: CovaltError | None = None,
    observed: observations.SourceObserved | None = None,
) -> str:
    """Return the page of a toolset; ``error`` is the error of a submitted form, ``observed`` an observation's result."""
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    root = request_context.project().root
    context = request_context.context()
    toolset = context.catalog.find_toolset(toolset_id)
    # Without files, some tools are hidden.  A toolset with errors gets no grants.
    groups = grant_groups(detail) if detail.files else ()
    if context.is_admin and detail.files:
        unset = _unset_secrets(toolset)
        groups = tuple(
            group._replace(unset=unset.get(group.name or "")) if group.kind == "secret" else group
            for group in groups
        )
    may_grant = context.is_admin and detail.sound and bool(detail.files)

    def connections(source: ToolSource) -> list[sources.ConnectionRow]:
        return sources.connections(root, toolset_id, source.declared.id)

    return render_template(
        "toolset.html",
        toolset=detail,
        source_of=toolset_files.source_of(toolset_id),
        groups=[_with_offers(group, toolset) for group in groups] if may_grant else groups,
        requested=_offer(toolset, *requested_grants(toolset))
        if may_grant and detail.lacking
        else None,
        ended=_offer(toolset, *ended_grants(toolset)) if may_grant and detail.ended else None,
        # The sources of a manifest with errors are not known; the page shows the errors.
        given=tool_sources(root, toolset_id) if detail.files and toolset.manifest else (),
        connections=connections,
        lines=definition_lines,
        admin=context.is_admin,
        fixable=toolset_files.fixable(toolset_id) if context.is_admin and detail.problems else 0,
        sign_ins=ask(running_sign_ins.list_sign_ins, toolset_id=toolset_id).sign_ins
        if context.is_admin and detail.manifest
        else (),
        error=error,
        observed=observed,
    )


def _uninstall(toolset_id: str) -> str:
    as_admin("remove toolsets")
    toolset = request_context.context().catalog.find_toolset(toolset_id)
    detail = ask(toolsets.get_toolset, toolset_id=toolset_id)
    root = request_context.project().root
    return render_template(
        "uninstall.html",
        toolset=detail,
        in_git=is_in_git(root, toolset),
        paths=" ".join(paths_of(root, toolset_id)),
        undo=undo_command(root, toolset_id),
    )


NETWORK, UNSANDBOXED = "network", "unsandboxed"


class HostRow(NamedTuple):
    """A host: whether the toolset requests it, whether the grant names it, and whether a granted wildcard covers it.

    ``shown`` includes the granted ports.  ``offer`` is what its button grants; None without a button.
    """

    host: str
    shown: str
    requested: bool
    named: bool
    covered: bool
    offer: toolsets.GrantOffer | None = None


class GrantGroup(NamedTuple):
    """A requested or granted permission, by its key.

    ``what`` describes a permission without hosts; ``lines`` is exactly what a grant would permit now.  ``changed``
    lists the changes that ended the grant.  ``uses`` are the folders, hosts and secrets of a program in the sandbox, and
    ``is_unsandboxed`` is whether a program is granted to run without one.  ``offer`` is what its button grants, and ``another`` what the form for another
    host grants; None without a button.  ``unset`` is what a granted secret without a value lacks.
    """

    key: str
    kind: str
    name: str | None = None
    grant: Grant | None = None
    hosts: tuple[HostRow, ...] = ()
    what: str = ""
    lines: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    is_unsandboxed: bool = False
    offer: toolsets.GrantOffer | None = None
    another: toolsets.GrantOffer | None = None
    unset: UnsetSecret | None = None

    @property
    def named_hosts(self) -> tuple[str, ...]:
        """The hosts that the grant names, which its button grants again."""
        return tuple(row.host for row in self.hosts if row.named)

    @property
    def comparable(self) -> bool:
        """Whether the files can be compared with those of the grant: the user has trusted it."""
        return self.changed != (UNDESCRIBED,)


def grant_groups(toolset: ToolsetDetail) -> tuple[GrantGroup, ...]:
    """Return the permissions of a toolset: hosts, secrets, servers, running unsandboxed, other grants.

    Each registered tool has one grant.
    """
    if toolset.id == REGISTRY_NAMESPACE:
        return tuple(_group(toolset, key) for key in sorted(toolset.grants))
    secret_names = {permission.name for permission in toolset.asks if permission.name is not None}
    secret_names |= {
        grant.name for grant in toolset.grants.values() if isinstance(grant, SecretGrant)
    }
    groups = [_hosts(toolset, NETWORK, NETWORK)]
    groups += [
        _hosts(toolset, grant_key("secret", name), "secret", name) for name in sorted(secret_names)
    ]
    groups += [_server(toolset, server) for server in toolset.mcp_servers]
    if toolset.imported or UNSANDBOXED in toolset.grants:
        groups.append(_group(toolset, UNSANDBOXED))
    keys = {group.key for group in groups}
    groups += [_group(toolset, key) for key in sorted(toolset.grants.keys() - keys)]
    return tuple(groups)


def _offer(toolset: Toolset, *wanted_grants: WantedGrant) -> toolsets.GrantOffer:
    return toolsets.offer(request_context.context(), toolset, wanted_grants)


def _with_offers(group: GrantGroup, toolset: Toolset) -> GrantGroup:
    """Return a group with exactly what each of its buttons would trust, for a user who may grant."""
    kind: Any = group.kind
    wanted_grant = WantedGrant(kind, group.name or "")
    lacks = bool(group.changed) or group.grant is None or group.is_unsandboxed
    if group.kind not in {NETWORK, "secret"}:
        has_button = lacks and (
            group.kind == UNSANDBOXED or (group.kind == "server" and group.name is not None)
        )
        return group._replace(offer=_offer(toolset, wanted_grant)) if has_button else group
    if group.changed:
        return group._replace(offer=_offer(toolset, wanted_grant._replace(hosts=group.named_hosts)))
    rows = tuple(
        row
        if row.named or row.covered
        else row._replace(offer=_offer(toolset, wanted_grant._replace(hosts=(row.host,))))
        for row in group.hosts
    )
    another = toolsets.typed_offer(request_context.context(), toolset, wanted_grant)
    return group._replace(hosts=rows, another=another)


def _hosts(toolset: ToolsetDetail, key: str, kind: str, name: str | None = None) -> GrantGroup:
    group = _group(toolset, key)._replace(kind=kind, name=name)
    grant = group.grant
    named: Sequence[str] = grant.hosts if isinstance(grant, NetworkGrant | SecretGrant) else ()
    requested = {
        permission.host: permission.granted
        for permission in toolset.asks
        if permission.kind == kind and permission.name == name and permission.host is not None
    }
    rows = [
        HostRow(
            host,
            HostRule.parse(host).shown,
            requested=host in requested,
            named=host in named,
            covered=requested.get(host, host in named and not group.changed),
        )
        for host in sorted({*requested, *named}, key=lambda host: (host not in requested, host))
    ]
    return group._replace(hosts=tuple(rows))


def _server(toolset: ToolsetDetail, server: McpServerRow) -> GrantGroup:
    """Return the group of an MCP server, with its current declaration."""
    kind = "server" if server.command is None else "process"
    words = [server.url or ""] if server.command is None else [server.command, *server.args]
    group = _group(toolset, grant_key(kind, server.id))
    # The grant that its button adds starts a program in the sandbox.
    return group._replace(
        kind="server",
        name=server.id,
        what=command_line(words),
        uses=group.grant.uses if isinstance(group.grant, ProcessGrant) else (),
        is_unsandboxed=isinstance(group.grant, ProcessGrant) and group.grant.confinement is None,
    )


def _group(toolset: ToolsetDetail, key: str) -> GrantGroup:
    """Return the group of the grant with a key, or of a permission that is not granted."""
    grant, name, what = toolset.grants.get(key), None, ""
    match grant:
        case ProcessGrant():
            what = command_line(grant.argv)
        case ServerGrant():
            what = command_line([grant.url])
        case ToolGrant():
            name, what = grant.tool, grant.alias_of or ", ".join((*grant.hosts, *grant.secrets))
    kind = grant.kind if grant else key
    permissions = (*toolset.requested_permissions, *toolset.ended_permissions)
    lines = tuple(
        line for permission in permissions if permission.grant == key for line in permission.lines
    )
    changed = toolset.ended.get(key, ())
    return GrantGroup(key, kind, name, grant, what=what, lines=lines, changed=changed)
