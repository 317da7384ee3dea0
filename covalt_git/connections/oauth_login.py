"""Signing in to an MCP server, with a person there (MCP specification, "Authorization").

The SDK does the protocol: protected-resource metadata, PKCE, resource indicators, client registration, and
the checks of issuers.  Here it is decided where it may go.  Whoever guards a server names other hosts, and
nobody granted those: they are told to the person, are public ones over https, and what they say is looked
at before it is believed.  A server on this machine may have its sign-in on this machine.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

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
from covalt_git.connections.oauth_callback import Callback, state_of
from covalt_git.connections.token_refresh import secret_of, with_token
from covalt_git.connections.token_store import ClientChoice, SignInFile, StoredLogin
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, Origin, Reach, is_local, is_loopback, origin_of
from covalt_git.http_client.oauth_requests import CheckedAuth
from covalt_git.http_client.transport import agent_client, why_unreachable
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from covalt_git.connections.definition import Definition

WAIT_S = 300.0
"""How long a person has to sign in, in seconds."""

_UNAUTHORIZED = 401
_MOST_URL = 8192
_MOST_SHOWN = 300
_URL_FIELDS = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
)
_IN_URLS = frozenset("-._~:/?#[]@&+,=%")
"""Beside letters and digits; no character that a shell would take for its own but what queries need."""


class SignInFailedError(CovaltError):
    """Signing in to a server came to nothing."""

    code = "sign_in_failed"
    http_status = 502


class Person(NamedTuple):
    """Who signs in.

    Attributes:
        visits: hears of each origin beside the server's own, before anything is sent there.
        asked: hears the address at which to sign in.
        opens: shows that address; it is called in a thread of its own.
    """

    visits: Callable[[Origin], None]
    asked: Callable[[str], None]
    opens: Callable[[str], None]


def sign_in(
    definition: Definition,
    person: Person,
    choice: ClientChoice | None = None,
    *,
    wait_s: float = WAIT_S,
) -> StoredLogin:
    """Have a person sign in to a server, and keep what that gave; without ``choice``, as the last time.

    Raises:
        SignInFailedError: when it comes to nothing.
        HttpError: when it would lead to where nobody may go.
        CovaltError: when what was kept cannot be used, or a secret is not set.
    """
    return asyncio.run(_signed_in(definition, person, choice, wait_s))


async def _signed_in(
    definition: Definition, person: Person, choice: ClientChoice | None, wait_s: float
) -> StoredLogin:
    file = SignInFile.of(definition.name, definition.url)
    before = file.read()
    errand = _Errand(definition, person, choice, before)
    try:
        async with asyncio.timeout(wait_s):
            kept = await errand.done()
    except Exception as error:  # noqa: BLE001 - the SDK's and the network's are of many kinds
        raise errand.failed(error, wait_s) from None
    async with file.held():
        file.write(kept)
    return kept


@dataclass(slots=True)
class _Way:
    """Where a sign-in may go: to public hosts over https, granted ones as well, on this machine from there."""

    granted: Reach
    local: bool

    def covers(self, origin: Origin) -> bool:
        """Tell whether requests may go to that origin, whatever addresses its name has."""
        return origin.scheme == "https" or (self.local and is_loopback(origin.host))

    def why_not(self, host: str, address: str) -> str:
        """Return why that host may not be reached at that address; else nothing."""
        if self.local and is_loopback(host) and is_loopback(address):
            return ""
        return self.granted.why_not(host, address)

    def check(self, url: object, what: str) -> Origin:
        """Return the origin of an address that somebody else wrote.

        Raises:
            SignInFailedError: when it is none that everybody reads alike, or nobody may go there.
        """
        if not isinstance(url, str) or len(url) > _MOST_URL:
            raise SignInFailedError(f"{what} is no address")
        if not all(one.isascii() and (one.isalnum() or one in _IN_URLS) for one in url):
            raise SignInFailedError(f"{what} is an address with characters that belong in none")
        try:
            origin, _ = origin_of(url)
        except BadHostError as error:
            raise SignInFailedError(f"{what}: {error.message}") from None
        if not self.covers(origin):
            raise SignInFailedError(f"{what} is {origin}, which is not https")
        here = self.local and is_loopback(origin.host)
        if is_local(origin.host) and not here and not self.granted.covers(origin):
            raise SignInFailedError(f"{what} is {origin}, which was not granted")
        return origin


@dataclass
class _Errand:
    """One sign-in."""

    definition: Definition
    person: Person
    choice: ClientChoice | None
    before: StoredLogin | None
    token: OAuthToken | None = None
    _origins: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._own, _ = origin_of(self.definition.url)
        self._way = _Way(self.definition.reach or Reach(), is_loopback(self._own.host))
        kept = self.before.choice if self.before else ClientChoice()
        self._client = self.choice or kept
        self._secret = self._client.secret_name and secret_of(self._client.secret_name)

    async def done(self) -> StoredLogin:
        """Do it, and return what is to be kept."""
        self._way.check(self.definition.url, "the server's address")
        challenge = self.before.challenge if self.before else None
        async with Callback() as callback:
            provider = self._provider(callback)
            auth = CheckedAuth(
                provider,
                check_request=self._visit,
                check_document=self._believe,
                challenge=challenge,
            )
            headers = self.definition.headers
            async with (
                agent_client(self._way, headers, auth) as http,
                _probe(http, self.definition) as status,
            ):
                if status == _UNAUTHORIZED:
                    raise SignInFailedError("it does not take the token that it asked for")
        return self._stored_login(provider)

    def failed(self, error: Exception, wait_s: float) -> CovaltError:
        """Return why it came to nothing, in words."""
        cause = first_cause(error)
        if isinstance(cause, CovaltError) and not isinstance(cause, SignInFailedError):
            return cause
        if isinstance(cause, TimeoutError):
            why = f"it was not done within {wait_s:g} s"
        elif isinstance(cause, SignInFailedError):
            why = cause.message
        elif isinstance(cause, OAuthFlowError | OAuthRegistrationError | OAuthTokenError):
            why = _plain(str(cause))
        else:
            why = why_unreachable(cause) or _plain(str(cause)) or type(cause).__name__
        secrets = [*self.definition.secrets, self._secret or ""]
        told = Mask(one for one in secrets if one).text(why)
        name, hint = self.definition.name, ""
        if isinstance(cause, OAuthRegistrationError):
            hint = f"register a client there, and: covalt-git auth login {name} --client-id ID"
        return SignInFailedError(f"nobody is signed in to {name}: {told}", hint=hint)

    def _provider(self, callback: Callback) -> OAuthClientProvider:
        async def redirect(url: str) -> None:
            self._way.check(url, "the page to sign in at")
            self._prove_as_told(provider)
            callback.expect(state_of(url))
            self.person.asked(url)
            threading.Thread(target=self.person.opens, args=(url,), daemon=True).start()

        async def back() -> AuthorizationCodeResult:
            fields = await callback.heard()
            if "error" in fields:
                told = f"{fields['error']} {fields.get('error_description', '')}".strip()
                raise SignInFailedError(f"the authorization server said no: {_plain(told)}")
            return AuthorizationCodeResult(
                code=fields["code"], state=fields["state"], iss=fields.get("iss")
            )

        provider = OAuthClientProvider(
            self.definition.url,
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(callback.address)],
                client_name="covalt-git",
                software_id="covalt-git",
                software_version=__version__,
            ),
            self,
            redirect,
            back,
            self._client.metadata_url,
        )
        return provider

    def _prove_as_told(self, provider: OAuthClientProvider) -> None:
        """Have a client that was registered beforehand send its password as the server wants it."""
        client, told = provider.context.client_info, provider.context.oauth_metadata
        if client is None or client.client_id != self._client.client_id or told is None:
            return
        ways = told.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        if client.client_secret and "client_secret_basic" not in ways:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - the name of a way

    def _visit(self, url: str) -> None:
        origin = self._way.check(url, "an address that signing in leads to")
        if origin != self._own and str(origin) not in self._origins:
            self.person.visits(origin)
        if str(origin) not in self._origins:
            self._origins.append(str(origin))

    def _believe(self, document: Any) -> None:
        """Make sure that a metadata document names only addresses that may be gone to.

        Raises:
            SignInFailedError: when it does not, or when its server cannot do PKCE (which clients must
                refuse: MCP specification, "Authorization Code Protection").
        """
        if not isinstance(document, dict):
            return  # of a site that has a page for every path
        for name in _URL_FIELDS:
            if name in document:
                self._way.check(document[name], name)
        servers = document.get("authorization_servers", [])
        for one in servers if isinstance(servers, list) else [servers]:
            self._way.check(one, "an authorization server")
        if "token_endpoint" not in document:
            return
        ways = document.get("code_challenge_methods_supported")
        if not isinstance(ways, list) or "S256" not in ways:
            raise SignInFailedError("its authorization server cannot do PKCE (S256)")

    def _stored_login(self, provider: OAuthClientProvider) -> StoredLogin:
        context, name = provider.context, self.definition.name
        client = context.client_info
        if self.token is None or client is None:
            raise SignInFailedError("it gave no token")
        metadata = context.oauth_metadata
        endpoint = str(metadata.token_endpoint) if metadata else f"{self._own}/token"
        revocation = metadata.revocation_endpoint if metadata else None
        named = context.should_include_resource_param(context.protocol_version)
        generated = None if self._secret else client.client_secret
        return with_token(
            StoredLogin(
                project=str(name.root.resolve()),
                toolset_id=name.toolset_id,
                server_id=name.server_id,
                url=self.definition.url,
                issuer=str(metadata.issuer) if metadata else str(self._own),
                origins=tuple(self._origins),
                token_endpoint=endpoint,
                revocation_endpoint=str(revocation) if revocation else None,
                resource=context.get_resource_url() if named else None,
                choice=self._client,
                client_id=client.client_id,
                client_secret=generated,
                auth_method=client.token_endpoint_auth_method,
                access_token=self.token.access_token,
                signed_in_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            ),
            self.token,
        )

    # What the SDK stores, and finds stored (its TokenStorage); here only for as long as this takes

    async def get_tokens(self) -> OAuthToken | None:
        """Return what a token that does not allow enough allowed, which is asked for again."""
        if self.before is None or self.before.challenge is None:
            return None
        return OAuthToken(access_token=self.before.access_token, scope=self.before.scope)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the token."""
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that was registered beforehand, bound to whom it is known to."""
        if self._client.client_id is None:
            return None
        again = self.before is not None and self.before.choice == self._client
        return OAuthClientInformationFull(
            client_id=self._client.client_id,
            client_secret=self._secret,
            token_endpoint_auth_method="client_secret_basic" if self._secret else "none",
            issuer=self.before.issuer if self.before and again else None,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take note of nothing: a client that was registered now has an address for this once."""


@asynccontextmanager
async def _probe(http: Any, definition: Definition) -> AsyncIterator[int]:
    """Ask a server something that changes nothing; yield the status of its answer, once signed in."""
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


def _plain(text: str) -> str:
    return "".join(one if display.is_shown(one) else " " for one in text)[:_MOST_SHOWN].strip()
