"""Model of an entry of ``auth`` in a toolset's manifest: a sign-in or a credential that the toolset's tools share.

``${auth:github}`` is replaced by its value.  Providers that many toolsets use are described in ``auth_providers.json``.
"""

import functools
import json
from importlib.resources import files
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from covalt_git.errors import nearest_name
from covalt_git.hosts import BadHostError, is_loopback, origin_of
from covalt_git.json_values import canonical_json, with_texts
from covalt_git.models.base import Id, StrictModel, Text, refusal
from covalt_git.models.toolset_state import GrantedHost
from covalt_git.templating.references import AUTH, Reference, references, split

_OF_SIGN_INS = (
    *("provider", "issuer", "authorize_url", "token_url", "revoke_url"),
    *("scopes", "client_id", "client_secret"),
)
"""Keys that only a sign-in has."""


_PLAIN_URL = r"^https?://[^\s${}]+$"
"""URLs of sign-ins have no references: the user reviews them."""

_URLS = ("issuer", "authorize_url", "token_url", "revoke_url")


class Provider(StrictModel):
    """What covalt-git knows about a provider of sign-ins, with the page and the date that it is from.

    Attributes:
        scopes: scopes that each sign-in requests, such as that of a refresh token.
        scope_separator: what its scopes are joined by (RFC 6749 says: a space).
        parameters: parameters of its authorization URL.
        redirect_host: the name of this machine in the redirect URL; providers compare it.
        hosts: the hosts of its APIs, if an entry names none.
    """

    name: str
    issuer: str | None = None
    authorize_url: str
    token_url: str
    revoke_url: str | None = None
    scopes: tuple[str, ...] = ()
    scope_separator: str = " "
    parameters: dict[str, str] = Field(default_factory=dict)
    redirect_host: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    hosts: tuple[GrantedHost, ...]
    source: str
    date: str


@functools.cache
def providers() -> dict[str, Provider]:
    """Return the providers by their ids."""
    text = files("covalt_git.models").joinpath("auth_providers.json").read_text(encoding="utf-8")
    return {name: Provider.model_validate(facts) for name, facts in json.loads(text).items()}


class Auth(StrictModel):
    """A sign-in or a credential that the toolset's tools share: ``${auth:github}``."""

    id: Id = Field(description="Id of the entry, for ${auth:ID}, sources and Python tools.")
    type: Literal["oauth2", "api_key", "basic", "bearer"] = Field(
        description="A sign-in (oauth2), or a secret that is an API key, user:password, or a token."
    )
    provider: str | None = Field(
        None, description="Provider whose URLs are known: github, google, microsoft, slack."
    )
    issuer: str | None = Field(
        None,
        pattern=_PLAIN_URL,
        description="Issuer of the provider, whose metadata has the URLs if the entry has none.",
    )
    authorize_url: str | None = Field(
        None, pattern=_PLAIN_URL, description="URL at which the user signs in."
    )
    token_url: str | None = Field(None, pattern=_PLAIN_URL, description="URL that issues tokens.")
    revoke_url: str | None = Field(None, pattern=_PLAIN_URL, description="URL that revokes tokens.")
    scopes: tuple[Text, ...] = Field((), description="Scopes that the sign-in requests.")
    client_id: str | None = Field(
        None, description="Id of the client that the owner registered, which is public."
    )
    client_secret: str | None = Field(
        None, description="Reference to the secret of the client: ${NAME}."
    )
    hosts: tuple[GrantedHost, ...] = Field(
        (), description="The only hosts that the value may be sent to."
    )
    token: str | None = Field(
        None,
        description="Reference to the secret: ${NAME}. For oauth2, it is used without a sign-in.",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type != "oauth2":
            for key in _OF_SIGN_INS:
                if getattr(self, key):
                    raise refusal(
                        f"only a sign-in has {key!r}", "remove it, or write type: oauth2", at=(key,)
                    )
            if self.token is None or _reference_of(self.type, self.token) is None:
                at = () if self.token is None else ("token",)
                raise refusal(
                    f"the type {self.type!r} needs 'token' with a reference",
                    "write token: ${NAME}",
                    at=at,
                )
            return self
        if self.provider is not None and (
            key := next((name for name in _URLS if getattr(self, name)), "")
        ):
            # Beside the name of a provider that the user knows, another URL would get the code and the token.
            raise refusal(
                f"a sign-in with a provider has no {key!r}",
                "remove it, or remove provider",
                at=(key,),
            )
        if next(references(self.client_id), None) is not None:
            # It is in the address of the sign-in, which everybody can read, so it must not be a secret of the user.
            raise refusal(
                "'client_id' is public, and no reference", "write client_id: ID", at=("client_id",)
            )
        if self.provider is not None and self.provider not in providers():
            names = ", ".join(providers())
            near = nearest_name(self.provider, providers())
            raise refusal(
                f"there is no provider {self.provider!r}",
                f"write {near}"
                if near
                else f"write one of {names}; or authorize_url, token_url and hosts",
                at=("provider",),
            )
        for key in _URLS:
            try:
                origin, _ = origin_of(getattr(self, key) or "https://example.com/")
            except BadHostError as error:
                raise refusal(error.message, error.hint or "write https://...", at=(key,)) from None
            if origin.scheme != "https" and not is_loopback(origin.host):
                raise refusal(
                    f"{key!r} is not https: a code or a token could be read on the way",
                    "write https://...",
                    at=(key,),
                )
        if (self.authorize_url is None) != (self.token_url is None):
            raise refusal(
                "a sign-in has both 'authorize_url' and 'token_url'", "add the one that is missing"
            )
        if self.provider is None and self.authorize_url is None and self.issuer is None:
            raise refusal(
                "nothing says where to sign in",
                "add provider: github; or issuer; or authorize_url and token_url",
            )
        for key in ("client_secret", "token"):
            if (text := getattr(self, key)) is not None and _reference_of("bearer", text) is None:
                raise refusal(f"{key!r} is not a reference", f"write {key}: ${{NAME}}", at=(key,))
        if not self.effective_hosts:
            raise refusal(
                "nothing says which hosts may get the token", "add hosts: [api.example.com]"
            )
        return self

    @property
    def is_sign_in(self) -> bool:
        """Whether its value is the token of a sign-in."""
        return self.type == "oauth2"

    @property
    def reference_name(self) -> str:
        """The name of its value in grants and references: ``auth:github``."""
        return f"{AUTH}{self.id}"

    @property
    def reference(self) -> str:
        """The reference to its value: ``${auth:github}`` for a sign-in, else that to its secret."""
        secret = _reference_of(self.type, self.token)
        return f"${{{self.reference_name}}}" if secret is None else _text_of(secret)

    @property
    def client_secret_name(self) -> str | None:
        """The name of the secret that its client proves itself by."""
        pieces = split(self.client_secret or "")
        return next((piece.name for piece in pieces if isinstance(piece, Reference)), None)

    @property
    def preset(self) -> Provider | None:
        """The description of its provider, if it names one."""
        return providers()[self.provider] if self.provider is not None else None

    @property
    def effective_hosts(self) -> tuple[str, ...]:
        """The hosts that may get its value: its own, or those of its provider."""
        return self.hosts or (self.preset.hosts if self.preset else ())

    @property
    def effective_scopes(self) -> tuple[str, ...]:
        """The scopes that a sign-in requests."""
        preset = self.preset.scopes if self.preset else ()
        return tuple(dict.fromkeys((*self.scopes, *preset)))

    def url(
        self, kind: Literal["issuer", "authorize_url", "token_url", "revoke_url"]
    ) -> str | None:
        """Return a URL of the entry, or of its provider."""
        url: str | None = getattr(self if self.preset is None else self.preset, kind)
        return url

    @property
    def other_token_urls(self) -> tuple[str, ...]:
        """The URLs with other origins than that at which the user signs in, which get the token too.

        Those of a provider that covalt-git knows belong to it.
        """
        if self.preset is not None or self.authorize_url is None:
            return ()
        urls = [url for url in (self.token_url, self.revoke_url) if url is not None]
        return tuple(url for url in urls if origin_of(url)[0] != origin_of(self.authorize_url)[0])

    @property
    def digest(self) -> str:
        """The digest of the entry and of the description of its provider; a sign-in belongs to it."""
        preset = self.preset.model_dump(exclude={"source", "date"}) if self.preset else None
        return canonical_json.digest(
            {"entry": self.model_dump(mode="json", exclude_defaults=True), "provider": preset}
        )


def with_secrets(manifest: Any) -> Any:
    """Return a manifest in whose requests the entries of ``auth`` that are secrets are replaced; it is the data of a file.

    ``${auth:weather}`` becomes the reference of the entry to its secret, so that grants, digests and questions are about
    what is sent.  Entries that are sign-ins stay.
    """
    entries = manifest.get("auth") if isinstance(manifest, dict) else None
    secrets = {
        f"{AUTH}{entry['id']}": reference
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        if (reference := _reference_of(entry.get("type"), entry.get("token"))) is not None
    }
    if not secrets:
        return manifest

    def replaced(text: str) -> str:
        return "".join(
            _text_of(secrets[piece.name], piece.default)
            if isinstance(piece, Reference) and piece.name in secrets
            else piece.text
            if isinstance(piece, Reference)
            else piece
            for piece in split(text)
        )

    tools = manifest.get("tools")
    changed = {
        key: with_texts(manifest[key], replaced)
        for key in ("mcp_servers", "sources")
        if key in manifest
    }
    if isinstance(tools, list):
        changed["tools"] = [
            {**tool, "http": with_texts(tool["http"], replaced)}
            if isinstance(tool, dict) and "http" in tool
            else tool
            for tool in tools
        ]
    return {**manifest, **changed}


def _reference_of(kind: object, token: object) -> Reference | None:
    """Return the reference for an entry that is a secret; None for a sign-in, or a token that is not one reference."""
    pieces = split(token) if isinstance(token, str) else ()
    if kind not in {"api_key", "basic", "bearer"} or len(pieces) != 1:
        return None
    reference = pieces[0]
    if not isinstance(reference, Reference) or reference.place == "auth":
        return None
    if kind == "basic":
        return reference._replace(place="basic") if reference.place == "any" else None
    return reference


def _text_of(reference: Reference, default: str | None = None) -> str:
    """Return the text of a reference, with a default in place of its own."""
    place = "" if reference.place == "any" else f"{reference.place}:"
    default = reference.default if default is None else default
    return f"${{{place}{reference.name}{'' if default is None else f':-{default}'}}}"
