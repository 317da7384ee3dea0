"""Access token of an issuer, after its signature and its registered claims have been checked."""

from typing import NamedTuple


class AccessToken(NamedTuple):
    """The facts of a valid token that later checks need; never the token itself.

    Attributes:
        digest: SHA-256 of the token, to which approvals are bound.
        expires: ``exp``, in seconds since 1970.
        role: The role of ``covalt.yaml`` that its issuer's entry maps it to.
        capabilities: ``caps``; None if the token has no such claim.
        approved: Whether the claims were checked when the approval of the call was requested.
    """

    issuer: str
    subject: str
    role: str
    digest: str
    expires: int
    jti: str | None = None
    audience: tuple[str, ...] = ()
    capabilities: tuple[str, ...] | None = None
    blast_radius: str | None = None
    exec_act: str | None = None
    target: str | None = None
    inp_hash: str | None = None
    approved: bool = False

    @property
    def principal_id(self) -> str:
        """The id of its holder, as the principal of calls and the owner of chats."""
        return f"{self.issuer}|{self.subject}"

    @property
    def scope(self) -> tuple[object, ...]:
        """The claims on which it depends what its holder can call, whatever the arguments are."""
        return self.audience, self.capabilities, self.blast_radius

    def __repr__(self) -> str:
        """Return the digest alone, because logs must not have claims."""
        return f"AccessToken({self.digest})"
