"""Operation on roles: list the roles of ``covalt.yaml``."""

from typing import Literal

from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Result, operation


class RoleRow(Result):
    """A role, with the patterns of the tools that it may call and approve."""

    id: str
    name: str
    admin: bool
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    approve: tuple[str, ...]
    register_tools: bool
    chats: Literal["manage"] | None
    default: bool
    acting: bool


class RoleList(Result):
    """The roles, in the order of covalt.yaml."""

    roles: tuple[RoleRow, ...]


@operation(local=True)
def list_roles(context: Context, _: EmptyRequest) -> RoleList:
    """List the roles of covalt.yaml, the default role, and the role of the caller."""
    config = context.project.config
    acting = context.project.principal.role or config.default_role
    return RoleList(
        roles=tuple(
            RoleRow.of(role, id=name, default=name == config.default_role, acting=name == acting)
            for name, role in config.roles.items()
        )
    )
