"""Operations on the access tokens of agents, which are valid at ``/mcp`` of the server only."""

import secrets
from datetime import timedelta

from pydantic import Field

from covalt_git.access import UnknownRoleError
from covalt_git.credentials.agent_tokens import NOTES, AgentTokens
from covalt_git.errors import CovaltError
from covalt_git.names import suggest_id
from covalt_git.operations.context import Context
from covalt_git.operations.grants import Reason
from covalt_git.operations.registry import EmptyRequest, Request, Result, operation
from covalt_git.project import Project
from covalt_git.system.node_folder import commit_of
from covalt_git.workspaces.server_notes import notes_of

_MOST_OF_ROLE = 50
_WHAT = "manage access tokens"
_DECIDING = "tokens of agents that may decide are created"


class CreateToken(Request):
    """Request for a new token: the role of the agent, and the chats that it may use."""

    role: str
    name: str | None = Field(
        None, description="The agent's name in records and approvals; null: derived from the role."
    )
    chat_id: str | None = Field(
        None, description="Access to this chat only, instead of the chats that the agent creates."
    )
    lasts: timedelta | None = Field(
        None, gt=timedelta(), le=timedelta(days=3650), description="Lifetime; null: unlimited."
    )

    reason: Reason = None


class RevokeToken(Request):
    """Request: the token to revoke."""

    token: str = Field(description="Its name or id.")


class TokenRow(Result):
    """The facts of a token, without its value."""

    id: str
    name: str
    role: str
    chat: str | None = Field(description="The only accessible chat; null: the chats of its agent.")
    created_at: str
    expires_at: str | None
    expired: bool


class TokenCreated(TokenRow):
    """A new token; only its digest is stored, so its value cannot be read again."""

    token: str = Field(repr=False)


class TokenList(Result):
    """The tokens of a project."""

    tokens: tuple[TokenRow, ...]


def _place(project: Project) -> str:
    """Return where the roles of a project are defined."""
    if commit_of(project.root) is None:
        return "covalt.yaml"
    return "covalt.yaml of the project's repository, in a clone, and push it"


def _tokens(context: Context) -> AgentTokens:
    project = context.project
    return AgentTokens(project.root, lambda: notes_of(project.config.workspace, NOTES))


def _decision(context: Context, request: CreateToken) -> str:
    """Return what a user decides by a token whose agent may decide about calls or permissions itself."""
    role = context.project.config.roles.get(request.role)
    return _DECIDING if role is not None and (role.approve or role.admin) else ""


@operation(changes=True, admin=_WHAT, local=True, decides=_decision)
def create_token(context: Context, request: CreateToken) -> TokenCreated:
    """Create a token for one agent.

    A new token with the name of a revoked one is for the same agent, and gives access to the same chats.
    """
    project, role = context.project, request.role
    if not project.config.roles:
        raise CovaltError(
            "covalt.yaml defines no role for agents",
            hint=f"add this to {_place(project)}, with the tools that the agent may call; owner is your role:"
            ' {roles: {owner: {admin: true}, agent: {allow: ["demo.*"]}}, default_role: owner}',
        )
    if role not in project.config.roles:
        raise UnknownRoleError(role, project.config.roles)
    # Bound to the chat, not to its id: after a deletion, the id is available for another chat.
    chat = None if request.chat_id is None else project.chats.one(request.chat_id)
    # A random suffix, because a token with an earlier name would open that agent's chats.
    name = request.name or f"{suggest_id(role[:_MOST_OF_ROLE]) or 'agent'}-{secrets.token_hex(3)}"
    stored, text = _tokens(context).new(
        name, role, chat=chat, lasts=request.lasts, reason=request.reason
    )
    return TokenCreated.of(stored, expired=False, token=text)


@operation(admin=_WHAT, local=True)
def list_tokens(context: Context, _: EmptyRequest) -> TokenList:
    """List the tokens, with their roles and chats."""
    tokens = _tokens(context).all()
    return TokenList(tokens=tuple(TokenRow.of(token, expired=token.is_expired) for token in tokens))


@operation(changes=True, admin=_WHAT, local=True)
def revoke_token(context: Context, request: RevokeToken) -> TokenRow:
    """Revoke a token, and close its open connections."""
    gone = _tokens(context).revoke(request.token)
    return TokenRow.of(gone, expired=gone.is_expired)
