"""OAuth login to an MCP server, in the user's browser (MCP specification, "Authorization").

The SDK implements the protocol: protected-resource metadata, PKCE, resource indicators, client registration,
and the checks of issuers.  This module limits its requests.  The server's metadata names other hosts, which
are not granted: they are reported to the user, must be public and use https, and their documents are
checked before use.  A server on this machine may have its authorization server on this machine.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp.client.auth import (
    AuthorizationCodeResult,
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import AnyUrl

from covalt_git import __version__
from covalt_git.connections.errors import first_cause
from covalt_git.connections.login_reach import (
    LoginCallbacks,
    LoginReach,
    SignInFailedError,
    plain_words,
)
from covalt_git.connections.oauth_callback import Callback, state_of
from covalt_git.connections.token_refresh import secret_of, with_token
from covalt_git.connections.token_store import ClientChoice, SignInFile, StoredLogin
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError, failure_text
from covalt_git.hosts import Reach, is_loopback, origin_of
from covalt_git.http_client.oauth_requests import CheckedAuth
from covalt_git.http_client.transport import mcp_http_client, why_unreachable
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from covalt_git.connections.definition import Definition

WAIT_S = 300.0
"""Time limit of a login in seconds."""

_UNAUTHORIZED = 401
_URL_FIELDS = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
)


def sign_in(
    definition: Definition,
    callbacks: LoginCallbacks,
    choice: ClientChoice | None = None,
    *,
    wait_s: float = WAIT_S,
) -> StoredLogin:
    """Sign the user in to a server, and store the login; without ``choice``, with the client of the last one.

    Raises:
        SignInFailedError: if the login fails.
        HttpError: if it requires a request to a host that is not allowed.
        CovaltError: if the stored login cannot be used, or a secret is not set.
    """
    return asyncio.run(_sign_in(definition, callbacks, choice, wait_s))


async def _sign_in(
    definition: Definition, callbacks: LoginCallbacks, choice: ClientChoice | None, wait_s: float
) -> StoredLogin:
    # In a folder that the user trusts, the project may have no id yet, which the login is stored for.
    Consents.of(definition.name.root).identify()
    file = SignInFile.of(definition.name, definition.url)
    login = _Login(definition, callbacks, choice, file.read())
    try:
        async with asyncio.timeout(wait_s):
            stored = await login.run()
    except Exception as error:  # noqa: BLE001 - errors of the SDK and the network have many types
        raise login.failure(error, wait_s) from None
    # Not during the login, which waits minutes for a user: refreshes of other calls need the lock.
    async with file.lock():
        file.write(stored)
    return stored


@dataclass
class _Login:
    """One login, and the SDK's token storage during it."""

    definition: Definition
    callbacks: LoginCallbacks
    choice: ClientChoice | None
    previous: StoredLogin | None
    token: OAuthToken | None = None
    _origins: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._origin, _ = origin_of(self.definition.url)
        self._reach = LoginReach(self.definition.reach or Reach(), is_loopback(self._origin.host))
        default = self.previous.choice if self.previous else ClientChoice()
        self._client = self.choice or default
        self._secret = self._client.secret_name and secret_of(self._client.secret_name)

    async def run(self) -> StoredLogin:
        """Run the login, and return the login to store."""
        # The new token is sent there, so it needs https as the endpoints do
        # (test_a_token_is_not_requested_without_https).
        self._reach.check(self.definition.url, "the server's URL")
        # The server's refusal of the last token, if that lacked scopes: the login begins with it, and asks for them too.
        challenge = self.previous.challenge if self.previous else None
        async with Callback() as callback:
            provider = self._provider(callback)
            auth = CheckedAuth(
                provider,
                check_request=self._check_request,
                check_document=self._check_metadata,
                challenge=challenge,
            )
            headers = self.definition.headers
            async with (
                mcp_http_client(self._reach, headers, auth) as http,
                _probe(http, self.definition) as status,
            ):
                # A token that the server refuses is not stored: each later call would fail, without a reason.
                if status == _UNAUTHORIZED:
                    raise SignInFailedError("the server rejects the new token")
        return self._stored_login(provider)

    def failure(self, error: Exception, wait_s: float) -> CovaltError:
        """Return the error of a failed login, with its reason and without secrets."""
        cause, hint = first_cause(error), ""
        if isinstance(cause, CovaltError) and not isinstance(cause, SignInFailedError):
            return cause
        if isinstance(cause, TimeoutError):
            why = f"the user did not complete it within {wait_s:g} s"
        elif isinstance(cause, SignInFailedError):
            why, hint = cause.message, cause.hint
        elif isinstance(cause, OAuthFlowError | OAuthRegistrationError | OAuthTokenError):
            # The words are the server's, and reach a terminal.
            why = plain_words(str(cause))
        else:
            why = why_unreachable(cause) or plain_words(failure_text(cause))
        secrets = [*self.definition.secrets, self._secret or ""]
        masked = Mask(secret for secret in secrets if secret).text(why)
        name = self.definition.name
        if isinstance(cause, OAuthRegistrationError):
            hint = f"register a client yourself, then: covalt-git auth login {name} --client-id ID"
        return SignInFailedError(f"the login to {name} failed: {masked}", hint=hint)

    def _provider(self, callback: Callback) -> OAuthClientProvider:
        async def redirect(url: str) -> None:
            self._check_issuer(provider)
            # The URL is opened by the browser, outside of the reach of this process.
            self._reach.check(url, "the authorization URL")
            # Here, because the SDK has read the metadata, and requests the token after this callback.
            self._choose_auth_method(provider)
            # Before the user knows the URL, so that a fast browser is not refused.
            callback.expect(state_of(url))
            self.callbacks.on_url(url)
            # A browser in a terminal returns only when it is closed; the redirect has to be served meanwhile.
            threading.Thread(target=self.callbacks.open_browser, args=(url,), daemon=True).start()

        async def receive_code() -> AuthorizationCodeResult:
            fields = await callback.redirect()
            if "error" in fields:
                why = f"{fields['error']} {fields.get('error_description', '')}".strip()
                raise SignInFailedError(f"the authorization server refused it: {plain_words(why)}")
            # With the issuer: the SDK then notices a code of another server (RFC 9207;
            # test_a_callback_of_another_issuer_stores_nothing).
            return AuthorizationCodeResult(
                code=fields["code"], state=fields["state"], iss=fields.get("iss")
            )

        provider = OAuthClientProvider(
            self.definition.url,
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(callback.url)],
                client_name="covalt-git",
                software_id="covalt-git",
                software_version=__version__,
            ),
            self,
            redirect,
            receive_code,
            self._client.metadata_url,
        )
        return provider

    def _check_issuer(self, provider: OAuthClientProvider) -> None:
        """Check that the login is at the authorization server that the server names, and the client's last login was.

        Raises:
            SignInFailedError: if it is at another one.
        """
        context = provider.context
        # Without its metadata, the SDK would use endpoints at the server's own address, so that this one would get the
        # code, and the client's secret
        # (test_a_login_ends_if_the_metadata_of_the_authorization_server_cannot_be_read).
        if context.auth_server_url is not None and context.oauth_metadata is None:
            raise SignInFailedError(
                f"the metadata of the authorization server {plain_words(str(context.auth_server_url))} cannot be read"
            )
        if self._bound_issuer is not None and self._issuer(provider) != self._bound_issuer:
            raise self._other_issuer()

    def _issuer(self, provider: OAuthClientProvider) -> str:
        metadata = provider.context.oauth_metadata
        return str(metadata.issuer) if metadata else str(self._origin)

    @property
    def _bound_issuer(self) -> str | None:
        """The issuer of the last login with the user's own client; None if there was none."""
        # A client that the user has chosen just now may belong to another issuer.
        is_same = self.previous is not None and self.previous.choice == self._client
        is_own = self._client.client_id is not None
        return self.previous.issuer if self.previous and is_same and is_own else None

    def _other_issuer(self) -> SignInFailedError:
        return SignInFailedError(
            "the server has another authorization server than at the last login, and the client"
            f" {self._client.client_id!r} is not registered there",
            hint=f"register a client there, then: covalt-git auth login {self.definition.name} --client-id ID",
        )

    def _choose_auth_method(self, provider: OAuthClientProvider) -> None:
        """Choose a method that the server supports to authenticate a pre-registered client."""
        client, metadata = provider.context.client_info, provider.context.oauth_metadata
        # Others get their method when they are registered.
        if client is None or client.client_id != self._client.client_id or metadata is None:
            return
        # Without the field, a server supports this method only (RFC 8414, section 2).
        methods = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        if client.client_secret and "client_secret_basic" not in methods:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - a method's name

    def _check_request(self, url: str) -> None:
        # The SDK follows what documents name; this is the last check before each of its requests.
        origin = self._reach.check(url, "a URL of the login")
        if origin != self._origin and str(origin) not in self._origins:
            # The user has not granted these hosts, so each is shown before a request to it.
            self.callbacks.on_origin(origin)
        if str(origin) not in self._origins:
            # Stored with the login: a refresh, which has no user, may use no others.
            self._origins.append(str(origin))

    def _check_metadata(self, document: Any) -> None:
        """Check the URLs of a metadata document, and that its server supports PKCE.

        Raises:
            SignInFailedError: if a URL may not be requested, or without PKCE, as the MCP specification
                requires ("Authorization Code Protection").
        """
        if not isinstance(document, dict):
            return  # the answer of a site that answers every path
        # All of them before any is used: the SDK and the browser would take them unseen.
        for name in _URL_FIELDS:
            if name in document:
                self._reach.check(document[name], name)
        servers = document.get("authorization_servers", [])
        # A single text in place of the list must not escape the check.
        for server in servers if isinstance(servers, list) else [servers]:
            self._reach.check(server, "an authorization server")
        # Metadata of the resource, which says nothing about PKCE.
        if "token_endpoint" not in document:
            return
        # Without PKCE, another program of the machine that sees the redirect could exchange its code.
        methods = document.get("code_challenge_methods_supported")
        if not isinstance(methods, list) or "S256" not in methods:
            raise SignInFailedError("its authorization server does not support PKCE (S256)")

    def _stored_login(self, provider: OAuthClientProvider) -> StoredLogin:
        context, name = provider.context, self.definition.name
        client = context.client_info
        if self.token is None or client is None:
            raise SignInFailedError("the authorization server issued no token")
        metadata = context.oauth_metadata
        # If the server has no metadata, the SDK has used this endpoint (MCP 2025-03-26).
        endpoint = str(metadata.token_endpoint) if metadata else f"{self._origin}/token"
        revocation = metadata.revocation_endpoint if metadata else None
        # Servers of the protocol before 2025-06-18 know no resource.
        has_resource = context.should_include_resource_param(context.protocol_version)
        # A secret of the user stays where the user stores it
        # (test_a_registered_client_proves_itself_by_a_secret_that_is_not_stored).
        generated = None if self._secret else client.client_secret
        return with_token(
            StoredLogin(
                **Consents.of(name.root).project,
                toolset_id=name.toolset_id,
                server_id=name.server_id,
                url=self.definition.url,
                issuer=self._issuer(provider),
                origins=tuple(self._origins),
                token_endpoint=endpoint,
                revocation_endpoint=str(revocation) if revocation else None,
                resource=context.get_resource_url() if has_resource else None,
                choice=self._client,
                client_id=client.client_id,
                client_secret=generated,
                auth_method=client.token_endpoint_auth_method,
                access_token=self.token.access_token,
                signed_in_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            ),
            self.token,
        )

    # The SDK's TokenStorage, in memory for the duration of the login

    async def get_tokens(self) -> OAuthToken | None:
        """Return the previous token if its scopes are insufficient, so that the SDK adds the missing ones."""
        # In all other cases the SDK would use the old token, and not start the login.
        if self.previous is None or self.previous.challenge is None:
            return None
        # Without its refresh token: the SDK would refresh it, with the same scopes, and not ask the user.
        return OAuthToken(access_token=self.previous.access_token, scope=self.previous.scope)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the pre-registered client, bound to the issuer of the previous login."""
        if self._client.client_id is None:
            return None
        # At another issuer, the SDK drops this client and registers one of its own, which set_client_info refuses.
        return OAuthClientInformationFull(
            client_id=self._client.client_id,
            client_secret=self._secret,
            token_endpoint_auth_method="client_secret_basic" if self._secret else "none",
            issuer=self._bound_issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:  # noqa: ARG002 - the SDK's
        """Store nothing: a client that is registered now has a redirect URL for this login only.

        Raises:
            SignInFailedError: if the user chose a client, which the SDK has dropped for another authorization server.
        """
        # The stored login would have the new server's endpoint with the user's client, and a refresh would send its
        # secret there (test_the_secret_of_a_client_never_goes_to_another_authorization_server).
        if self._client.client_id is not None:
            raise self._other_issuer()


@asynccontextmanager
async def _probe(http: Any, definition: Definition) -> AsyncIterator[int]:
    """Send a request without side effects, which triggers the login; yield the status of the response."""
    if definition.transport == "sse":
        async with http.stream(
            "GET", definition.url, headers={"Accept": "text/event-stream"}
        ) as sse:
            yield sse.status_code
        return
    version = MODERN_PROTOCOL_VERSIONS[-1]
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": version,
        f"{prefix}clientInfo": {"name": "covalt-git", "version": __version__},
        f"{prefix}clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "Mcp-Method": "server/discover",
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": {"_meta": meta},
    }
    async with http.stream("POST", definition.url, json=message, headers=headers) as response:
        yield response.status_code
