"""Security schemes of an operation, as headers, query parameters and cookies with references to secrets or sign-ins."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.hosts import BadHostError, is_loopback, origin_of
from covalt_git.names import suggest_id
from covalt_git.templating.references import AUTH

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from covalt_git.compilers.openapi.documents import DocumentPart, Documents
    from covalt_git.json_values import JsonObject

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNDESCRIBED = "its security scheme is not described"
_PARTS = {"header": "headers", "query": "query", "cookie": "cookies"}


class SchemeValue(NamedTuple):
    """One value of a request: its place, its name there, the text before the secret, and the secret.

    A ``sign_in`` has the name of an entry of ``auth``.
    """

    place: str
    name: str
    prefix: str
    secret: str
    is_optional: bool = False
    sign_in: bool = False


class SchemeValues(NamedTuple):
    """The values that an operation needs; with ``is_optional``, it can be called without them."""

    values: tuple[SchemeValue, ...] = ()
    is_optional: bool = False

    def request(self) -> dict[str, dict[str, str]]:
        """Return the parts of a request with the references."""
        parts: dict[str, dict[str, str]] = {}
        for value in self.values:
            default = ":-" if self.is_optional or value.is_optional else ""
            part = parts.setdefault(_PARTS[value.place], {})
            place = AUTH if value.sign_in else ""
            part[value.name] = f"{value.prefix}${{{place}{value.secret}{default}}}"
        return parts

    def places(self) -> frozenset[tuple[str, str]]:
        """Return the places and names; those of headers in lower case."""
        return frozenset(
            (value.place, value.name.lower() if value.place == "header" else value.name)
            for value in self.values
        )


class UnsupportedSecurityError(Exception):
    """Why no alternative of an operation's security can be sent."""


class SecuritySchemes:
    """The schemes of a description."""

    def __init__(
        self,
        documents: Documents,
        schemes: DocumentPart,
        namespace: str,
        sign_ins: Collection[str],
    ) -> None:
        self._documents = documents
        self._schemes = schemes
        self._namespace = namespace
        self._secrets = _secret_names(namespace, [name for name, _ in schemes.all_entries()])
        self._sign_ins = frozenset(sign_ins)
        self._entries = self._described_sign_ins()
        self.entries: dict[str, JsonObject] = {}
        """The entries of ``auth`` for the schemes that operations use, by their ids; they have no client and no hosts."""

    def of(self, requirements: DocumentPart) -> SchemeValues:
        """Return the values for the first alternative that can be sent, with all its schemes.

        Raises:
            UnsupportedSecurityError: if none of them can be sent.
        """
        alternatives = list(requirements.elements())
        if not alternatives:
            return SchemeValues()
        is_optional = any(alternative.value == {} for alternative in alternatives)
        reasons: list[str] = []
        for alternative in alternatives:
            if not isinstance(alternative.value, dict) or not alternative.value:
                continue
            values = [
                self._credential(name, part, [str(scope.value) for scope in part.elements()])
                for name, part in alternative.all_entries()
            ]
            reason = next((value for value in values if isinstance(value, str)), None)
            credentials = [value for value in values if isinstance(value, SchemeValue)]
            if reason is None and len(
                {(value.place, value.name.lower()) for value in credentials}
            ) < len(credentials):
                reason = "two of its security schemes are the same header, parameter or cookie"
            if reason is None:
                return SchemeValues(tuple(credentials), is_optional)
            reasons.append(reason)
        # A scheme that the document does not describe is a broken reference, which leaves the operation a tool.
        if is_optional or all(reason == _UNDESCRIBED for reason in reasons):
            return SchemeValues()
        raise UnsupportedSecurityError(reasons[0])

    def with_header(self, values: SchemeValues, *, is_required: bool) -> SchemeValues:
        """Return the values with an ``Authorization`` header that a document describes as a parameter.

        An agent must not know its value, so it is a secret like that of a scheme.
        """
        if ("header", "authorization") in values.places():
            return values
        value = SchemeValue(
            "header", "Authorization", "", self.secret_name("Authorization"), not is_required
        )
        return values._replace(values=(*values.values, value))

    def secret_name(self, name: str) -> str:
        """Return the name of a secret of this namespace."""
        return re.sub(r"[^A-Z0-9]+", "_", f"{self._namespace}_{name}".upper())

    def _described_sign_ins(self) -> dict[str, JsonObject]:
        """Return the entries of ``auth`` for the schemes whose URLs of a sign-in are described, by their names."""
        described = {
            name: entry
            for name, _ in self._schemes.all_entries()
            if (entry := _entry_of(self._documents.follow(self._schemes.at(name)))) is not None
        }
        for name, entry in described.items():
            # Most documents have one, which gets the name of the source.
            short = (
                suggest_id(f"{self._namespace}-{name}") if len(described) > 1 else self._namespace
            )
            entry["id"] = short or self._namespace
        return described

    def _credential(
        self, name: str, requirement: DocumentPart, scopes: Sequence[str]
    ) -> SchemeValue | str:
        """Return the value of a scheme, or why it cannot be sent."""
        scheme = self._documents.follow(self._schemes.at(name))
        secret = self._secrets.get(name)
        if not isinstance(scheme.value, dict) or secret is None:
            self._documents.faults.add(requirement, f"there is no security scheme {name[:80]!r}")
            return _UNDESCRIBED
        kind = scheme.text("type")
        if kind == "apiKey":
            place, key = scheme.text("in"), scheme.text("name")
            if place not in _PARTS or not key or (place != "query" and not _TOKEN.fullmatch(key)):
                return f"the API key {name[:80]!r} has no valid place"
            return SchemeValue(place, key, "", secret)
        if kind == "basic" or (kind == "http" and scheme.text("scheme").lower() == "basic"):
            return SchemeValue("header", "Authorization", "Basic ", secret)
        is_bearer = kind == "http" and scheme.text("scheme").lower() == "bearer"
        if name in self._entries and kind in {"oauth2", "openIdConnect"}:
            entry = self._entries[name]
            used_entry = self.entries.setdefault(entry["id"], entry)
            used_entry["scopes"] = sorted({*used_entry["scopes"], *scopes})
            if entry["id"] in self._sign_ins:
                return SchemeValue("header", "Authorization", "Bearer ", entry["id"], sign_in=True)
        if is_bearer or kind in {"oauth2", "openIdConnect"}:
            return SchemeValue("header", "Authorization", "Bearer ", secret)
        if kind == "mutualTLS":
            return "it requires a client certificate (mutual TLS), which is not supported"
        label = f"HTTP {scheme.text('scheme')}" if kind == "http" else kind
        return f"its security scheme {label[:80]!r} is not supported"


def _entry_of(scheme: DocumentPart) -> JsonObject | None:
    """Return the entry of ``auth`` for a scheme; None if it does not describe a sign-in with an authorization code."""
    kind = scheme.text("type")
    issuer = scheme.text("openIdConnectUrl").removesuffix("/.well-known/openid-configuration")
    if kind == "openIdConnect" and _is_https(issuer):
        return {"id": "", "type": "oauth2", "issuer": issuer, "scopes": []}
    flow = scheme.at("flows", "authorizationCode")
    if scheme.text("flow") == "accessCode":  # of version 2.0
        flow = scheme
    if kind != "oauth2" or not isinstance(flow.value, dict):
        return None
    authorize, token = flow.text("authorizationUrl"), flow.text("tokenUrl")
    if not (_is_https(authorize) and _is_https(token)):
        return None
    return {
        "id": "",
        "type": "oauth2",
        "authorize_url": authorize,
        "token_url": token,
        "scopes": [],
    }


def _is_https(url: str) -> bool:
    """Return whether a sign-in may be at a URL, which a user reviews in the manifest: https, or this machine."""
    try:
        origin, _ = origin_of(url)
    except BadHostError:
        return False
    is_plain = url.isprintable() and not re.search(r"[\s${}]", url)
    return is_plain and (origin.scheme == "https" or is_loopback(origin.host))


def _secret_names(namespace: str, schemes: list[str]) -> dict[str, str]:
    """Return the name of each scheme's secret: ``<NAMESPACE>_<SCHEME>``."""
    plain = {name: re.sub(r"[^A-Z0-9]+", "_", f"{namespace}_{name}".upper()) for name in schemes}
    names: dict[str, str] = {}
    for name, secret in plain.items():
        is_clear = list(plain.values()).count(secret) == 1
        ending = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6].upper()
        names[name] = secret if is_clear else f"{secret}_{ending}"
    return names
