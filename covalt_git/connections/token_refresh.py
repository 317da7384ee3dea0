"""The token of one server, as a sign-in left it: sent with each request, renewed when it is time.

Nothing here bothers a person or finds out where to go: a new token comes from where the last one came
from (OAuth 2.1, "Refresh Token Grant"; MCP specification, "Authorization"), and from nowhere else.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from covalt_git.connections.token_store import SignInFile
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, origin_of
from covalt_git.http_client.oauth_requests import MOST_BYTES
from covalt_git.http_client.transport import agent_client, why_unreachable

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.token_store import StoredLogin

EARLY_S = 30.0
"""How long before its end a token is renewed, in seconds."""

_RENEW_S = 30.0
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN = 200, 400, 401, 403
_MOST_CHALLENGE = 2048


class RenewalError(CovaltError):
    """A token could not be had in place of another."""

    code = "sign_in_needed"


class StoredTokens:
    """Gives requests to one server the token that is kept for it (``Tokens`` of ``auth_requests``)."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._file = SignInFile.of(definition.name, definition.url)
        self.why = ""
        """Why the token is of no use."""
        self.insufficient_now = False
        """Whether the server wanted a token, or another one."""
        self._renewing: set[asyncio.Task[str]] = set()

    async def current(self) -> str:
        """Return the token, renewed where it is about to end, or nothing where nobody signed in.

        Raises:
            SignInFileError: when what is kept cannot be used.
        """
        kept = self._file.read()
        if kept is None:
            return ""
        ends = kept.expires_at
        if kept.refresh_token and ends is not None and time.time() > ends - EARLY_S:
            return await self.renewed(kept.access_token) or kept.access_token
        return kept.access_token

    async def renewed(self, refused: str) -> str:
        """Return a token in place of one that was refused, or nothing; ``why`` says what was wrong.

        It is brought to its end also where nobody waits for it any more: the old one may be worth nothing.
        """
        renewing = asyncio.create_task(self._renewed(refused))
        self._renewing.add(renewing)
        renewing.add_done_callback(self._renewing.discard)
        return await asyncio.shield(renewing)

    async def _renewed(self, refused: str) -> str:
        async with self._file.held():
            kept = self._file.read()
            if kept is None:
                return ""
            if kept.access_token != refused:
                return kept.access_token  # somebody else was here before
            if kept.refresh_token is None:
                self.why = self.why or "the token has ended"
                return ""
            try:
                async with asyncio.timeout(_RENEW_S):
                    now = await self._exchanged(kept, kept.refresh_token)
            except CovaltError as error:
                self.why = error.message
                return ""
            except Exception as error:  # noqa: BLE001 - the network's are of many kinds
                self.why = why_unreachable(error) or "it did not answer in time"
                return ""
            self._file.write(now)
            self.why = ""
            return now.access_token

    async def insufficient(self, status: int, challenge: str) -> None:
        """Take note that no token is enough; where one allows too little, the next sign-in asks for more."""
        self.insufficient_now = True
        if status != _FORBIDDEN or len(challenge) > _MOST_CHALLENGE:
            return
        self.why = "the token does not allow enough"
        async with self._file.held():
            kept = self._file.read()
            if kept is not None:
                self._file.write(kept.model_copy(update={"challenge": challenge}))

    def begin(self) -> None:
        """Forget what was wrong before."""
        self.insufficient_now, self.why = False, ""

    async def _exchanged(self, kept: StoredLogin, refresh_token: str) -> StoredLogin:
        """Return what is to be kept: with a new token, or without the means of having one."""
        context = client_context(kept)
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "client_id": kept.client_id,
        }
        if kept.resource is not None:
            form["resource"] = kept.resource  # RFC 8707
        plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
        form, headers = context.prepare_token_auth(form, plain)
        reach = reach_of(kept, kept.token_endpoint, self._definition.reach)
        async with (
            agent_client(reach, headers) as http,
            http.stream("POST", kept.token_endpoint, data=form) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise RenewalError(f"{kept.issuer} answered with too much")
            status = response.status_code
        if status in {_BAD_REQUEST, _UNAUTHORIZED}:
            self.why = f"{kept.issuer} gives no more tokens for that sign-in"
            self._file.write(kept.model_copy(update={"refresh_token": None}))
        if status != _OK:
            raise RenewalError(self.why or f"{kept.issuer} answered {status}")
        try:
            token = OAuthToken.model_validate_json(bytes(body))
        except ValidationError:
            raise RenewalError(f"{kept.issuer} answered with what is no token") from None
        return with_token(kept, token)


def with_token(kept: StoredLogin, token: OAuthToken) -> StoredLogin:
    """Return what is kept with another token; what is not said of it stays as it was.

    Raises:
        RenewalError: when it cannot be sent.
    """
    if not token.access_token or not all("!" <= one <= "~" for one in token.access_token):
        raise RenewalError(f"{kept.issuer} answered with what is no token")
    lasts = token.expires_in
    return kept.model_copy(
        update={
            "access_token": token.access_token,
            "refresh_token": token.refresh_token or kept.refresh_token,
            "scope": token.scope or kept.scope,
            "expires_at": None if lasts is None else time.time() + max(lasts, 0),
        }
    )


def secret_of(name: str) -> str:
    """Return the password of a client that was registered beforehand.

    Raises:
        RenewalError: when it is not set.
    """
    value = SecretStore.of_this_machine().value(name)
    if value is None:
        raise RenewalError(f"{name!r} is not set", hint=f"export {name}=...")
    return value


def client_context(kept: StoredLogin) -> OAuthContext:
    """Return what the SDK wants to know to have a client prove who it is."""
    secret = kept.client_secret
    if kept.choice.secret_name is not None:
        secret = secret_of(kept.choice.secret_name)
    nowhere = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
    context = OAuthContext(kept.url, nowhere, None, None, None)  # type: ignore[arg-type] # it stores nothing
    context.client_info = OAuthClientInformationFull(
        client_id=kept.client_id, client_secret=secret, token_endpoint_auth_method=kept.auth_method
    )
    return context


def reach_of(kept: StoredLogin, url: str, granted: Reach | None) -> Reach:
    """Return the reach of a request to whoever gave a token, in granted networks as well.

    Raises:
        RenewalError: when nobody went there to sign in.
    """
    origin, _ = origin_of(url)
    if str(origin) not in kept.origins:
        raise RenewalError(f"{origin} was not part of signing in")
    networks = [rule for rule in (granted or Reach()).rules if rule.network is not None]
    return Reach((HostRule.parse(str(origin)), *networks))
