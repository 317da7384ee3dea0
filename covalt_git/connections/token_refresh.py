"""Stored access token of a server: sent with each request, and refreshed before it expires.

A refresh needs no user and no discovery: it uses only the token endpoint of the login (OAuth 2.1, "Refresh
Token Grant"; MCP specification, "Authorization").
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from covalt_git.connections.token_store import SignInFile
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, origin_of
from covalt_git.http_client.oauth_requests import MOST_BYTES
from covalt_git.http_client.transport import mcp_http_client, why_unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from covalt_git.access.grants import Granted
    from covalt_git.connections.definition import Name
    from covalt_git.connections.token_store import StoredLogin

_REFRESH_S = 30.0
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN = 200, 400, 401, 403
_MOST_CHALLENGE = 2048
_LONGEST_S = 10 * 365 * 86_400
"""Ten years: a date beyond the calendar cannot be shown."""


class RefreshError(CovaltError):
    """A refresh that failed."""

    code = "sign_in_needed"


class StoredTokens:
    """Stored token for requests to one server; implements ``Tokens`` of :mod:`.http_client.oauth_requests`."""

    def __init__(
        self,
        name: Name,
        url: str,
        reach: Reach | None,
        token_in: Callable[[StoredLogin, bytes], OAuthToken] | None = None,
        may: Granted | None = None,
    ) -> None:
        self._name, self._url, self._reach, self._may = name, url, reach, may
        self._token_in = token_in or _token_of_server
        self.why = ""
        """Why the token does not work."""
        self.needs_token = False
        """Whether the server requires a token, or one with more scopes."""
        self._refreshing: set[asyncio.Task[str]] = set()

    @property
    def _file(self) -> SignInFile:
        # Not kept: the project gets its id with the first login at the latest, while a connection may be waiting.
        return SignInFile.of(self._name, self._url)

    async def current(self) -> str:
        """Return the token, refreshed if it expires soon, or "" without a login.

        Raises:
            SignInFileError: if the stored login cannot be used.
        """
        stored = self._file.read()
        if stored is None:
            return ""
        if stored.refresh_token and stored.expires_soon:
            # Servers have clocks of their own: the old token may still be valid if no new one can be got.
            return await self.refresh(stored.access_token) or stored.access_token
        return stored.access_token

    async def refresh(self, refused: str) -> str:
        """Refresh a token that was refused, and return the new one; "" if it fails, with the reason in ``why``.

        A refresh continues when its caller is cancelled: the server may have revoked the old token already.
        """
        # See test_a_refreshed_token_is_stored_although_its_caller_has_left.
        refreshing = asyncio.create_task(self._refresh_locked(refused))
        self._refreshing.add(refreshing)
        refreshing.add_done_callback(self._refreshing.discard)
        return await asyncio.shield(refreshing)

    async def _refresh_locked(self, refused: str) -> str:
        # A refresh token often works once, so two processes must not use the same one
        # (test_a_token_is_refreshed_before_it_expires_once_for_all_its_users).
        async with self._file.lock():
            stored = self._file.read()
            if stored is None:
                return ""
            if stored.access_token != refused:
                return stored.access_token  # another process has refreshed it
            if stored.refresh_token is None:
                self.why = self.why or "the token has expired"
                return ""
            try:
                async with asyncio.timeout(_REFRESH_S):
                    refreshed = await self._request_token(stored, stored.refresh_token)
            except CovaltError as error:
                self.why = error.message
                return ""
            except Exception as error:  # noqa: BLE001 - network errors have many types
                self.why = why_unreachable(error) or "it did not answer in time"
                return ""
            self._file.write(refreshed)
            self.why = ""
            return refreshed.access_token

    async def report_insufficient(self, status: int, challenge: str) -> None:
        """Record that the server requires another token; after a 403, the next login requests its scopes."""
        self.needs_token = True
        # The server chooses the length, and the file stores it.
        if status != _FORBIDDEN or len(challenge) > _MOST_CHALLENGE:
            return
        self.why = "the token has insufficient scopes"
        async with self._file.lock():
            stored = self._file.read()
            if stored is not None:
                self._file.write(stored.model_copy(update={"challenge": challenge}))

    def reset(self) -> None:
        """Clear the failures of earlier requests."""
        self.needs_token, self.why = False, ""

    async def _request_token(self, stored: StoredLogin, refresh_token: str) -> StoredLogin:
        """Return the login with a new token; delete the refresh token if the server rejects it."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        if stored.resource is not None:
            form["resource"] = stored.resource  # RFC 8707
        async with post_form(
            stored, stored.token_endpoint, form, self._reach, self._may
        ) as response:
            body = await answer_of(stored, response)
            status = response.status_code
        if status in {_BAD_REQUEST, _UNAUTHORIZED}:
            self.why = f"{stored.issuer} rejected the refresh token"
            # Otherwise each later call would send the same token again, and wait for the same error.
            self._file.write(stored.model_copy(update={"refresh_token": None}))
        if status != _OK:
            raise RefreshError(self.why or f"{stored.issuer} answered {status}")
        return with_token(stored, self._token_in(stored, body))


def _token_of_server(stored: StoredLogin, body: bytes) -> OAuthToken:
    """Return the token of an answer.

    Raises:
        RefreshError: if it has none.
    """
    try:
        return OAuthToken.model_validate_json(body)
    except ValidationError:
        raise RefreshError(f"{stored.issuer} answered without a valid token") from None


async def answer_of(stored: StoredLogin, response: Any) -> bytes:
    """Return the body of an answer of the authorization server.

    Raises:
        RefreshError: if it is too large.
    """
    body = bytearray()
    # Raw, and requested without compression: a small compressed body could unpack to gigabytes.
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MOST_BYTES:
            raise RefreshError(f"{stored.issuer} answered with more than {MOST_BYTES >> 10} KiB")
    return bytes(body)


def with_token(stored: StoredLogin, token: OAuthToken) -> StoredLogin:
    """Return a login with a new token; a missing refresh token or scope keeps its old value.

    Raises:
        RefreshError: if the token has characters that a header cannot have.
    """
    # A line break in a token would add headers to each request.
    if not token.access_token or not all("!" <= letter <= "~" for letter in token.access_token):
        raise RefreshError(f"{stored.issuer} answered without a valid token")
    lifetime = token.expires_in
    return stored.model_copy(
        update={
            "access_token": token.access_token,
            "refresh_token": token.refresh_token or stored.refresh_token,
            "scope": token.scope or stored.scope,
            "expires_at": None
            if lifetime is None
            else time.time() + min(max(lifetime, 0), _LONGEST_S),
        }
    )


def secret_of(name: str) -> str:
    """Return the client secret of a pre-registered client.

    Raises:
        RefreshError: if it is not set.
    """
    value = SecretStore.of_this_machine().value(name)
    if value is None:
        raise RefreshError(f"{name!r} is not set", hint=f"export {name}=...")
    return value


@asynccontextmanager
async def post_form(
    stored: StoredLogin,
    url: str,
    form: dict[str, str],
    granted: Reach | None,
    may: Granted | None = None,
) -> AsyncIterator[Any]:
    """Send a form to the authorization server, authenticated as the client of a login; yield the response.

    The client of a toolset's sign-in needs ``may``, the toolset's grants: the toolset chose the secret and the URL.

    Raises:
        RefreshError: if the URL's origin was not part of the login, or the client's secret is not set.
        GrantNeededError: if the client's secret is not granted for the URL.
    """
    if may is not None and stored.choice.secret_name is not None:
        # Here, where it is attached: the grant may have been revoked since the sign-in.
        may.check_secrets(origin_of(url)[0], [stored.choice.secret_name])
    secret = stored.client_secret
    if stored.choice.secret_name is not None:
        secret = secret_of(stored.choice.secret_name)
    unused = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
    context = OAuthContext(stored.url, unused, None, None, None)  # type: ignore[arg-type] # it stores nothing
    context.client_info = OAuthClientInformationFull(
        client_id=stored.client_id,
        client_secret=secret,
        token_endpoint_auth_method=stored.auth_method,
    )
    plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
    form, headers = context.prepare_token_auth({**form, "client_id": stored.client_id}, plain)
    async with (
        mcp_http_client(_reach_of(stored, url, granted), headers) as http,
        http.stream("POST", url, data=form) as response,
    ):
        yield response


def _reach_of(stored: StoredLogin, url: str, granted: Reach | None) -> Reach:
    """Return the reach of a request to the authorization server: its origin, in granted networks too."""
    origin, _ = origin_of(url)
    # The file could be of an older login; only what the user saw then gets the refresh token
    # (test_a_refresh_token_is_sent_to_the_servers_of_its_login_alone).
    if str(origin) not in stored.origins:
        raise RefreshError(f"{origin} was not part of the login")
    # A granted private network may be where the authorization server is; granted hosts have no part in a login.
    networks = [rule for rule in (granted or Reach()).rules if rule.network is not None]
    return Reach((HostRule.parse(str(origin)), *networks))
