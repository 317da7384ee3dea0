"""Tokens of an issuer for tests: valid ones, and ones with any change, signed with keys of this process."""

from __future__ import annotations

import base64
import json
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from covalt_git.access.security import input_hash
from covalt_git.models.tool_properties import Security
from covalt_git.names import new_id

if TYPE_CHECKING:
    from pathlib import Path

ISSUER, AUDIENCE = "https://id.example.com", "covalt"
TOOL = "guarded:echo"
RESOURCE = "https://tools.example.com/echo"
ARGS = {"text": "hello"}
SECURITY = Security(
    resource_uri=RESOURCE,
    required_capabilities=("read", "write"),
    max_blast_radius="namespace:analytics",
    requires_execution=True,
    allowed_operations=("echo", "print"),
    allowed_targets=("urn:target:a", "urn:target:b"),
    protocols=("mcp", "http"),
)
WHOLE = (
    f"resource_uri: '{RESOURCE}', required_capabilities: [read, write],"
    " max_blast_radius: 'namespace:analytics', requires_execution: true, allowed_operations: [echo, print],"
    " allowed_targets: ['urn:target:a', 'urn:target:b'], protocols: [mcp, http]"
)
"""The same block in YAML."""

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def encoded(content: bytes) -> str:
    """Return bytes in base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@cache
def key(name: str) -> PrivateKey:
    """Return the private key of a name, such as ``RS256`` or ``RS256 of another``; it stays the same in this process."""
    match name.partition(" ")[0]:
        case "RS256":
            return rsa.generate_private_key(65537, 2048)
        case "RS1024":
            return rsa.generate_private_key(65537, 1024)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "ES384":
            return ec.generate_private_key(ec.SECP384R1())
    return ed25519.Ed25519PrivateKey.generate()


def jwk(name: str, **fields: Any) -> dict[str, Any]:
    """Return the public JWK of a key."""
    import jwt.algorithms  # noqa: PLC0415

    public = key(name).public_key()
    kinds: dict[str, Any] = {
        "R": jwt.algorithms.RSAAlgorithm,
        "E": jwt.algorithms.ECAlgorithm if name.startswith("ES") else jwt.algorithms.OKPAlgorithm,
    }
    entry = json.loads(kinds[name[0]].to_jwk(public))
    return {**entry, "kid": name, **fields}


def jwks(*entries: dict[str, Any]) -> bytes:
    """Return a JWKS; by default with one key of each algorithm."""
    keys = entries or (jwk("RS256"), jwk("ES256"), jwk("EdDSA"))
    return json.dumps({"keys": keys}).encode()


def signature(name: str, content: bytes) -> bytes:
    """Return the signature of a key as in RFC 7518."""
    private = key(name)
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return private.sign(content)
    r, s = decode_dss_signature(private.sign(content, ec.ECDSA(hashes.SHA256())))
    size = (private.key_size + 7) // 8
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a token that is valid for :data:`TOOL` with :data:`SECURITY` and :data:`ARGS`."""
    now = int(time.time())
    return {
        "iss": ISSUER,
        "sub": "ann",
        "aud": [AUDIENCE, RESOURCE],
        "iat": now,
        "exp": now + 300,
        "jti": new_id(),
        "caps": ["read", "write", "more"],
        "blast_radius": "namespace:analytics",
        "exec_act": "echo",
        "target": "urn:target:a",
        "inp_hash": input_hash(ARGS),
        **changes,
    }


class Parts(NamedTuple):
    """The parts of a token before it is signed, as texts, so that they need not be valid JSON."""

    header: str
    claims: str
    key: str = "ES256"

    @property
    def text(self) -> str:
        signed = f"{encoded(self.header.encode())}.{encoded(self.claims.encode())}"
        return f"{signed}.{encoded(signature(self.key, signed.encode()))}"


def parts(name: str = "ES256", **changes: Any) -> Parts:
    header = {"alg": name.partition(" ")[0], "typ": "at+jwt", "kid": name}
    return Parts(json.dumps(header), json.dumps(claims(**changes)), name)


def token(name: str = "ES256", **changes: Any) -> str:
    """Return a valid token with changed claims, signed with the key of a name."""
    return parts(name, **changes).text


def public_pem(name: str) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key(name).public_key().public_bytes(serialization.Encoding.PEM, form)


def list_issuer(root: Path, role: str = "caller", more: str = "", roles: str = "") -> None:
    """Write the issuer into ``covalt.yaml`` of a project, with its keys, and roles that may call everything or nothing."""
    (root / "keys").mkdir(exist_ok=True)
    (root / "keys/id.json").write_bytes(jwks())
    config = root / "covalt.yaml"
    entry = roles or f"role: {role}"
    config.write_text(
        "version: 1\ndefault_role: owner\n"
        "roles:\n  owner: {admin: true}\n  caller: {allow: ['**']}\n  nobody: {allow: []}\n"
        "  reviewer: {allow: ['**'], approve: ['**']}\n"
        f"issuers:\n  - {{issuer: '{ISSUER}', audience: {AUDIENCE}, jwks_file: keys/id.json, {entry}}}\n{more}",
        encoding="utf-8",
    )
