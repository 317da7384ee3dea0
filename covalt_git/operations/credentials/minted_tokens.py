"""Operations on the user's own issuer of access tokens: its public key, and tokens for one tool."""

from datetime import timedelta

from pydantic import Field

from covalt_git.access import security
from covalt_git.errors import CovaltError
from covalt_git.issuers.local_key import LocalKey
from covalt_git.json_values import JsonObject
from covalt_git.models.project_config import Issuer
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Result, ToolRequest, operation

SUBJECT = "local"


class MintToken(ToolRequest):
    """Request for a token that fits one tool, and with ``args`` one call of it."""

    args: JsonObject = Field(default_factory=dict)
    role: str | None = Field(None, description="The role of its holder; null: that of the issuer.")
    lasts: timedelta = Field(
        timedelta(minutes=5), gt=timedelta(), le=timedelta(days=1), description="Its lifetime."
    )


class MintedToken(Result):
    """A new token, which is not stored."""

    token: str = Field(repr=False)


class KeySet(Result):
    """The public key of the user's own issuer."""

    issuer: str
    jwks: JsonObject


@operation(local=True)
def get_own_issuer(_: Context, __: EmptyRequest) -> KeySet:
    """Return the user's own issuer and its public key; the key is created on first use."""
    key = LocalKey.of_user()
    return KeySet(issuer=key.issuer, jwks=key.jwks)


@operation(local=True, errors=(404,))
def mint_token(context: Context, request: MintToken) -> MintedToken:
    """Create a token that fits a tool, signed with the user's own key.

    It has what the ``security`` block of the tool requires, and no more.  For a tool that requires an execution, it is for one
    call with these arguments.
    """
    entry = context.catalog.find_called(request.tool_id)
    key = LocalKey.of_user()
    issuer = next(
        (listed for listed in context.project.config.issuers if listed.issuer == key.issuer), None
    )
    if issuer is None:
        raise CovaltError(
            "your own issuer is not listed in covalt.yaml, or is not trusted",
            hint="covalt-git token jwks > keys/own.json\nadd this to issuers in covalt.yaml:"
            f" {{issuer: '{key.issuer}', audience: covalt-git, jwks_file: keys/own.json, role: ROLE}}",
            code="issuer_not_listed",
        )
    claims: JsonObject = {"sub": SUBJECT, **_role_claim(issuer, request.role)}
    audience = dict.fromkeys([issuer.audience])
    for tool in entry.tools:
        block = tool.security
        if block is None:
            continue
        audience[security.audience_of(tool)] = None
        if block.required_capabilities:
            claims["caps"] = sorted({*claims.get("caps", ()), *block.required_capabilities})
        if block.max_blast_radius is not None:
            claims.setdefault("blast_radius", block.max_blast_radius)
        if block.requires_execution:
            if not block.allowed_operations or not block.allowed_targets:
                raise CovaltError(
                    f"{tool.tool_id} allows no operation or no target, so no token fits it",
                    hint="add allowed_operations and allowed_targets to its security block",
                    code="exec_binding_invalid",
                )
            claims.setdefault("exec_act", block.allowed_operations[0])
            claims.setdefault("target", block.allowed_targets[0])
            claims["inp_hash"] = security.input_hash(request.args)
    claims["aud"] = list(audience)
    return MintedToken(token=key.mint(claims, request.lasts))


def _role_claim(issuer: Issuer, role: str | None) -> JsonObject:
    """Return the claim that gives the holder a role; empty if the issuer gives it to all."""
    if issuer.roles is None:
        if role in {None, issuer.role}:
            return {}
        values: list[str] = []
    else:
        values = [value for value, mapped in issuer.roles.map.items() if role in {None, mapped}]
    if not values or issuer.roles is None:
        raise CovaltError(
            f"your own issuer gives its tokens no role {role!r}",
            hint=f"its roles are {', '.join(dict.fromkeys(issuer.granted_roles))}",
            code="no_mapped_role",
        )
    return {issuer.roles.claim: values[0]}
