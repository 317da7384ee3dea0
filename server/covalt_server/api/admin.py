"""What is for a role only from which nothing is hidden: taking toolsets in and out, and granting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access import sees_everything
from covalt_git.errors import CovaltError
from covalt_server import request_context

if TYPE_CHECKING:
    from covalt_git.project import Project


class ForbiddenError(CovaltError):
    """The role may see that there is such a thing, and may not do it."""

    code = "forbidden"
    http_status = 403


def is_admin() -> bool:
    """Tell whether nothing could be hidden from the request's principal.

    Raises:
        UnknownRoleError: when its role is not defined.
    """
    project = request_context.project()
    return sees_everything(project.config, project.principal)


def as_admin(what: str) -> Project:
    """Return the project, to do what is for such a role only, such as ``"grant anything"``.

    Raises:
        ForbiddenError: when the request's principal may not.
    """
    if not is_admin():
        raise ForbiddenError(f"your role may not {what}", hint="a role with admin: true may")
    return request_context.project()
