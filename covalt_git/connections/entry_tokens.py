"""Tokens of sign-ins for entries of a toolset's ``auth``: refreshed before they expire, for calls of its tools.

A sign-in belongs to the user of this system, the project, the toolset and the digest of the entry, so that an entry
that changed needs another one.  All principals of a server use it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.access.grants import Granted
from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import (
    SignInFile,
    SignInFileError,
    SignInNeededError,
    stored_logins,
)
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from covalt_git.templating.references import AUTH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mcp.shared.auth import OAuthToken

    from covalt_git.connections.token_store import StoredLogin
    from covalt_git.hosts import WebOrigin
    from covalt_git.models.auth_entries import Auth


class HostNotOfAuthError(CovaltError):
    """A value of an entry of ``auth`` for a host that the entry does not name."""

    code = "host_not_of_auth"
    http_status = 403


class ToolsetSignIns:
    """The entries of ``auth`` of one toolset with the tokens of their sign-ins, for one call."""

    def __init__(
        self, root: Path, toolset_id: str, entries: Iterable[Auth], may: Granted | None = None
    ) -> None:
        self._root, self._toolset_id, self._may = root, toolset_id, may
        self.entries = {entry.reference_name: entry for entry in entries if entry.is_sign_in}
        self._why = ""

    def file(self, name: str) -> SignInFile:
        """Return the file of a sign-in."""
        entry = self.entries[name]
        return SignInFile.of(Name(self._root, self._toolset_id, name), entry.digest)

    def stored_values(self) -> list[str]:
        """Return all tokens that are stored for the toolset, to mask: a tool may have kept one of an earlier call.

        Those for earlier forms of its entries too: a pull ends their use, and not the tokens.
        """
        values: list[str] = []
        if self.entries:
            with suppress(SignInFileError):  # of which no token is sent either
                for _, stored in stored_logins(self._root):
                    is_of_entry = stored.server_id.startswith(AUTH)
                    if stored.toolset_id == self._toolset_id and is_of_entry:
                        values += stored.secrets
        return values

    def token(self, name: str) -> str | None:
        """Return the token for the entry ``auth:ID``, refreshed if it expires soon; None without a sign-in.

        Raises:
            SignInFileError: if the stored sign-in cannot be used.
        """
        stored = self.file(name).read()
        if stored is None:
            return None
        if not stored.expires_soon:
            return stored.access_token
        token = self._refreshed(name, None)
        if token == stored.access_token and stored.has_expired:
            self._why = self._why or "its token has expired"
            return None
        return token or None

    def renew(self, name: str, refused: str) -> str | None:
        """Refresh a token that a server refused; return the new one, or None."""
        return self._refreshed(name, refused) or None

    def needed(self, name: str) -> SignInNeededError:
        """Return the error of a call that needs a sign-in."""
        why = f": {self._why or self._why_not_stored(name)}".removesuffix(": ")
        where = f"{self._toolset_id}/{self.entries[name].id}"
        return SignInNeededError(
            f"the call needs a sign-in to {where}{why}", hint=f"covalt-git auth login {where}"
        )

    def _why_not_stored(self, name: str) -> str:
        """Return why an earlier sign-in to an entry does not count; else ""."""
        with suppress(SignInFileError):
            if self.file(name).read() is None:
                for _, stored in stored_logins(self._root):
                    if (stored.toolset_id, stored.server_id) == (self._toolset_id, name):
                        return "its entry in auth has changed since the last one"
        return ""

    def check_hosts(self, names: Iterable[str], origin: WebOrigin) -> None:
        """Check that an origin may get the values of these entries.

        Raises:
            HostNotOfAuthError: for an origin that an entry does not name.
        """
        for name in names:
            entry = self.entries.get(name)
            if entry is not None and not Reach.of(*entry.effective_hosts).covers(origin):
                raise HostNotOfAuthError(
                    f"the entry {entry.id!r} of auth may not be sent to {origin}",
                    hint=f"add the host to its hosts in toolset.yaml: {origin.shown_host}",
                )

    def _refreshed(self, name: str, refused: str | None) -> str:
        # Imported here, because it loads the SDK, which few calls need.
        from covalt_git.connections.token_refresh import StoredTokens  # noqa: PLC0415

        entry = self.entries[name]

        async def refresh() -> tuple[str, str]:
            tokens = StoredTokens(
                Name(self._root, self._toolset_id, name),
                entry.digest,
                self._may.reach if self._may else None,
                token_in,
                self._may or Granted(self._toolset_id),
            )
            token = await (tokens.current() if refused is None else tokens.refresh(refused))
            return token, tokens.why

        token, self._why = asyncio.run(refresh())
        return token


def token_in(stored: StoredLogin, body: bytes) -> OAuthToken:
    """Return the token of an answer of a provider, which oauthlib reads.

    Raises:
        RefreshError: if it has none.
        OAuth2Error: if it is an error of the provider.
    """
    from mcp.shared.auth import OAuthToken  # noqa: PLC0415 - it loads the SDK
    from oauthlib.oauth2 import MissingTokenError, WebApplicationClient  # noqa: PLC0415 - few calls need it

    from covalt_git.connections.token_refresh import RefreshError  # noqa: PLC0415 - it loads the SDK

    try:
        client = WebApplicationClient(stored.client_id)
        fields = client.parse_request_body_response(body.decode("utf-8", "replace"))
        lifetime = fields.get("expires_in")
        scope = fields.get("scope")
        # It is printed, and the provider wrote it.
        scope = " ".join(scope) if isinstance(scope, list) else scope
        scope = "".join(letter for letter in scope or "" if " " <= letter <= "~") or None
        return OAuthToken(
            access_token=fields["access_token"],
            refresh_token=fields.get("refresh_token"),
            scope=scope,
            expires_in=None if lifetime is None else int(lifetime),
        )
    except (MissingTokenError, ValueError, TypeError, AttributeError):
        raise RefreshError(f"{stored.issuer} answered without a valid token") from None
