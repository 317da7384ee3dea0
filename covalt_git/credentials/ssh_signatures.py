"""SSH signatures: of Ed25519 keys without a passphrase, made and verified in this process.

``ssh-keygen -Y sign`` writes the same bytes, but takes a process for each signature.  Formats: OpenSSH's PROTOCOL.sshsig
and PROTOCOL.key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.allowed_signers import wire_strings
from covalt_git.system.private_files import read_private

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ED25519 = b"ssh-ed25519"
MAX_SIGNATURE = 64 << 10
"""Maximum size of a signature in bytes; the longest keys need less than a tenth."""

_ARMOR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+?)\r?\n-----END SSH SIGNATURE-----\s*"
)
_PREAMBLE = b"SSHSIG"
_MAGIC = _PREAMBLE + (1).to_bytes(4)
_PARTS = 5  # key, namespace, reserved, hash, signature
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_LINE = 70
_MAKE_KEY = "make one outside of the project: ssh-keygen -t ed25519 -N '' -f FILE"


class SigningKeyError(CovaltError):
    """A private key that cannot sign."""

    code = "sign_key"
    http_status = 409


class SshSignature(NamedTuple):
    """The fields of a signature, which are not verified."""

    key: bytes
    namespace: bytes
    hash_name: bytes
    signature: bytes

    @classmethod
    def parse(cls, armored: bytes) -> SshSignature | None:
        """Return the fields of an armored signature; None if it is malformed."""
        armor = _ARMOR.fullmatch(armored) if len(armored) <= MAX_SIGNATURE else None
        try:
            blob = base64.b64decode(armor[1] if armor else b"", validate=False)
        except binascii.Error:
            return None
        parts = wire_strings(blob.removeprefix(_MAGIC)) if blob.startswith(_MAGIC) else None
        if parts is None or len(parts) != _PARTS:
            return None
        key, namespace, _, hash_name, signature = parts
        return cls(key, namespace, hash_name, signature)

    @property
    def armored(self) -> str:
        """The text that ``ssh-keygen -Y sign`` writes for these fields, without the last line feed."""
        fields = (self.key, self.namespace, b"", self.hash_name, self.signature)
        text = base64.b64encode(_MAGIC + b"".join(map(_string, fields))).decode()
        lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
        return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----"])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the key, as ``ssh-keygen -l`` prints it."""
        return fingerprint(self.key)

    def is_valid(self, content: bytes, namespace: bytes) -> bool:
        """Return whether the key signed the content for a namespace; false for keys that are not Ed25519."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - few commands verify
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )

        hasher = _HASHES.get(self.hash_name)
        key, signature = wire_strings(self.key), wire_strings(self.signature)
        # The namespace keeps apart what a key signs: a signature of a bundle must not pass as that of a commit.
        if hasher is None or self.namespace != namespace or not key or not signature:
            return False
        if [key[0], signature[0]] != [ED25519, ED25519] or {len(key), len(signature)} != {2}:
            return False
        signed = _signed(namespace, self.hash_name, hasher(content).digest())
        try:
            Ed25519PublicKey.from_public_bytes(key[1]).verify(signature[1], signed)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey(NamedTuple):
    """A private key of Ed25519, and its public key in the format of SSH."""

    private: Ed25519PrivateKey
    public: bytes

    @classmethod
    def read(cls, file: Path) -> SigningKey:
        """Return the key in a file, which only its owner can access.

        Raises:
            SigningKeyError: if the file is missing, has no Ed25519 key, or its key has a passphrase.
        """
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - few projects sign
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            PublicFormat,
            load_ssh_private_key,
        )

        text = read_private(file, SigningKeyError)
        if text is None:
            raise SigningKeyError(
                f"the key {str(file)!r} does not exist, so commits cannot be signed", hint=_MAKE_KEY
            )
        try:
            private = load_ssh_private_key(text.encode(), None)
        except TypeError:
            # A call must not wait for a passphrase, and the server has no terminal to ask at.
            raise SigningKeyError(
                f"the key {str(file)!r} has a passphrase, which is not supported here; nor is ssh-agent",
                hint=_MAKE_KEY,
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            raise SigningKeyError(
                f"{str(file)!r} is not a private key of OpenSSH", hint=_MAKE_KEY
            ) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise SigningKeyError(
                f"the key {str(file)!r} is not of the type ssh-ed25519", hint=_MAKE_KEY
            )
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(private, _string(ED25519) + _string(raw))

    def sign(self, content: bytes, namespace: bytes) -> str:
        """Return the armored signature of the content for a namespace."""
        signed = _signed(namespace, b"sha512", hashlib.sha512(content).digest())
        signature = _string(ED25519) + _string(self.private.sign(signed))
        return SshSignature(self.public, namespace, b"sha512", signature).armored

    def __repr__(self) -> str:
        """Return the fingerprint, so that no log has the key."""
        return f"SigningKey({fingerprint(self.public)})"


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key in the format of SSH."""
    digest = base64.b64encode(hashlib.sha256(key).digest())
    return f"SHA256:{digest.decode().rstrip('=')}"


def _signed(namespace: bytes, hash_name: bytes, digest: bytes) -> bytes:
    """Return the bytes that are signed for a content with this digest."""
    return _PREAMBLE + b"".join(map(_string, (namespace, b"", hash_name, digest)))


def _string(content: bytes) -> bytes:
    """Return a string of RFC 4251, section 5."""
    return len(content).to_bytes(4) + content
