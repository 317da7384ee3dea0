"""Verification of an access token: its form, its issuer, its signature, its registered claims and its holder's role.

The checks are those of RFC 7519, of RFC 8725 (algorithm bound to the key, ``typ``, audience), and of RFC 6750 for the answers.
Reasons in errors are fixed texts: no value of a token is repeated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

from covalt_git.errors import CovaltError
from covalt_git.issuers.key_sets import KeySets
from covalt_git.json_values import canonical_json
from covalt_git.models.access_token import AccessToken

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import Issuer, ProjectConfig

MOST_BYTES: Final = 16 << 10
"""Maximum size of a token, in bytes."""

SKEW_S: Final = 60
"""Difference of clocks that is accepted, in seconds."""

# Tuples: a value of a header may be of a type that no set can look up.
ALGORITHMS: Final = ("ES256", "EdDSA", "RS256")
_TYPES: Final = ("jwt", "at+jwt")
_MOST_LETTERS = 255


class InvalidTokenError(CovaltError):
    """An access token that is not valid; the message has no value of it."""

    code = "invalid_token"
    http_status = 401

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the access token is not valid: {why}",
            hint="get a new token from its issuer, which covalt.yaml lists under issuers",
        )


class NoMappedRoleError(CovaltError):
    """The token is valid, but no role belongs to its holder."""

    code = "no_mapped_role"
    http_status = 403

    def __init__(self) -> None:
        super().__init__(
            "no role of covalt.yaml is mapped to the holder of this access token",
            hint="add a value of the claim to roles.map of the issuer in covalt.yaml",
        )


def is_jwt(text: str) -> bool:
    """Return whether a text has the form of a signed JWT, so that it is neither the server's token nor an agent's."""
    return text.count(".") == 2  # noqa: PLR2004 - header, claims and signature


class Verifier:
    """Verifier of the tokens of a project's issuers; thread-safe.

    Args:
        root: The folder of the project.
        clock: Returns the time in seconds since 1970.
        keys: The keys of the issuers; by default new ones.
    """

    def __init__(
        self,
        root: Path,
        clock: Callable[[], float] = time.time,
        keys: KeySets | None = None,
    ) -> None:
        self._clock = clock
        self._keys = keys or KeySets(root)

    def verify(self, config: ProjectConfig, text: str) -> AccessToken:
        """Return the facts of a valid token.

        Args:
            config: The configuration with the issuers that the user of this machine has trusted.
            text: The token.

        Raises:
            InvalidTokenError: if it is not valid.
            NoMappedRoleError: if it is, but no role is mapped to its holder.
            KeysUnavailableError: if the keys of its issuer cannot be fetched.
        """
        if len(text) > MOST_BYTES:
            raise InvalidTokenError("it is too large")
        if not text.isascii() or not is_jwt(text):
            raise InvalidTokenError("it is not a signed JWT")
        signed, _, signature = text.rpartition(".")
        raw_header, _, raw_claims = signed.partition(".")
        header = _object(raw_header)
        _check_header(header)
        claims = _object(raw_claims)
        # Read before the signature is checked, only to find the keys.
        issuer = next(
            (listed for listed in config.issuers if listed.issuer == claims.get("iss")), None
        )
        if issuer is None:
            raise InvalidTokenError("its issuer is not accepted")
        keys = self._keys.find(config, issuer, header.get("kid"), header["alg"])
        content, given = signed.encode("ascii"), _bytes(signature)
        if not any(key.verify(content, given) for key in keys):
            raise InvalidTokenError("its signature is not one of its issuer")
        self._check_times(claims)
        audience = _check_audience(claims, issuer)
        subject, jti = claims.get("sub"), claims.get("jti")
        if not _is_name(subject):
            raise InvalidTokenError("its sub is missing, or not a short text")
        if "jti" in claims and not _is_name(jti):
            raise InvalidTokenError("its jti is not a short text")
        if "cnf" in claims:
            raise InvalidTokenError(
                "it is bound to a key (cnf), and proofs of possession are not supported"
            )
        return AccessToken(
            issuer.issuer,
            str(subject),
            _role(issuer, claims),
            f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
            claims["exp"],
            jti,
            audience,
            _texts(claims.get("caps")),
            _text(claims.get("blast_radius")),
            _text(claims.get("exec_act")),
            _text(claims.get("target")),
            _text(claims.get("inp_hash")),
        )

    def _check_times(self, claims: JsonObject) -> None:
        time_s = self._clock()
        for name in ("exp", "iat", "nbf"):
            # RFC 7519 permits fractions, and PyJWT texts too. No issuer needs them, and other readers round them.
            if (name in claims or name != "nbf") and type(claims.get(name)) is not int:
                raise InvalidTokenError(f"its {name} is missing, or not a whole number")
        if claims["exp"] + SKEW_S <= time_s:
            raise InvalidTokenError("it has expired")
        if claims["iat"] - SKEW_S > time_s:
            raise InvalidTokenError("it was issued in the future")
        if claims.get("nbf", 0) - SKEW_S > time_s:
            raise InvalidTokenError("it is not valid yet")


def token_in_file(file: Path) -> str:
    """Return the token in a file that a user names.

    Raises:
        CovaltError: ``token_file``, if the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 2)
    except OSError as error:
        why = (error.strerror or "").lower()
        raise CovaltError(f"{str(file)!r} cannot be read: {why}", code="token_file") from None
    # What is not ASCII is no token; it is refused as one.
    return content.decode("ascii", "replace").strip()


def _check_header(header: JsonObject) -> None:
    kind = header.get("typ", "JWT")
    if header.get("alg") not in ALGORITHMS:
        raise InvalidTokenError(f"its alg is not one of {', '.join(ALGORITHMS)}")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise InvalidTokenError("its typ is not that of an access token")
    # A critical extension that is not understood must be refused (RFC 7515, section 4.1.11), and none is.
    if "crit" in header or "b64" in header:
        raise InvalidTokenError("it needs an extension of JWS")
    if not isinstance(header.get("kid"), str | None):
        raise InvalidTokenError("its kid is not a text")


def _check_audience(claims: JsonObject, issuer: Issuer) -> tuple[str, ...]:
    claim = claims.get("aud")
    audience = _texts([claim] if isinstance(claim, str) else claim)
    if not audience:
        raise InvalidTokenError("its aud is missing, or has no texts")
    if issuer.audience not in audience:
        raise InvalidTokenError("it is for another audience")
    return audience


def _role(issuer: Issuer, claims: JsonObject) -> str:
    if issuer.roles is None:
        assert issuer.role is not None
        return issuer.role
    claim = claims.get(issuer.roles.claim)
    values = _texts([claim] if isinstance(claim, str) else claim) or ()
    role = next((role for value, role in issuer.roles.map.items() if value in values), None)
    if role is None:
        raise NoMappedRoleError
    return role


def _object(part: str) -> JsonObject:
    """Return the JSON object in a part of a token; repeated members are refused, which other readers take differently."""
    try:
        value = canonical_json.loads(_bytes(part))
    except (canonical_json.NotJsonError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidTokenError("its header or its claims are not a JSON object with unique names")
    return value


def _bytes(part: str) -> bytes:
    """Return the bytes of a part, of which there is one spelling only.

    A signature with ES256 has two values for the same claims (FIPS 186-5: s and n - s), and issuers use both.  So the
    digest of a token identifies its text, and an execution is identified by the issuer and jti.
    """
    try:
        content = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise InvalidTokenError("it is not base64url") from None
    if base64.urlsafe_b64encode(content).rstrip(b"=") != part.encode("ascii"):
        raise InvalidTokenError("it is not base64url")
    return content


def _is_name(value: Any) -> bool:
    # A line break or an escape sequence would be one in logs and commits.
    return isinstance(value, str) and 0 < len(value) <= _MOST_LETTERS and value.isprintable()


def _text(value: Any) -> str | None:
    """Return the value of a claim that is a text; another one counts as missing, which is refused where it is needed."""
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None
