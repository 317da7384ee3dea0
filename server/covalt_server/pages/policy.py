"""The page of the policy: what each role may do with a tool, and the explanation of the decision about a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, make_response, render_template, request

from covalt_git.access import has_admin_role
from covalt_git.credentials.leaks import blotted
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.operations import policy, tools
from covalt_git.operations.registry import InvalidRequestError
from covalt_git.problems.excerpts import Sources
from covalt_server.pages import toolset_files
from covalt_server.request_context import ask, context, project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.policy import PolicyExplained, PolicyLine

pages = Blueprint("policy", __name__)

_WIDEST = 160
"""Cells of a line that is shown as text."""


class _LinePlace(NamedTuple):
    """A line that took part in a decision.

    ``page`` is the URL that shows it, or empty.  ``text`` is the line itself, only for admins and only without a page.
    """

    line: PolicyLine
    page: str
    text: str


@pages.get("/policy")
def policy_page() -> str:
    """Show the form, and what each role may do with the tool ``?tool=``."""
    return _page(request.args.get("tool", "").strip()[:200])


@pages.post("/policy")
def explain() -> Response:
    """Explain the decision about the call of the form; the form keeps its values if it has an error."""
    form = request.form
    tool_id, role, text = form.get("tool", "").strip()[:200], form.get("role"), form.get("args", "")
    try:
        # Not in the URL: arguments of calls would be in the log and in the history of the browser.
        explained = ask(
            policy.explain_policy, tool_id=tool_id, role=role or None, args=_arguments(text)
        )
    except CovaltError as error:
        return make_response(_page("", tool_id, role, text, error=error), error.http_status)
    return make_response(_page(tool_id, tool_id, role, text, explained=explained))


def _places(lines: Sequence[PolicyLine], *, is_admin: bool) -> list[_LinePlace]:
    """Return lines that took part in a decision, each with its page, or with its text if no page shows the file.

    Only admins get the text: a line of ``covalt.yaml`` can name roles and tools that others do not see.
    """
    sources = Sources(project().root, blotted)
    places = []
    for line in lines:
        folder, toolset_id, path = (*line.path.split("/", 2), "", "")[:3]
        page = text = ""
        if folder == "toolsets" and path and toolset_id not in {"state", "locks"}:
            page = toolset_files.source_of(toolset_id)(line) or ""
        elif is_admin and (excerpt := sources.excerpt(line, _WIDEST)):
            text = excerpt.text.strip()
        places.append(_LinePlace(line, page, text))
    return places


def _arguments(text: str) -> JsonObject | None:
    if not text.strip():
        return None
    args = canonical_json.loads(text)
    if not isinstance(args, dict):
        raise InvalidRequestError("the arguments must be a JSON object")
    return args


def _page(
    shown: str,
    tool_id: str = "",
    role: str | None = None,
    text: str = "",
    *,
    explained: PolicyExplained | None = None,
    error: CovaltError | None = None,
) -> str:
    """Return the page; ``shown`` is the id of the tool whose roles are listed, or empty."""
    config, principal = project().config, project().principal
    is_admin = has_admin_role(config, principal)
    return render_template(
        "policy.html",
        tool=ask(tools.get_tool, tool_id=shown) if shown else None,
        listing=ask(policy.list_tool_roles, tool_id=shown) if shown and is_admin else None,
        roles=tuple(config.roles) if is_admin else (),
        shows_config=context().is_admin,
        own=principal.role or config.default_role,
        explained=explained,
        places=_places(explained.lines, is_admin=is_admin) if explained else (),
        error=error,
        form={"tool": tool_id or shown, "role": role or "", "args": text},
    )
