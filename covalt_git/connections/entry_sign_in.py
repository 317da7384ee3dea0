"""Sign-in of a user for an entry of a toolset's ``auth``, with an authorization code and PKCE (RFC 6749, 7636, 8252).

oauthlib writes and reads the messages.  This module decides where they go: to the URLs of the entry or of its provider,
or to the URLs that the metadata of its issuer names on the issuer's own origin (RFC 8414).  The project's owner registers
the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from mcp.shared.auth import OAuthMetadata
from oauthlib.oauth2 import OAuth2Error, WebApplicationClient
from pydantic import ValidationError

from covalt_git.connections.entry_tokens import token_in
from covalt_git.connections.errors import first_cause
from covalt_git.connections.login_reach import LoginReach, SignInFailedError, plain_words
from covalt_git.connections.oauth_callback import Callback
from covalt_git.connections.token_refresh import (
    RefreshError,
    answer_of,
    post_form,
    secret_of,
    with_token,
)
from covalt_git.connections.token_store import ClientChoice, SignInFile, StoredLogin
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError, failure_text
from covalt_git.hosts import HostRule, Reach, is_loopback, origin_of
from covalt_git.http_client.oauth_requests import MOST_BYTES
from covalt_git.http_client.transport import mcp_http_client, why_unreachable
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from covalt_git.access.grants import Granted
    from covalt_git.connections.definition import Name
    from covalt_git.connections.login_reach import LoginCallbacks
    from covalt_git.models.auth_entries import Auth

WAIT_S = 300.0
"""Time limit of a sign-in in seconds."""

_OK = 200
_VERIFIER = 64
"""Characters of the secret of PKCE."""

_LEAST_OF_SECRET = 32


class Endpoints(NamedTuple):
    """The URLs of a provider, and how a client proves itself there."""

    issuer: str | None
    authorize: str
    token: str
    revoke: str | None
    methods: tuple[str, ...] = ()


class SignInOptions(NamedTuple):
    """How a sign-in takes place.

    Attributes:
        choice: the client that the user chose, in place of that of the entry.
        port: the port of the redirect URL; 0 chooses an available one.
        read_address: reads the address that a browser of another machine ended at; None if the browser is on this one.
        wait_s: the time limit in seconds.
        report: reports that an address was not the expected one.
    """

    choice: ClientChoice | None = None
    port: int = 0
    read_address: Callable[[], str] | None = None
    wait_s: float = WAIT_S
    report: Callable[[str], None] = lambda _: None


def sign_in_to(
    name: Name, entry: Auth, may: Granted, callbacks: LoginCallbacks, options: SignInOptions
) -> StoredLogin:
    """Sign the user in for an entry of ``auth``, and store the tokens.

    ``may`` are the grants of the toolset: the secret of its client goes to granted hosts only, and a provider in a
    private network needs a grant of that network.

    Raises:
        SignInFailedError: if the sign-in fails.
        GrantNeededError: if the secret of the client is not granted to the provider.
        HttpError: if it requires a request to a host that is not allowed.
        CovaltError: if a stored sign-in cannot be used, or a secret is not set.
    """
    return asyncio.run(_sign_in_to(name, entry, may, callbacks, options))


async def _sign_in_to(
    name: Name, entry: Auth, may: Granted, callbacks: LoginCallbacks, options: SignInOptions
) -> StoredLogin:
    # In a folder that the user trusts, the project may have no id yet, which the sign-in is stored for.
    Consents.of(name.root).identify()
    file = SignInFile.of(name, entry.digest)
    attempt = _SignIn(name, entry, may, callbacks, options, file.read())
    try:
        async with asyncio.timeout(options.wait_s):
            stored = await attempt.run()
    except Exception as error:  # noqa: BLE001 - errors of the libraries and the network have many types
        raise attempt.failure(error) from None
    # Not during the sign-in, which waits minutes for a user: refreshes of other calls need the lock.
    async with file.lock():
        file.write(stored)
    return stored


@dataclass
class _SignIn:
    """One sign-in."""

    name: Name
    entry: Auth
    may: Granted
    callbacks: LoginCallbacks
    options: SignInOptions
    previous: StoredLogin | None
    _secret: str | None = field(default=None, repr=False)

    async def run(self) -> StoredLogin:
        """Run the sign-in, and return what to store."""
        entry, preset = self.entry, self.entry.preset
        first = entry.url("authorize_url") or entry.url("issuer") or ""
        self._reach = LoginReach(self.may.reach, is_loopback(origin_of(first)[0].host))
        endpoints = await self._endpoints()
        # These URLs get the token, or the code for it. The user does not see them while signing in, so they are checked.
        for url in entry.other_token_urls:
            self.may.check_secrets(origin_of(url)[0], [entry.reference_name])
        choice = self._client()
        client_id = choice.client_id or ""
        if choice.secret_name is not None:
            self.may.check_secrets(origin_of(endpoints.token)[0], [choice.secret_name])
            self._secret = secret_of(choice.secret_name)
        client = WebApplicationClient(client_id)
        verifier = client.create_code_verifier(_VERIFIER)
        state = secrets.token_urlsafe(_LEAST_OF_SECRET)
        host = preset.redirect_host if preset else "127.0.0.1"
        async with self._callback(host) as callback:
            callback.expect(state)
            url = client.prepare_request_uri(
                _with_https(endpoints.authorize),
                redirect_uri=callback.url,
                scope=(preset.scope_separator if preset else " ").join(entry.effective_scopes),
                state=state,
                code_challenge=client.create_code_challenge(verifier, "S256"),
                code_challenge_method="S256",
                **(preset.parameters if preset else {}),
            )
            url = url.replace("https", urlsplit(endpoints.authorize).scheme, 1)
            self._reach.check(url, "the authorization URL")
            self.callbacks.on_url(url)
            # A browser in a terminal returns only when it is closed; the redirect has to be served meanwhile.
            threading.Thread(target=self.callbacks.open_browser, args=(url,), daemon=True).start()
            self._read_addresses(callback)
            fields = await callback.redirect()
            redirect_uri = callback.url
        self._check_answer(fields, endpoints)
        body = client.prepare_request_body(
            code=fields["code"], redirect_uri=redirect_uri, code_verifier=verifier
        )
        return await self._token(endpoints, choice, dict(parse_qsl(body)))

    def failure(self, error: Exception) -> CovaltError:
        """Return the error of a failed sign-in, with its reason and without secrets."""
        cause, hint = first_cause(error), ""
        if isinstance(cause, CovaltError) and not isinstance(cause, SignInFailedError):
            return cause
        if isinstance(cause, TimeoutError):
            why = f"the user did not complete it within {self.options.wait_s:g} s"
        elif isinstance(cause, SignInFailedError):
            why, hint = cause.message, cause.hint
        elif isinstance(cause, OAuth2Error):
            # The words are the provider's, and reach a terminal.
            why = plain_words(f"the provider refused it: {cause.error} {cause.description or ''}")
        else:
            why = why_unreachable(cause) or plain_words(failure_text(cause))
        why = Mask([self._secret] if self._secret else []).text(why)
        return SignInFailedError(f"the sign-in to {_shown(self.name)} failed: {why}", hint=hint)

    def _client(self) -> ClientChoice:
        """Return the client: the chosen one, that of the last sign-in, or that of the entry.

        Raises:
            SignInFailedError: without one.
        """
        if self.options.choice is not None:
            return self.options.choice
        if self.previous is not None and self.previous.choice.client_id is not None:
            return self.previous.choice
        if self.entry.client_id is None:
            registered = self.entry.preset.source if self.entry.preset else "the provider"
            raise SignInFailedError(
                f"the entry {self.entry.id!r} has no client_id: register a client at {registered}",
                hint=f"covalt-git auth login {_shown(self.name)} --client-id ID",
            )
        return ClientChoice(
            client_id=self.entry.client_id, secret_name=self.entry.client_secret_name
        )

    async def _endpoints(self) -> Endpoints:
        """Return the URLs of the entry, of its provider or of its issuer's metadata, all checked.

        Raises:
            SignInFailedError: if one of them may not be used.
        """
        entry = self.entry
        authorize, token = entry.url("authorize_url"), entry.url("token_url")
        if authorize is not None and token is not None:
            # Presets expect the secret in the form; others support what the standard requires.
            methods = ("client_secret_post",) if entry.authorize_url is None else ()
            revoke = entry.url("revoke_url")
            endpoints = Endpoints(entry.url("issuer"), authorize, token, revoke, methods)
        else:
            endpoints = await self._discovered(entry.url("issuer") or "")
        self._reach.check(endpoints.authorize, "authorize_url")
        self._reach.check(endpoints.token, "token_url")
        if endpoints.revoke is not None:
            self._reach.check(endpoints.revoke, "revoke_url")
        return endpoints

    async def _discovered(self, issuer: str) -> Endpoints:
        """Return the URLs of an issuer's metadata (RFC 8414; OpenID Connect Discovery 1.0)."""
        origin = self._reach.check(issuer, "the issuer")
        base, path = str(origin), urlsplit(issuer).path.rstrip("/")
        urls = (
            f"{base}/.well-known/oauth-authorization-server{path}",
            f"{base}{path}/.well-known/openid-configuration",
        )
        networks = tuple(rule for rule in self.may.reach.rules if rule.network is not None)
        reach = Reach((HostRule.parse(str(origin)), *networks))
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with mcp_http_client(reach, headers) as http:
            for url in urls:
                async with http.stream("GET", url) as response:
                    body = bytearray()
                    async for chunk in response.aiter_raw():
                        body += chunk
                        if len(body) > MOST_BYTES:
                            raise SignInFailedError(f"the metadata of {issuer} is too large")
                if response.status_code == _OK:
                    return self._of_metadata(issuer, bytes(body))
        raise SignInFailedError(
            f"{issuer} has no metadata", hint="write authorize_url and token_url in toolset.yaml"
        )

    def _of_metadata(self, issuer: str, body: bytes) -> Endpoints:
        try:
            metadata = OAuthMetadata.model_validate_json(body)
        except ValidationError:
            raise SignInFailedError(f"the metadata of {issuer} is not valid") from None
        # Otherwise a server could have the user sign in as a client of another one (RFC 8414, section 3.3).
        if str(metadata.issuer).rstrip("/") != issuer.rstrip("/"):
            raise SignInFailedError(f"the metadata of {issuer} is of another issuer")
        methods = metadata.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise SignInFailedError(f"{issuer} does not support PKCE (S256)")
        revoke = metadata.revocation_endpoint
        endpoints = Endpoints(
            issuer,
            str(metadata.authorization_endpoint),
            str(metadata.token_endpoint),
            None if revoke is None else str(revoke),
            tuple(metadata.token_endpoint_auth_methods_supported or ()),
        )
        # The user reviewed the issuer in toolset.yaml. A document of it may not send the code to another host.
        for what, url in zip(("authorization", "token", "revocation"), endpoints[1:4], strict=True):
            if isinstance(url, str) and origin_of(url)[0] != origin_of(issuer)[0]:
                raise SignInFailedError(
                    f"the metadata of {issuer} names another host for its {what} endpoint: {plain_words(url)}",
                    hint="write authorize_url and token_url in toolset.yaml, if that is right",
                )
        return endpoints

    @contextlib.asynccontextmanager
    async def _callback(self, host: str) -> AsyncIterator[Callback]:
        try:
            async with Callback(host, self.options.port) as callback:
                yield callback
        except OSError as error:
            if self.options.port and error.errno is not None:
                raise SignInFailedError(
                    f"the port {self.options.port} of the redirect URL cannot be used:"
                    f" {os.strerror(error.errno).lower()}",
                    hint="choose another --port, or none",
                ) from None
            raise

    def _read_addresses(self, callback: Callback) -> None:
        """Read pasted addresses in a thread, until one is the redirect."""
        read = self.options.read_address
        if read is None:
            return
        loop = asyncio.get_running_loop()

        def read_until_accepted() -> None:
            with contextlib.suppress(RuntimeError):  # of a loop that is closed
                while True:
                    try:
                        address = read()
                    except EOFError:
                        self.options.report(
                            "the input has ended: only a redirect completes the sign-in"
                        )
                        return
                    if asyncio.run_coroutine_threadsafe(_paste(callback, address), loop).result():
                        return
                    self.options.report(
                        f"this is not the address that the sign-in ends at: {callback.url}?code=...&state=..."
                    )

        # A daemon: a read of a terminal cannot be cancelled, and the redirect may arrive by a browser here.
        threading.Thread(target=read_until_accepted, daemon=True).start()

    def _check_answer(self, fields: Mapping[str, str], endpoints: Endpoints) -> None:
        """Check the redirect, whose state :class:`.Callback` has compared.

        Raises:
            SignInFailedError: if the provider refused the sign-in, or another one answered (RFC 9207).
        """
        issuer = fields.get("iss")
        expected = endpoints.issuer or str(origin_of(endpoints.authorize)[0])
        if issuer is not None and issuer != expected:
            raise SignInFailedError(
                f"another issuer answered: {plain_words(issuer)}, not {expected}",
                hint="sign in again; if that is the provider's issuer, write it as issuer in toolset.yaml",
            )
        if "error" in fields:
            why = f"{fields['error']} {fields.get('error_description', '')}".strip()
            raise SignInFailedError(f"the provider refused it: {plain_words(why)}")

    async def _token(
        self, endpoints: Endpoints, choice: ClientChoice, form: dict[str, str]
    ) -> StoredLogin:
        """Exchange the code for a token, and return the sign-in to store."""
        origins = {
            str(origin_of(url)[0])
            for url in (endpoints.authorize, endpoints.token, endpoints.revoke)
            if url
        }
        method = "none"
        if self._secret is not None:
            is_form = endpoints.methods and "client_secret_basic" not in endpoints.methods
            method = "client_secret_post" if is_form else "client_secret_basic"
        draft = StoredLogin(
            **Consents.of(self.name.root).project,
            toolset_id=self.name.toolset_id,
            server_id=self.name.server_id,
            url=self.entry.digest,
            issuer=endpoints.issuer or str(origin_of(endpoints.authorize)[0]),
            origins=tuple(sorted(origins)),
            hosts=self.entry.effective_hosts,
            token_endpoint=endpoints.token,
            revocation_endpoint=endpoints.revoke,
            choice=choice,
            client_id=choice.client_id or "",
            auth_method=method,
            access_token="",
            scope=" ".join(self.entry.effective_scopes) or None,
            signed_in_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        async with post_form(draft, endpoints.token, form, self.may.reach, self.may) as response:
            body = await answer_of(draft, response)
        try:
            return with_token(draft, token_in(draft, body))
        except RefreshError:
            raise SignInFailedError(
                f"{endpoints.token} answered {response.status_code} without a valid token"
            ) from None


async def _paste(callback: Callback, address: str) -> bool:
    return callback.paste(address)


def _with_https(url: str) -> str:
    """Return a URL as oauthlib accepts it; http is allowed on this machine only, as :class:`.LoginReach` checks."""
    return url.replace("http:", "https:", 1) if url.startswith("http:") else url


def _shown(name: Name) -> str:
    return str(name).replace("/auth:", "/", 1)
