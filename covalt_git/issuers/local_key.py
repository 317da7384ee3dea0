"""The user's own issuer: a key outside of all projects, which signs tokens that fit one tool.

Its tokens are accepted like those of any issuer: only if ``covalt.yaml`` lists it, with its public key in the project.
"""

from __future__ import annotations

import base64
import hashlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from covalt_git.json_values import JsonObject

ALGORITHM = "EdDSA"


class LocalKeyError(CovaltError):
    """The user's key cannot be used."""

    code = "local_key"


class LocalKey(NamedTuple):
    """A private key of Ed25519, as a JWK."""

    private: JsonObject

    @classmethod
    def of_user(cls) -> LocalKey:
        """Return the key of the user of this machine, which is created on first use.

        Raises:
            LocalKeyError: if its file cannot be read or written, or others can access it.
        """
        file = key_path()
        content = read_private(file, LocalKeyError)
        if content is None:
            try:
                atomic_write.create_private(file, canonical_json.dumps(_new_key()) + b"\n")
            except FileExistsError:
                pass  # another process was faster
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise LocalKeyError(f"{str(file)!r} cannot be written: {why}") from None
            content = read_private(file, LocalKeyError)
        try:
            private = canonical_json.loads(content or "")
        except canonical_json.NotJsonError:
            private = None
        if not isinstance(private, dict) or not isinstance(private.get("x"), str):
            raise LocalKeyError(f"{str(file)!r} has no key", hint=f"rm {file}")
        return cls(private)

    @property
    def kid(self) -> str:
        """The thumbprint of the key (RFC 7638)."""
        members = {name: self.private[name] for name in ("crv", "kty", "x")}
        digest = hashlib.sha256(canonical_json.dumps(members)).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    @property
    def issuer(self) -> str:
        """The issuer of its tokens: the thumbprint as a URI (RFC 9278)."""
        return f"urn:ietf:params:oauth:jwk-thumbprint:sha-256:{self.kid}"

    @property
    def jwks(self) -> JsonObject:
        """The key set with the public key, for ``jwks_file``."""
        public = {name: self.private[name] for name in ("kty", "crv", "x")}
        return {"keys": [{**public, "alg": ALGORITHM, "kid": self.kid, "use": "sig"}]}

    def mint(self, claims: JsonObject, lasts: timedelta) -> str:
        """Return a token with these claims, and with the issuer, the times and an id."""
        import jwt  # noqa: PLC0415 - few commands mint tokens

        issued_at = int(time.time())
        own = {
            "iss": self.issuer,
            "iat": issued_at,
            "exp": issued_at + int(lasts.total_seconds()),
            "jti": new_id(),
        }
        key: Any = jwt.PyJWK(self.private, ALGORITHM).key
        headers = {"kid": self.kid, "typ": "at+jwt"}
        return jwt.encode(claims | own, key, ALGORITHM, headers=headers)


def key_path() -> Path:
    """Return the path of the user's key."""
    return user_folder() / "issuer-key.json"


def _new_key() -> JsonObject:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from jwt.algorithms import OKPAlgorithm  # noqa: PLC0415 - once for each user

    return dict(OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True))
