"""Forms of a toolset's permissions: sign-ins, grants and values of secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from flask import Blueprint, make_response, request

from covalt_git.errors import CovaltError
from covalt_git.grants.plans import WantedGrant
from covalt_git.hosts import BadHostError, HostRule
from covalt_git.operations import grants
from covalt_git.operations.credentials import logins, running_sign_ins, secrets
from covalt_git.text import display
from covalt_server import request_context
from covalt_server.pages.toolset_page import (
    back,
    back_with_next_step,
    perform,
    toolset_page,
)
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("toolset_permissions", __name__)

_VALUE = "value:"
"""Prefix of the fields for values of secrets in the form that grants everything."""

_MOST_STORED = 10
"""Secrets that a message names, because a cookie has to hold it."""

_MOST_ENDED = 300
"""Characters of the permissions that a message says are no longer trusted, for the same reason."""


@pages.post("/toolsets/<toolset_id>/sign-ins/<name>")
def sign_in(toolset_id: str, name: str) -> Response:
    """Start a sign-in, complete it with a pasted address, or sign out; an error is shown on the page."""
    as_admin("sign in for toolsets")
    server, form = f"{toolset_id}/{name}", request.form
    kind: Literal["good", "warn"] = "good"
    try:
        if form.get("action") == "out":
            signed_out = ask(logins.log_out, server=server)
            kind = "warn" if signed_out.not_taken_back else "good"
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
        return make_response(toolset_page(toolset_id, error), error.http_status)
    return back(toolset_id, "sign-ins", message, kind)


@pages.post("/toolsets/<toolset_id>/grants")
def grant(toolset_id: str) -> Response:
    """Add a grant, if it permits what its button showed; an error is shown next to the input."""
    form = request.form
    as_admin("grant anything")
    name, reviewed = form.get("name") or None, _reviewed()
    try:
        hosts = _hosts(form.get("hosts", ""))
    except BadHostError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    if "typed" in form:
        kind: Any = form.get("kind", "")
        try:
            typed_grant = WantedGrant(kind, name or "", hosts)
            # The form showed all that would be trusted but the host, which the user typed after that.
            reviewed["permissions"] = grants.typed_permissions(
                request_context.context(), toolset_id, typed_grant, reviewed["permissions"]
            )
        except CovaltError as error:
            return make_response(toolset_page(toolset_id, error), error.http_status)
    target = ("grants", "Granted until a file of the toolset changes.")
    if namespace := form.get("namespace", ""):
        target = (f"source-{namespace}", "Granted. List its tools again.")
    return perform(
        grants.add_grant,
        toolset_id,
        target,
        kind=form.get("kind", ""),
        name=name,
        hosts=hosts,
        folders=tuple(form.getlist("folder")),
        secrets=tuple(form.getlist("secret")),
        **reviewed,
    )


def _hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of a text, separated by spaces or commas.

    Raises:
        BadHostError: if one of several is invalid; it shows the whole text, which the user may have typed as one host.
    """
    hosts = tuple(text.replace(",", " ").split())
    for host in hosts if len(hosts) > 1 else ():
        try:
            HostRule.parse(host)
        except BadHostError as error:
            message = f"{error.message}: spaces and commas separate the {len(hosts)} hosts in {display.shorten(text.strip())!r}"
            raise BadHostError(message, hint=error.hint) from None
    return hosts


@pages.post("/toolsets/<toolset_id>/grants/plan")
def plan_folder(toolset_id: str) -> Response:
    """Show what the program of an MCP server would get with a folder that the user typed; nothing is granted."""
    as_admin("grant anything")
    folder = request.form.get("folder", "").strip()
    try:
        grants.check_folder(folder)
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    planned = WantedGrant("server", request.form.get("name", ""), folders=(folder,))
    return make_response(toolset_page(toolset_id, planned=planned))


@pages.post("/toolsets/<toolset_id>/secrets")
def set_secret(toolset_id: str) -> Response:
    """Store the value of a granted secret; an error is shown next to its field, which is empty again."""
    name, value = request.form.get("name", ""), request.form.get("value", "")
    try:
        stored = ask(secrets.set_secret, toolset_id=toolset_id, name=name, value=value)
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    message = f"Stored the value of {display.shorten(name)}."
    if stored.narrowed:
        message += " Other users could access secrets.env before; now only you can (mode 600)."
    return back_with_next_step(
        toolset_id, f"secret-{quote(name)}", message, "warn" if stored.narrowed else "good"
    )


@pages.post("/toolsets/<toolset_id>/grants/requested")
def grant_requested(toolset_id: str) -> Response:
    """Grant everything that a toolset requests and lacks, if it has not changed since it was shown."""
    ask(grants.add_requested_grants, toolset_id=toolset_id, **_reviewed())
    message = "Granted all requested permissions."
    stored: list[str] = []
    kind: Literal["good", "warn"] = "good"
    # After the grant: only the value of a granted secret can be stored.
    for field, value in request.form.items():
        name = field.removeprefix(_VALUE)
        if name == field or not value:
            continue
        try:
            ask(secrets.set_secret, toolset_id=toolset_id, name=name, value=value)
            stored.append(display.shorten(name))
        except CovaltError as error:
            kind = "warn"
            message += f" The value of {display.shorten(name)} was not stored: {error.message}."
    if stored:
        more = f" and {len(stored) - _MOST_STORED} more" if len(stored) > _MOST_STORED else ""
        word = "value" if len(stored) == 1 else "values"
        message += f" Stored the {word} of {', '.join(stored[:_MOST_STORED])}{more}."
    return back_with_next_step(toolset_id, "grants", message, kind)


@pages.post("/toolsets/<toolset_id>/grants/again")
def grant_again(toolset_id: str) -> Response:
    """Renew the grants of a toolset that a change has ended, if it has not changed since it was shown."""
    ask(grants.renew_grants, toolset_id=toolset_id, **_reviewed())
    return back_with_next_step(toolset_id, "grants", "Granted again.")


@pages.post("/toolsets/<toolset_id>/grants/revoke")
def revoke(toolset_id: str) -> Response:
    """Revoke a grant, or one of its hosts."""
    key, hosts = request.form.get("key", ""), tuple(request.form.getlist("host"))
    revocation = ask(grants.revoke_grant, toolset_id=toolset_id, key=key, hosts=hosts)
    ended = display.shorten("; ".join(revocation.withdrawn), _MOST_ENDED)
    trust = f" No longer trusted on this machine: {ended}." if ended else ""
    return back(toolset_id, "grants", f"Revoked.{trust}")


def _reviewed() -> dict[str, Any]:
    """Return what the page showed: the digest of the toolset, and those of the permissions.

    A form without permissions showed none, so it may add none.
    """
    permissions = tuple(request.form.getlist("permission"))
    return {"digest": request.form.get("digest", ""), "permissions": permissions}
